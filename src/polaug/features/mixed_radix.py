"""Numbering of the cells of a product of finite sets: the last dimension changes fastest, as the paper lists X."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_ROWS
from polaug.errors import StateError, invalid

_MOST = 1 << 62


class MixedRadix:
    """Cells of `counts` (d,) values in each dimension, `total` of them.

    Too many to number is an error only when a number is asked for: features need none.
    """

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts = counts
        self.total = math.prod(int(count) for count in counts)
        strides = [math.prod(int(count) for count in counts[d + 1 :]) for d in range(len(counts))]
        self._strides = np.array(strides, dtype=np.int64) if self.total <= _MOST else None

    def ravel(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number (n,) of each cell (n, d)."""
        if self._strides is None:
            raise invalid(
                "rows",
                "their number must fit a 64-bit integer",
                f"about 1e{math.log10(self.total):.0f} over {len(self.counts)} dimensions",
                "Use fewer bins, or simhash.",
            )
        return cells @ self._strides

    def all(self) -> NDArray[np.int64]:
        """Every cell (total, d), in order."""
        if self._strides is None or self.total > MAX_ROWS:
            raise too_many_rows(self.total)
        return np.arange(self.total)[:, None] // self._strides % self.counts

    def check_same(self, counts: NDArray[np.int64], owner: str) -> None:
        """A StateError unless a saved state has the same cells."""
        if not np.array_equal(counts, self.counts):
            raise StateError(
                f"state: {owner} has {self.counts.tolist()} cells, the state has {counts.tolist()}. "
                "Load it into the map it came from."
            )


def too_many_rows(rows: int) -> Exception:
    """The error for an X that would not fit the memory."""
    return invalid(
        "row_features",
        f"can list at most {MAX_ROWS} rows",
        rows,
        "Use fewer bins or bits, or ask only for the features of visited observations.",
    )
