"""Grid hashing of the state, as in section 3 of the paper: each observation goes to its cell of a regular grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import loaded, per_dimension, positive, whole
from polaug.errors import invalid
from polaug.features.mixed_radix import MixedRadix
from polaug.features.scaling import Scaler
from polaug.features.spaces import Flattener, Space
from polaug.state import part, prefixed

_AUTOMATIC_ROWS = 1000
_AUTOMATIC_BINS = 20
_MAX_POINTS = 1 << 20


class Grid:
    """Rows are cells, the last dimension changing fastest; the features of a row are the centre of its cell.

    Give at most one of
    - `step`: the points low, low + step, …, high. The paper's MountainCar grid is `step=(0.1, 0.01)`: 19 × 15 rows;
    - `bins`: that many equal cells between low and high;
    once for all dimensions or one for each. With neither, equal bins and about 1000 rows.

    Where the space's bounds are infinite (CartPole's velocities) bins spread over the range observed so far, which is
    refreshed ever more rarely (see `Scaler`); until its first refresh such a dimension is one cell. A step needs
    bounds. Observations beyond the bounds go to the outermost cells.

    Centres are in the environment's units, as in the paper, with a `step`, and scaled to [−1, 1] otherwise; `scaled`
    overrides that.
    """

    def __init__(
        self,
        space: Space,
        *,
        step: float | Sequence[float] | None = None,
        bins: int | Sequence[int] | None = None,
        scaled: bool | None = None,
    ) -> None:
        self._flatten = flatten = Flattener(space)
        if step is not None and bins is not None:
            raise invalid("grid", "takes at most one of step and bins", "both", "Keep step.")
        self._scaled = step is None if scaled is None else scaled
        self.size = d = flatten.size
        highs = flatten.high
        # A cell number is rint((z + 1) · slope + shift) for z in [−1, 1]: points include both ends, bins do not.
        self._points: list[NDArray[np.float64]] | None = None
        if step is not None:
            self._points = _points(flatten, step)
            counts = np.array([len(points) for points in self._points], dtype=np.int64)
            highs = np.array([points[-1] for points in self._points])
            self._slope, self._shift = (counts[None] - 1) / 2, 0.0
        else:
            counts = _bins(bins, flatten)
            self._slope, self._shift = counts[None] / 2, -0.5
        self._cells = MixedRadix(counts)
        self._last = counts[None] - 1.0
        self._scaler = Scaler(flatten.low, highs, flatten.bounded, flatten.resolution, clip=1.0)
        self._columns = np.arange(d)
        self._centres = self._tabulate()

    @property
    def n_rows(self) -> int:
        """Number of cells."""
        return self._cells.total

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Centres (n, m) of the cells."""
        return self._features(self._cell(observations))

    def rows(self, observations: Any) -> NDArray[np.int64]:
        """Cell of each observation (n,)."""
        return self._cells.ravel(self._cell(observations))

    def row_features(self) -> NDArray[np.float64]:
        """X (n_rows, m)."""
        return self._features(self._cells.all())

    def observe(self, observations: Any) -> bool:
        """Widen the range of unbounded dimensions; True when the cells moved."""
        changed = self._scaler.observe(self._flatten(observations))
        if changed:
            self._centres = self._tabulate()
        return changed

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The scale of the cells and their numbers."""
        return prefixed("scaler", self._scaler.state_dict()) | {"counts": self._cells.counts.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded("Grid", state, self.state_dict())
        self._cells.check_same(new["counts"], "Grid")
        self._scaler.load_state_dict(part("scaler", new))
        self._centres = self._tabulate()

    def _cell(self, observations: Any) -> NDArray[np.int64]:
        """Cell (n, d) of each observation in each dimension."""
        position = self._scaler(self._flatten(observations))
        position += 1.0
        position *= self._slope
        position += self._shift
        np.rint(position, out=position)
        np.maximum(position, 0.0, out=position)
        np.minimum(position, self._last, out=position)
        return position.astype(np.int64)

    def _features(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        centres: NDArray[np.float64] = self._centres[self._columns, cells]
        return centres

    def _tabulate(self) -> NDArray[np.float64]:
        """Centres (d, largest count) of the cells of each dimension, padded with zeros."""
        counts = self._cells.counts
        table = np.zeros((len(counts), int(counts.max())))
        centre, half_width = self._scaler.centre, self._scaler.half_width
        for at, count in enumerate(counts):
            if self._points is not None:
                points = self._points[at]
                inverse = 1 / half_width[at] if half_width[at] else 0.0
                table[at, :count] = (points - centre[at]) * inverse if self._scaled else points
            else:
                z = (2 * np.arange(count) + 1) / count - 1
                table[at, :count] = z if self._scaled else centre[at] + z * half_width[at]
        return table


def _points(flatten: Flattener, step: float | Sequence[float]) -> list[NDArray[np.float64]]:
    """For each dimension the points low, low + step, … up to the one nearest to high."""
    steps = [positive("step", width) for width in per_dimension("step", step, flatten.size)]
    if not flatten.bounded.all():
        at = int(np.argmin(flatten.bounded))
        raise invalid(
            "step",
            f"needs finite bounds, and dimension {at} has none",
            [float(flatten.low[at]), float(flatten.high[at])],
            "Pass bins= instead: bins follow the observed range.",
        )
    points = []
    for first, last, width in zip(flatten.low, flatten.high, steps, strict=True):
        count = round((last - first) / width) + 1
        if count > _MAX_POINTS:
            raise invalid("step", f"must leave at most {_MAX_POINTS} points in a dimension", width, "Raise step.")
        # Rounded well below a step: −1.2 + 3 · 0.1 is meant to be −0.9, not −0.8999999999999999.
        decimals = int(np.clip(9 - np.floor(np.log10(width)), 0, 15))
        points.append(np.round(first + width * np.arange(count), decimals))
    return points


def _bins(bins: int | Sequence[int] | None, flatten: Flattener) -> NDArray[np.int64]:
    """Number of cells (d,) in each dimension."""
    if bins is not None:
        counts = per_dimension("bins", bins, flatten.size)
        return np.array([whole("bins", count, 1, _MAX_POINTS) for count in counts], dtype=np.int64)
    count = min(_AUTOMATIC_BINS, max(2, int(_AUTOMATIC_ROWS ** (1 / flatten.size) + 1e-9)))
    # More cells than categories would leave rows that nothing can reach.
    choices = np.where(flatten.categorical, flatten.high - flatten.low + 1, count)
    return np.minimum(count, choices.astype(np.int64))
