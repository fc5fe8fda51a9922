"""Polynomial action features over the places of the actions in [−1, 1]: few numbers for many ordered actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import whole
from polaug.features.actions.base import MAX_GRID_DIMENSIONS, ActionFeatures
from polaug.features.spaces import Space


class PolynomialActions(ActionFeatures):
    """All monomials of u up to `degree`: (1, u, u²) for one dimension. Neighbouring actions share what they learn.

    Two dimensions may enter a product together, and beyond four dimensions only one: there the listed
    actions are too few to tell more. A power that the values of a dimension can't tell from a lower one (u² when u
    is only ±1) is left out.
    """

    def __init__(self, space: Space, *, degree: int = 2, bins: int | Sequence[int] | None = None) -> None:
        super().__init__(space, bins)
        d = self.u.shape[1]
        self._monomials = Monomials(whole("degree", degree, 1), 2 if d <= MAX_GRID_DIMENSIONS else 1, self._counts - 1)
        self._describe(self._monomials(self.u))

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of actions whose columns are `indices`: exact ones if not all actions are listed."""
        if not (self._continuous or self._sampled):
            return super().describe(actions, indices)
        features: NDArray[np.float64] = self._monomials(self._places(actions))
        return features


class Monomials:
    """All monomials of u (n, d) up to `degree`, the constant first, ordered by degree.

    At most `coupling` variables enter a product together, each with a power of at most `highest` (d,). Every monomial
    is one of the degree before times one variable, so that a batch takes one multiplication for each degree.
    """

    def __init__(self, degree: int, coupling: int, highest: NDArray[np.int64]) -> None:
        dimensions = len(highest)
        level = [(0,) * dimensions]
        self._size = 1
        self._steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for _ in range(degree):
            grown: list[tuple[int, ...]] = []
            parents, variables = [], []
            for parent, power in enumerate(level):
                # Only variables from the last active one on: every product is then built exactly once.
                last = max((v for v in range(dimensions) if power[v]), default=0)
                for variable in range(last, dimensions):
                    child = (*power[:variable], power[variable] + 1, *power[variable + 1 :])
                    if child[variable] <= highest[variable] and sum(e > 0 for e in child) <= coupling:
                        grown.append(child)
                        parents.append(parent)
                        variables.append(variable)
            if not grown:
                break
            self._steps.append((np.array(parents), np.array(variables)))
            level = grown
            self._size += len(grown)

    def __call__(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Monomials (n, size)."""
        values = np.empty((len(u), self._size))
        values[:, 0] = 1.0
        level, end = values[:, :1], 1
        for parents, variables in self._steps:
            start, end = end, end + len(parents)
            np.multiply(level[:, parents], u[:, variables], out=values[:, start:end])
            level = values[:, start:end]
        return values
