"""Random Fourier features of the state (Rahimi and Recht, 2007), with constant and linear terms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polaug.checks import finite, positive, size_limit, whole
from polaug.errors import invalid
from polaug.features.scaled import ScaledFeatures
from polaug.features.spaces import Space
from polaug.streams import stream


class RandomFourier(ScaledFeatures):
    """cos(ω·z) and sin(ω·z) for Gaussian ω: inner products approximate a Gaussian kernel of the scaled state.

    The kernel's length scale is `length_scale` · √d, which keeps its reach the same share of the state space in any
    dimension; several length scales make several groups of `frequencies` each. The features of a group have
    norm 1 together, whatever their number. Columns: for each group (see `groups`) its cosines then its sines, then
    the constant `constant`, then `linear` · z; either is left out when 0.
    """

    _drawn = ("frequencies",)

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        frequencies: int = 50,
        length_scale: float | Sequence[float] = 0.5,
        constant: float = 0.5,
        linear: float = 0.2,
        bounds: bool = True,
    ) -> None:
        super().__init__(space, bounds=bounds)
        d = self._flatten.size
        per_group = whole("frequencies", frequencies, 1)
        scales = list(length_scale) if isinstance(length_scale, (Sequence, np.ndarray)) else [length_scale]
        if not scales:
            raise invalid("length_scale", "must hold at least one number", length_scale, "Pass length_scale=0.5.")
        self._constant = finite("constant", constant)
        self._linear = finite("linear", linear)
        waves = 2 * per_group * len(scales)
        self.size = size_limit(
            f"{len(scales)} groups of {per_group} frequencies",
            waves + (self._constant != 0) + d * (self._linear != 0),
            "Lower frequencies, or pass fewer length scales.",
        )
        self._waves = waves
        self._amplitude = per_group**-0.5  # cos² + sin² = 1 for each frequency
        self.groups = tuple(slice(2 * per_group * group, 2 * per_group * (group + 1)) for group in range(len(scales)))
        rng = stream(whole("seed", seed, 0), "features", "random_fourier")
        drawn = [rng.standard_normal((d, per_group)) / (positive("length_scale", c) * np.sqrt(d)) for c in scales]
        self._frequencies = np.concatenate([half for group in drawn for half in (group, group)], axis=1)  # (d, waves)
        # sin ωz = cos(ωz − π/2): one matrix product and one call of cos make all waves.
        self._phases = np.tile(np.repeat([0.0, -np.pi / 2], per_group), len(scales))[None]

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        features = np.empty((len(z), self.size))
        waves = features[:, : self._waves]
        angles = np.dot(z, self._frequencies)
        angles += self._phases
        np.cos(angles, out=waves)
        waves *= self._amplitude
        if self._constant:
            features[:, self._waves] = self._constant
        if self._linear:
            np.multiply(z, self._linear, out=features[:, -z.shape[1] :])
        return features
