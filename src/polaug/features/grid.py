"""Grid hashing of the state, as in section 3 of the paper: each observation goes to its cell of a regular grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import loaded, per_dimension, whole
from polaug.errors import invalid
from polaug.features.mixed_radix import MixedRadix
from polaug.features.scaling import Scaler
from polaug.features.spaces import UNBOUNDED, Flattener, Space

_AUTOMATIC_ROWS = 1000
_AUTOMATIC_BINS = 20
_MAX_POINTS = 1 << 20
_PREFIX = "scaler."


class Grid:
    """Rows are cells, the last dimension changing fastest; the features of a row are the centre of its cell.

    Give at most one of
    - `step`: the points low, low + step, …, high. The paper's MountainCar grid is `step=(0.1, 0.01)`: 19 × 15 rows;
    - `bins`: that many equal cells between low and high;
    - `edges`: for each dimension the increasing edges of its cells;
    `step` and `bins` once for all dimensions or one for each. With none of them, equal bins and about 1000 rows.

    `low` and `high` default to the space's bounds. Where these are infinite (CartPole's velocities) bins spread
    over the range observed so far, which is refreshed ever more rarely (see `Scaler`); until its first refresh
    such a dimension is one cell. A step needs bounds. Observations beyond the bounds go to the outermost cells.

    Centres are in the environment's units, as in the paper, when the caller described the grid in them (`step`,
    `edges`, `low` or `high`), and scaled to [−1, 1] otherwise; `scaled` overrides that. `constant=True` appends
    a feature 1.
    """

    def __init__(
        self,
        space: Space,
        *,
        step: float | Sequence[float] | None = None,
        bins: int | Sequence[int] | None = None,
        edges: Sequence[Sequence[float]] | None = None,
        low: float | Sequence[float] | None = None,
        high: float | Sequence[float] | None = None,
        scaled: bool | None = None,
        constant: bool = False,
    ) -> None:
        self._flatten = flatten = Flattener(space)
        d = flatten.size
        given = [name for name, value in (("step", step), ("bins", bins), ("edges", edges)) if value is not None]
        if len(given) > 1:
            raise invalid("grid", "takes at most one of step, bins and edges", " and ".join(given), f"Keep {given[0]}.")
        own_units = step is not None or edges is not None or low is not None or high is not None
        self._scaled = not own_units if scaled is None else bool(scaled)
        self._constant = bool(constant)
        self.size = d + self._constant

        self._edges = None if edges is None else _checked_edges(edges, d)
        if self._edges is not None:
            lows, highs = (np.array([edge[end] for edge in self._edges]) for end in (0, -1))
            bounded = np.ones(d, dtype=np.bool_)
        else:
            lows = flatten.low if low is None else per_dimension("low", low, d)
            highs = flatten.high if high is None else per_dimension("high", high, d)
            bounded = (np.abs(flatten.low) <= UNBOUNDED) | (low is not None)
            bounded &= (np.abs(flatten.high) <= UNBOUNDED) | (high is not None)
            if (bounded & (highs < lows)).any():
                raise invalid("high", "must not be below low", high, "Exchange low and high.")

        # A cell number is rint((z + 1) · slope + shift) for z in [−1, 1]: points include both ends, bins do not.
        self._points: list[NDArray[np.float64]] | None = None
        if step is not None:
            self._points = _points(lows, highs, bounded, per_dimension("step", step, d))
            counts = np.array([len(points) for points in self._points], dtype=np.int64)
            highs = np.array([points[-1] for points in self._points])
            self._slope, self._shift = (counts[None] - 1) / 2, 0.0
        elif self._edges is not None:
            counts = np.array([len(edge) - 1 for edge in self._edges], dtype=np.int64)
            self._points = [(edge[:-1] + edge[1:]) / 2 for edge in self._edges]
        else:
            counts = _bins(bins, d, flatten)
            self._slope, self._shift = counts[None] / 2, -0.5
        self._cells = MixedRadix(counts)
        self._last = counts[None] - 1.0
        self._scaler = Scaler(lows, highs, bounded, flatten.resolution, clip=1.0)
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
        state: dict[str, NDArray[Any]] = {_PREFIX + key: array for key, array in self._scaler.state_dict().items()}
        return state | {"counts": self._cells.counts.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded("Grid", state, self.state_dict())
        self._cells.check_same(new.pop("counts"), "Grid")
        self._scaler.load_state_dict({key.removeprefix(_PREFIX): array for key, array in new.items()})
        self._centres = self._tabulate()

    def _cell(self, observations: Any) -> NDArray[np.int64]:
        """Cell (n, d) of each observation in each dimension."""
        x = self._flatten(observations)
        if self._edges is not None:
            found = [np.searchsorted(edge[1:-1], x[:, at], side="right") for at, edge in enumerate(self._edges)]
            return np.stack(found, axis=1).astype(np.int64)
        position = self._scaler(x)
        position += 1.0
        position *= self._slope
        position += self._shift
        np.rint(position, out=position)
        np.maximum(position, 0.0, out=position)
        np.minimum(position, self._last, out=position)
        return position.astype(np.int64)

    def _features(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        centres: NDArray[np.float64] = self._centres[self._columns, cells]
        return np.hstack([centres, np.ones((len(cells), 1))]) if self._constant else centres

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


def _checked_edges(edges: Sequence[Sequence[float]], dimensions: int) -> list[NDArray[np.float64]]:
    remedy = "Pass edges=[[-1.2, -0.5, 0.6], ...], one increasing list for each dimension."
    try:
        arrays = [np.asarray(edge, dtype=np.float64) for edge in edges]
    except (TypeError, ValueError):
        raise invalid("edges", "must be lists of numbers", edges, remedy) from None
    if len(arrays) != dimensions:
        raise invalid("edges", f"must be one list for each of {dimensions} dimensions", edges, remedy)
    for edge in arrays:
        if edge.ndim != 1 or len(edge) < 2 or not np.isfinite(edge).all() or (np.diff(edge) <= 0).any():
            raise invalid("edges", "each must be at least two finite numbers, increasing", edge.tolist(), remedy)
    return arrays


def _points(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bounded: NDArray[np.bool_],
    step: NDArray[np.float64],
) -> list[NDArray[np.float64]]:
    """For each dimension the points low, low + step, … up to the one nearest to high."""
    if (step <= 0).any():
        raise invalid("step", "must be above 0", step.tolist(), "Pass step=(0.1, 0.01) or bins=20.")
    if not bounded.all():
        at = int(np.argmin(bounded))
        raise invalid(
            "step",
            f"needs finite bounds, and dimension {at} has none",
            [float(low[at]), float(high[at])],
            "Pass low= and high= too, or bins= instead: bins follow the observed range.",
        )
    points = []
    for first, last, width in zip(low, high, step, strict=True):
        count = round((last - first) / width) + 1
        if count > _MAX_POINTS:
            raise invalid("step", f"must leave at most {_MAX_POINTS} points in a dimension", width, "Raise step.")
        # Rounded well below a step: −1.2 + 3 · 0.1 is meant to be −0.9, not −0.8999999999999999.
        decimals = int(np.clip(9 - np.floor(np.log10(width)), 0, 15))
        points.append(np.round(first + width * np.arange(count), decimals))
    return points


def _bins(bins: int | Sequence[int] | None, dimensions: int, flatten: Flattener) -> NDArray[np.int64]:
    """Number of cells (d,) in each dimension."""
    if bins is not None:
        listed = list(bins) if isinstance(bins, (Sequence, np.ndarray)) else [bins] * dimensions
        if len(listed) != dimensions:
            raise invalid(
                "bins", f"must be one number or one for each of {dimensions} dimensions", bins, "Pass bins=10."
            )
        return np.array([whole("bins", count, 1, _MAX_POINTS) for count in listed], dtype=np.int64)
    count = min(_AUTOMATIC_BINS, max(2, int(_AUTOMATIC_ROWS ** (1 / dimensions) + 1e-9)))
    counts = np.full(dimensions, count, dtype=np.int64)
    # More cells than categories would leave rows that nothing can reach.
    choices = np.where(flatten.categorical, flatten.high - flatten.low + 1, count)
    return np.minimum(counts, choices.astype(np.int64))
