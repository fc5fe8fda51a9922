"""Fourier basis of the state (Konidaris, Osentoski and Thomas, 2011): cosines on scaled states, bounded coupling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_SIZE, size_limit, whole
from polaug.features.coupling import checked_coupling, cube, cube_size
from polaug.features.scaled import ScaledFeatures
from polaug.features.spaces import Space

_AUTOMATIC_SIZE = 150  # about what a solver updates at every step without being felt
_AUTOMATIC_ORDER = 5


class Fourier(ScaledFeatures):
    """cos(π c·s) for s = (z + 1)/2 in [0, 1]^d and every c in {0..order}^d with at most `coupling` non-zero entries.

    By default coupling 2 and order 5; without an `order` both are lowered for many dimensions, to about 150 features.
    States beyond the bounds are clipped to them (`clip=1`): a cosine would fold them back onto other states.
    """

    def __init__(
        self,
        space: Space,
        *,
        order: int | None = None,
        coupling: int | None = None,
        bounds: bool = True,
        clip: float = 1.0,
        statistics: str = "range",
        max_size: int = MAX_SIZE,
    ) -> None:
        super().__init__(space, bounds=bounds, clip=clip, statistics=statistics)
        d = self._flatten.size
        order, coupling = _automatic(d, order, coupling)
        self.size = size_limit(
            f"the Fourier basis of order {order} and coupling {coupling} over {d} dimensions",
            cube_size(d, order, coupling),
            whole("max_size", max_size, 1),
            "Lower order or coupling, or use random_fourier.",
        )
        self._angles = np.pi / 2 * cube(d, order, coupling).T.astype(np.float64)  # (d, m)

    @property
    def coefficients(self) -> NDArray[np.int64]:
        """The vectors c (m, d), the constant first."""
        return np.rint(self._angles.T / (np.pi / 2)).astype(np.int64)

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        z += 1.0
        angles: NDArray[np.float64] = np.dot(z, self._angles)
        return np.cos(angles, out=angles)


def _automatic(dimensions: int, order: int | None, coupling: int | None) -> tuple[int, int]:
    """Order and coupling as given; a missing order as high as the automatic size allows, giving up coupling last."""
    most = checked_coupling(coupling, dimensions)
    if order is not None:
        return whole("order", order, 1), most
    for fewer in range(most, 0 if coupling is None else most - 1, -1):
        for lower in range(_AUTOMATIC_ORDER, 0, -1):
            if cube_size(dimensions, lower, fewer) <= _AUTOMATIC_SIZE:
                return lower, fewer
    return 1, 1 if coupling is None else most
