"""Polynomial action features over the places of the actions in [−1, 1]: few numbers for many ordered actions."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.features.actions.base import MAX_GRID_DIMENSIONS, ActionFeatures
from polaug.features.spaces import Space


class PolynomialActions(ActionFeatures):
    """1, u and the products of two: (1, u, u²) for one dimension. Neighbouring actions share what they learn.

    Beyond four dimensions only squares are left of the products: there the listed actions are too few to tell more.
    A power that the values of a dimension can't tell from a lower one (u² when u is only ±1) is left out.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        several, many = self._counts > 1, self._counts > 2
        mixed = len(several) <= MAX_GRID_DIMENSIONS
        self._varied = np.flatnonzero(several)
        pairs = [
            (a, b) for a, b in combinations_with_replacement(self._varied.tolist(), 2) if (many[a] if a == b else mixed)
        ]
        self._pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._describe(self._monomials(self.u))

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of actions whose columns are `indices`: exact ones if not all actions are listed."""
        if not (self._continuous or self._sampled):
            return super().describe(actions, indices)
        return self._monomials(self._places(actions))

    def _monomials(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        first, second = self._pairs
        products = u[:, first] * u[:, second]
        return np.concatenate([np.ones((len(u), 1)), u[:, self._varied], products], axis=1)
