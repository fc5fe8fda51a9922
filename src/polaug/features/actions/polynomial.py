"""Polynomial action features over the places of the actions in [−1, 1]: few numbers for many ordered actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import whole
from polaug.features.actions.catalogue import MAX_ACTIONS, MAX_GRID_DIMENSIONS, ActionCatalogue
from polaug.features.coupling import Monomials, checked_coupling
from polaug.features.spaces import Space


class PolynomialActions(ActionCatalogue):
    """All monomials of u up to `degree`: (1, u, u²) for one dimension. Neighbouring actions share what they learn.

    By default two dimensions may enter a product together, and beyond four dimensions only one: there the listed
    actions are too few to tell more. A power that the values of a dimension can't tell from a lower one (u² when u
    is only ±1) is left out.
    """

    def __init__(
        self,
        space: Space,
        *,
        degree: int = 2,
        coupling: int | None = None,
        bins: int | Sequence[int] | None = None,
        max_actions: int = MAX_ACTIONS,
    ) -> None:
        super().__init__(space, bins, max_actions)
        degree = whole("degree", degree, 1)
        d = self.u.shape[1]
        if coupling is None and d > MAX_GRID_DIMENSIONS:
            coupling = 1
        self._monomials = Monomials(d, degree, checked_coupling(coupling, d), highest=self._counts - 1)
        self._describe(self._monomials(self.u))

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of actions whose columns are `indices`: exact ones if not all actions are listed."""
        if not (self._continuous or self._sampled):
            return super().describe(actions, indices)
        features: NDArray[np.float64] = self._monomials(self._places(actions))
        return features
