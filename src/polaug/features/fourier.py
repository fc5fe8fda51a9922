"""Fourier basis of the state (Konidaris, Osentoski and Thomas, 2011): cosines on scaled states, bounded coupling."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from polaug.checks import size_limit, whole
from polaug.features.scaling import ScaledFeatures
from polaug.features.spaces import Space

_AUTOMATIC_SIZE = 150  # about what a solver updates at every step without being felt
_AUTOMATIC_ORDER = 5
_COUPLING = 2  # dimensions that enter a cosine together


class Fourier(ScaledFeatures):
    """cos(π c·s) for s = (z + 1)/2 in [0, 1]^d and every c in {0..order}^d with at most two non-zero entries.

    By default the order is 5, or lower for many dimensions, and then at most one entry, to have about 150 features.
    States beyond the bounds are clipped to them: a cosine would fold them back onto other states.
    """

    def __init__(self, space: Space, *, order: int | None = None) -> None:
        super().__init__(space, clip=1.0)
        d = self._flatten.size
        coupling = _COUPLING
        if order is None:
            choices = ((order, coupling) for coupling in (_COUPLING, 1) for order in range(_AUTOMATIC_ORDER, 0, -1))
            order, coupling = next((each for each in choices if _size(d, *each) <= _AUTOMATIC_SIZE), (1, 1))
        self.size = size_limit(
            f"the Fourier basis of order {whole('order', order, 1)} over {d} dimensions",
            _size(d, order, coupling),
            "Lower the order, or use random_fourier.",
        )
        self.coefficients = _multi_indices(d, order, coupling)
        """The vectors c (m, d), the constant first."""
        self._angles = np.pi / 2 * self.coefficients.T.astype(np.float64)  # (d, m)

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        z += 1.0
        angles: NDArray[np.float64] = np.dot(z, self._angles)
        return np.cos(angles, out=angles)


def _size(dimensions: int, order: int, coupling: int) -> int:
    """Number of vectors in {0..order}^dimensions with at most `coupling` entries above zero."""
    return sum(math.comb(dimensions, active) * order**active for active in range(coupling + 1))


def _multi_indices(dimensions: int, order: int, coupling: int) -> NDArray[np.int64]:
    """Those vectors (size, dimensions), the zero one first, then by number of active dimensions."""
    found = []
    for active in range(coupling + 1):
        for where in itertools.combinations(range(dimensions), active):
            for values in itertools.product(range(1, order + 1), repeat=active):
                index = np.zeros(dimensions, dtype=np.int64)
                index[list(where)] = values
                found.append(index)
    return np.array(found)
