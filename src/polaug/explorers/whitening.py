"""Running moments, and observations as networks take them: numbers whitened and clipped, categories one-hot."""

from __future__ import annotations

import numpy as np

from polaug.explorers.base import FloatArray
from polaug.features.spaces import Flattener
from polaug.snapshot import saved

_MOST_CHOICES = 1024  # of one category; above that its number is read as a position
_SMALLEST = 1e-100  # with observations up to 1e100 a smaller deviation would overflow


@saved("count", "values")
class Moments:
    """Mean and deviation of rows (n, d) seen so far, the same whatever the batches (Chan's update)."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self.values: FloatArray = np.zeros((2, size))
        """Mean, and sum of squared deviations from it (2, d)."""

    def observe(self, x: FloatArray) -> None:
        """Take in x (n, d), n ≥ 1."""
        mean, squares = self.values
        own = x.mean(axis=0)
        shift = own - mean
        share = len(x) / (self.count + len(x))
        squares += np.square(x - own).sum(axis=0) + np.square(shift) * (self.count * share)
        mean += shift * share
        self.count += len(x)

    @property
    def mean(self) -> FloatArray:
        """(d,)."""
        mean: FloatArray = self.values[0]
        return mean

    @property
    def deviation(self) -> FloatArray:
        """(d,), zero before anything was seen."""
        deviation: FloatArray = np.sqrt(self.values[1] / max(self.count, 1))
        return deviation


@saved("moments")
class Whitening:
    """Flat observations (n, d) as network inputs (n, size): (x − mean) / deviation clipped to ±`clip`, then one-hots.

    A number that has been constant so far is 0: nothing is known about its scale.
    """

    def __init__(self, flatten: Flattener, clip: float) -> None:
        choices = flatten.high - flatten.low + 1.0
        one_hot = flatten.categorical & (choices <= _MOST_CHOICES)
        self._numbers, self._categories = np.flatnonzero(~one_hot), np.flatnonzero(one_hot)
        self._low = flatten.low[one_hot]
        n_numbers, counts = len(self._numbers), choices[one_hot].astype(np.int64)
        self._first = n_numbers + np.cumsum(counts) - counts
        self.size = n_numbers + int(counts.sum())
        self._clip = clip
        self._resolution = 4.0 * np.maximum(flatten.resolution[~one_hot], np.finfo(np.float64).eps)
        self.moments = Moments(n_numbers)

    def observe(self, flat: FloatArray) -> None:
        """Update the running moments."""
        self.moments.observe(self._of_numbers(flat))

    def __call__(self, flat: FloatArray) -> FloatArray:
        """Inputs (n, size)."""
        mean, deviation = self.moments.mean, self.moments.deviation
        known = deviation > np.maximum(self._resolution * np.abs(mean), _SMALLEST)  # else it is rounding
        z = self._of_numbers(flat) - mean
        z *= np.divide(1.0, deviation, out=np.zeros_like(deviation), where=known)
        np.maximum(z, -self._clip, out=z)
        np.minimum(z, self._clip, out=z)
        if not len(self._categories):
            return z
        inputs = np.zeros((len(flat), self.size))
        inputs[:, : z.shape[1]] = z
        chosen = self._first + (flat[:, self._categories] - self._low).astype(np.int64)
        inputs[np.arange(len(flat))[:, None], chosen] = 1.0
        return inputs

    def _of_numbers(self, flat: FloatArray) -> FloatArray:
        return flat[:, self._numbers] if len(self._categories) else flat
