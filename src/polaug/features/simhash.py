"""SimHash of the state (Charikar, 2002; for exploration Tang et al., 2017): signs of Gaussian projections."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_ROWS, whole
from polaug.features.mixed_radix import too_many_rows
from polaug.features.scaling import ScaledFeatures
from polaug.features.spaces import Space
from polaug.streams import stream


class SimHash(ScaledFeatures):
    """`bits` signs of A z, A Gaussian (bits, d): 2^bits rows, of which only the visited ones ever cost anything.

    Observations are centred at their running mean and scaled by their deviation first (not by the space's bounds:
    a hash splits the states evenly only when their mean is at 0). The planes pass through that mean, so z and
    3 z share a row; with `bias=True` they are shifted by Gaussian offsets and tell the two apart.
    Until the scale's first refresh all observations share one row. The features of a row are its bits in {−1, +1}.
    """

    _drawn = ("planes", "offsets")

    def __init__(self, space: Space, *, seed: int = 0, bits: int = 16, bias: bool = False) -> None:
        super().__init__(space, bounds=False, statistics="moments")
        self.size = bits = whole("bits", bits, 1, 62)  # a row number is an int64
        rng = stream(whole("seed", seed, 0), "features", "simhash")
        self._planes = rng.standard_normal((self._flatten.size, bits))
        self._offsets = rng.standard_normal(bits) if bias else np.zeros(bits)
        self._powers = 1 << np.arange(bits, dtype=np.int64)

    @property
    def n_rows(self) -> int:
        """2^bits."""
        return 1 << self.size

    def rows(self, observations: Any) -> NDArray[np.int64]:
        """Row of each observation (n,): bit i counts 2^i."""
        return self._signs(self._scaler(self._flatten(observations))).astype(np.int64) @ self._powers

    def row_features(self) -> NDArray[np.float64]:
        """X (n_rows, m)."""
        if self.n_rows > MAX_ROWS:
            raise too_many_rows(self.n_rows)
        return np.where(np.arange(self.n_rows)[:, None] & self._powers, 1.0, -1.0)

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(self._signs(z), 1.0, -1.0)

    def _signs(self, z: NDArray[np.float64]) -> NDArray[np.bool_]:
        signs: NDArray[np.bool_] = np.dot(z, self._planes) + self._offsets >= 0
        return signs
