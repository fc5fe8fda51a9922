"""Random Fourier features of the state (Rahimi and Recht, 2007), with constant and linear terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polaug.checks import positive, size_limit, whole
from polaug.features.scaling import ScaledFeatures
from polaug.features.spaces import Space
from polaug.streams import stream

_CONSTANT, _LINEAR = 0.5, 0.2  # weights of the constant and linear terms beside waves of norm 1


class RandomFourier(ScaledFeatures):
    """cos(ω·z) and sin(ω·z) for Gaussian ω: inner products approximate a Gaussian kernel of the scaled state.

    The kernel's length scale is `length_scale` · √d, which keeps its reach the same share of the state space in any
    dimension. Columns: cosines, then sines, which have norm 1 together whatever the number of `frequencies`, then ½,
    then z / 5.
    """

    _drawn = ("frequencies",)

    def __init__(
        self, space: Space, *, seed: int = 0, frequencies: int = 50, length_scale: float = 0.5, bounds: bool = True
    ) -> None:
        super().__init__(space, bounds=bounds)
        d = self._flatten.size
        self._waves = 2 * whole("frequencies", frequencies, 1)
        self.size = size_limit(f"{frequencies} frequencies", self._waves + 1 + d, "Lower frequencies.")
        self._amplitude = frequencies**-0.5  # cos² + sin² = 1 for each frequency
        rng = stream(whole("seed", seed, 0), "features", "random_fourier")
        drawn = rng.standard_normal((d, frequencies)) / (positive("length_scale", length_scale) * np.sqrt(d))
        self._frequencies = np.concatenate([drawn, drawn], axis=1)  # (d, waves)
        # sin ωz = cos(ωz − π/2): one matrix product and one call of cos make all waves.
        self._phases = np.repeat([0.0, -np.pi / 2], frequencies)[None]

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        features = np.empty((len(z), self.size))
        waves = features[:, : self._waves]
        angles = np.dot(z, self._frequencies)
        angles += self._phases
        np.cos(angles, out=waves)
        waves *= self._amplitude
        features[:, self._waves] = _CONSTANT
        np.multiply(z, _LINEAR, out=features[:, self._waves + 1 :])
        return features
