"""The mean of the states seen in each visited cell of a hash, in memory proportional to the visited cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polaug.checks import loaded
from polaug.errors import StateError
from polaug.state import LARGEST_COUNT, bounded, within

_FIRST, _GROWTH = 20, 1.3  # the rhythm of Scaler


class CellMeans:
    """Running means (cells, d) keyed by sorted row numbers; `lookup` reads a snapshot that ages between refreshes."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "cells.rows",
        "cells.means",
        "cells.seen",
        "cells.frozen_rows",
        "cells.frozen_means",
        "cells.counts",
    )

    def __init__(self, dimensions: int) -> None:
        self._rows = np.empty(0, dtype=np.int64)
        self._means = np.empty((0, dimensions))
        self._seen = np.empty(0, dtype=np.int64)
        self._frozen_rows, self._frozen_means = self._rows, self._means
        self._count, self._next_refresh = 0, _FIRST

    def observe(self, rows: NDArray[np.int64], x: NDArray[np.float64]) -> bool:
        """Take in x (n, d) seen in rows (n,); True when the snapshot was renewed."""
        self._merge(rows, x, np.ones(len(rows), dtype=np.int64))
        self._count += len(rows)
        if self._count < self._next_refresh:
            return False
        self._next_refresh = max(self._count + 1, int(self._count * _GROWTH))
        self._freeze()
        return True

    def rename(self, rows_of: Callable[[NDArray[np.float64]], NDArray[np.int64]]) -> None:
        """File every cell under the row that `rows_of` gives its mean, merging cells that meet."""
        means, seen = self._means, self._seen
        self._rows, self._means, self._seen = self._rows[:0], means[:0], seen[:0]
        self._merge(rows_of(means), means, seen)
        self._freeze()

    def lookup(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Mean (n, d) of each row in the snapshot, and whether it is there (n,)."""
        if not len(self._frozen_rows):
            return np.zeros((len(rows), self._means.shape[1])), np.zeros(len(rows), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._frozen_rows, rows), len(self._frozen_rows) - 1)
        return self._frozen_means[at], self._frozen_rows[at] == rows

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Running and frozen means, and the counts that decide the next refresh."""
        counts = np.array([self._count, self._next_refresh], dtype=np.int64)
        values = (self._rows, self._means, self._seen, self._frozen_rows, self._frozen_means, counts)
        return {key: value.copy() for key, value in zip(self.KEYS, values, strict=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded("CellMeans", state, self.state_dict(), growing=self.KEYS)
        rows, means, seen, frozen_rows, frozen_means, counts = (new[key] for key in self.KEYS)
        fits = len(rows) == len(means) == len(seen) and len(frozen_rows) == len(frozen_means) and len(counts) == 2
        if not fits or (np.diff(rows) <= 0).any() or (np.diff(frozen_rows) <= 0).any() or (seen < 1).any():
            raise StateError("state: rows, means and counts of the cells do not fit together. The state is damaged.")
        bounded("cells", np.concatenate([means, frozen_means]), 1e101)
        within("cells", np.concatenate([seen, counts]), 0, LARGEST_COUNT)
        self._rows, self._means, self._seen = rows, means, seen
        self._frozen_rows, self._frozen_means = frozen_rows, frozen_means
        self._count, self._next_refresh = int(counts[0]), int(counts[1])

    def _merge(self, rows: NDArray[np.int64], x: NDArray[np.float64], weights: NDArray[np.int64]) -> None:
        unique, inverse = np.unique(rows, return_inverse=True)
        new = np.setdiff1d(unique, self._rows, assume_unique=True)
        if len(new):
            at = np.searchsorted(self._rows, new)
            self._rows = np.insert(self._rows, at, new)
            self._means = np.insert(self._means, at, 0.0, axis=0)
            self._seen = np.insert(self._seen, at, 0)
        slots = np.searchsorted(self._rows, unique)
        deviations = np.zeros((len(unique), x.shape[1]))
        np.add.at(deviations, inverse, weights[:, None] * (x - self._means[slots[inverse]]))
        np.add.at(self._seen, slots[inverse], weights)
        self._means[slots] += deviations / self._seen[slots, None]

    def _freeze(self) -> None:
        self._frozen_rows, self._frozen_means = self._rows.copy(), self._means.copy()
