"""SimHash of the state (Charikar, 2002; for exploration Tang et al., 2017): signs of Gaussian projections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_ROWS, choice, whole
from polaug.features.cell_means import CellMeans
from polaug.features.mixed_radix import too_many_rows
from polaug.features.scaled import ScaledFeatures
from polaug.features.spaces import Space
from polaug.streams import stream


class SimHash(ScaledFeatures):
    """`bits` signs of A z, A Gaussian (bits, d): 2^bits rows, of which only the visited ones ever cost anything.

    Observations are centred at their running mean and scaled by their deviation first (not by the space's bounds:
    a hash splits the states evenly only when their mean is at 0). The planes pass through that mean, so z and
    3 z share a row; with `bias=True` they are shifted by Gaussian offsets and tell the two apart.
    Until the scale's first refresh all observations share one row.

    The features of a row are its bits in {−1, +1} (`row_values="bits"`), or the mean of the scaled observations seen in
    it (`row_values="means"`; 0, the overall mean, for a row that nothing was seen in). Means are frozen between
    refreshes just as the scale is.
    """

    _drawn = ("planes", "offsets")

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        bits: int = 16,
        bias: bool = False,
        row_values: str = "bits",
        bounds: bool = False,
        clip: float = 3.0,
        statistics: str = "moments",
    ) -> None:
        super().__init__(space, bounds=bounds, clip=clip, statistics=statistics)
        bits = whole("bits", bits, 1, 62)  # a row number is an int64
        rng = stream(whole("seed", seed, 0), "features", "simhash")
        d = self._flatten.size
        self._planes = rng.standard_normal((d, bits))
        self._offsets = rng.standard_normal(bits) if bias else np.zeros(bits)
        self._powers = 1 << np.arange(bits, dtype=np.int64)
        use_means = choice("row_values", row_values, ("bits", "means")) == "means"
        self._means = CellMeans(d) if use_means else None
        self.size = d if use_means else bits

    @property
    def n_rows(self) -> int:
        """2^bits."""
        return 1 << len(self._powers)

    def rows(self, observations: Any) -> NDArray[np.int64]:
        """Row of each observation (n,): bit i counts 2^i."""
        return self._rows_of(self._scaler(self._flatten(observations)))

    def rows_of_flat(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """`rows` of observations that are flat already (n, d)."""
        return self._rows_of(self._scaler(x))

    def row_features(self) -> NDArray[np.float64]:
        """X (n_rows, m)."""
        if self.n_rows > MAX_ROWS:
            raise too_many_rows(self.n_rows)
        return self._features_of(np.arange(self.n_rows))

    def observe(self, observations: Any) -> bool:
        """Update the scale (and the means of the cells); True when rows or features changed."""
        x = self._flatten(observations)
        changed = self._scaler.observe(x)
        if self._means is None:
            return changed
        if changed:  # the cells moved: what was seen is filed again, each old cell as a whole
            self._means.rename(lambda means: self._rows_of(self._scaler(means)))
        return self._means.observe(self._rows_of(self._scaler(x)), x) or changed

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Planes and scale, and the means of the cells if they are used."""
        return super().state_dict() | (self._means.state_dict() if self._means else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        if self._means is None or not isinstance(state, Mapping):
            super().load_state_dict(state)
            return
        means = CellMeans(self.size)
        means.load_state_dict({key: array for key, array in state.items() if key in CellMeans.KEYS})
        super().load_state_dict({key: array for key, array in state.items() if key not in CellMeans.KEYS})
        self._means = means

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._means is None:
            return np.where(self._signs(z), 1.0, -1.0)
        return self._features_of(self._rows_of(z))

    def _signs(self, z: NDArray[np.float64]) -> NDArray[np.bool_]:
        signs: NDArray[np.bool_] = np.dot(z, self._planes) + self._offsets >= 0
        return signs

    def _rows_of(self, z: NDArray[np.float64]) -> NDArray[np.int64]:
        return self._signs(z).astype(np.int64) @ self._powers

    def _features_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if self._means is None:
            return np.where(rows[:, None] & self._powers, 1.0, -1.0)
        means, known = self._means.lookup(rows)
        return np.where(known[:, None], self._scaler(means), 0.0)
