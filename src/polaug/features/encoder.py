"""A fixed random network that encodes images and very long vectors as a few numbers. It is neither trained nor saved.

An image is shrunk to at most 42 × 42 and goes through random 3 × 3 filters (with leaky rectifiers, so that different
images stay different). The lowest spatial frequencies of each filter's output, which change smoothly when something
moves, are then mixed to 32 numbers. A vector is mixed directly (Johnson and Lindenstrauss,
1984). Random convolutional features are a strong baseline for curiosity (Burda et al., 2019).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polaug.streams import stream

FloatArray = NDArray[np.float64]

SIZE = 32
"""Size of the code of an image."""

_LARGEST_SIDE = 42  # pixels of a shrunk image
_FILTERS = 8  # random filters; the channels are used, too
_FREQUENCIES = 5  # cosines along each side of a filter's output
_SLOPE = 0.2  # of the rectifiers below zero
_VECTOR_SIZE = 64  # size of the code of a very long vector
_REMEMBERED = 64  # codes kept: the next observation of one step is the observation of the next


class Encoder:
    """Arrays of `shape` (..., flattened) with bounds `low` and `high` to `size` numbers.

    The weights are the same for every seed. Each array is encoded separately, so equal arrays give exactly equal codes
    in any batch.
    """

    def __init__(self, shape: tuple[int, ...], low: FloatArray, high: FloatArray) -> None:
        rng = stream(0, "encoder")
        bounded = np.isfinite(low) & np.isfinite(high) & (high - low < 1e9) & (high > low)
        self._centre = np.where(bounded, (low + high) / 2, 0.0)
        self._inverse = np.where(bounded, 2.0 / np.where(bounded, high - low, 1.0), 1.0)
        self._remembered: dict[bytes, FloatArray] = {}
        self._picture = len(shape) >= 2
        if not self._picture:
            self.size = _VECTOR_SIZE
            self._mix = rng.standard_normal((int(np.prod(shape)), self.size)) / np.sqrt(self.size)
            return
        self.size = SIZE
        side = int(np.argmax([shape[k] * shape[k + 1] for k in range(len(shape) - 1)]))
        self._shape, self._axes = shape, (side, side + 1)
        height, width = shape[side], shape[side + 1]
        channels = int(np.prod(shape)) // (height * width)
        self._shrink = -(-max(height, width) // _LARGEST_SIDE)
        rows, columns = -(-height // self._shrink), -(-width // self._shrink)
        self._pool = (_pooling(height, self._shrink), _pooling(width, self._shrink))
        self._patch = (min(3, rows), min(3, columns))
        inputs = self._patch[0] * self._patch[1] * channels
        self._filters = rng.standard_normal((inputs, _FILTERS)) / np.sqrt(inputs)
        self._biases = 0.5 * rng.standard_normal(_FILTERS)
        self._cosines = [
            (_cosines(rows), _cosines(columns)),
            (_cosines(rows - self._patch[0] + 1), _cosines(columns - self._patch[1] + 1)),
        ]
        summed = _FREQUENCIES**2 * channels, _FREQUENCIES**2 * _FILTERS
        self._mix = np.concatenate([rng.standard_normal((n, self.size)) / np.sqrt(n) for n in summed])

    def __call__(self, flat: FloatArray) -> FloatArray:
        """Codes (n, size) of flat arrays (n, d)."""
        return np.array([self._code(row) for row in flat]).reshape(len(flat), self.size)

    def _code(self, row: FloatArray) -> FloatArray:
        key = row.tobytes()
        known = self._remembered.get(key)
        if known is None:
            while len(self._remembered) >= _REMEMBERED:
                del self._remembered[next(iter(self._remembered))]
            known = self._remembered[key] = self._encoded((row - self._centre) * self._inverse)
        return known

    def _encoded(self, x: FloatArray) -> FloatArray:
        if not self._picture:
            code: FloatArray = x @ self._mix
            return code
        picture = np.moveaxis(x.reshape(self._shape), self._axes, (0, 1))
        picture = picture.reshape(*picture.shape[:2], -1)
        if self._shrink > 1:
            picture = _summed(picture, *self._pool).swapaxes(0, 1)
        patches = np.lib.stride_tricks.sliding_window_view(picture, self._patch, axis=(0, 1))
        seen = patches.reshape(*patches.shape[:2], -1) @ self._filters + self._biases
        seen = np.maximum(seen, _SLOPE * seen)
        parts = [_summed(values, *waves).ravel() for waves, values in zip(self._cosines, (picture, seen), strict=True)]
        mixed: FloatArray = np.concatenate(parts) @ self._mix
        return mixed


def _summed(values: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Values (h, w, c) weighted by `rows` (f, h) and `columns` (g, w): (g, f, c)."""
    return np.tensordot(columns, np.tensordot(rows, values, (1, 0)), (1, 1))


def _pooling(side: int, by: int) -> FloatArray:
    """The matrix (⌈side / by⌉, side) that averages `by` neighbours."""
    groups = np.arange(side) // by
    matrix = (groups[None] == np.arange(groups[-1] + 1)[:, None]).astype(np.float64)
    pooling: FloatArray = matrix / matrix.sum(axis=1, keepdims=True)
    return pooling


def _cosines(side: int) -> FloatArray:
    """The lowest frequencies (f, side) of the discrete cosine transform."""
    at = (np.arange(side) + 0.5) / side
    cosines: FloatArray = np.cos(np.pi * np.arange(_FREQUENCIES)[:, None] * at)
    return cosines
