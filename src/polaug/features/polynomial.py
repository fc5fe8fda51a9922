"""Polynomial features of the state: all monomials of the scaled state up to a degree, with bounded coupling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_SIZE, size_limit, whole
from polaug.features.coupling import Monomials, checked_coupling, simplex_size
from polaug.features.scaled import ScaledFeatures
from polaug.features.spaces import Space


class Polynomial(ScaledFeatures):
    """Monomials of z in [−1, 1]^d with total degree at most `degree` and at most `coupling` variables together.

    The constant comes first, then degree by degree. States beyond the bounds are clipped to them (`clip=1`), so
    that no monomial exceeds 1.
    """

    def __init__(
        self,
        space: Space,
        *,
        degree: int = 2,
        coupling: int | None = None,
        bounds: bool = True,
        clip: float = 1.0,
        statistics: str = "range",
        max_size: int = MAX_SIZE,
    ) -> None:
        super().__init__(space, bounds=bounds, clip=clip, statistics=statistics)
        d = self._flatten.size
        degree = whole("degree", degree, 1)
        coupling = min(checked_coupling(coupling, d), degree)
        size_limit(
            f"the monomials of degree {degree} and coupling {coupling} over {d} dimensions",
            simplex_size(d, degree, coupling),
            whole("max_size", max_size, 1),
            "Lower degree or coupling.",
        )
        self._monomials = Monomials(d, degree, coupling)
        self.size = self._monomials.size

    @property
    def powers(self) -> NDArray[np.int64]:
        """Exponents (m, d) of the monomials."""
        return self._monomials.powers

    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._monomials(z)
