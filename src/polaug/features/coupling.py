"""Multi-indices with bounded coupling: which dimensions enter a product together, shared by Fourier and polynomials."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from polaug.checks import whole


def checked_coupling(coupling: int | None, dimensions: int) -> int:
    """`coupling` as a number of dimensions; None means at most two together."""
    return min(2 if coupling is None else whole("coupling", coupling, 1), dimensions)


def cube_size(dimensions: int, order: int, coupling: int) -> int:
    """Number of multi-indices in {0..order}^dimensions with at most `coupling` entries above zero."""
    return sum(math.comb(dimensions, active) * order**active for active in range(coupling + 1))


def cube(dimensions: int, order: int, coupling: int) -> NDArray[np.int64]:
    """Those multi-indices (size, dimensions), the zero one first, then by number of active dimensions."""
    found = []
    for active in range(coupling + 1):
        for where in itertools.combinations(range(dimensions), active):
            for values in itertools.product(range(1, order + 1), repeat=active):
                index = [0] * dimensions
                for dimension, value in zip(where, values, strict=True):
                    index[dimension] = value
                found.append(index)
    return np.array(found, dtype=np.int64).reshape(len(found), dimensions)


def simplex_size(dimensions: int, degree: int, coupling: int) -> int:
    """Number of multi-indices whose sum is at most `degree`, with at most `coupling` entries above zero."""
    return sum(math.comb(dimensions, active) * math.comb(degree, active) for active in range(coupling + 1))


class Monomials:
    """All monomials of z (n, d) up to `degree` with bounded coupling, the constant first, ordered by degree.

    Every monomial is one of the degree before times one variable, so that a batch takes one multiplication
    for each degree. `powers` (size, d) holds the exponents; `highest` (d,) may bound them for each variable.
    """

    def __init__(self, dimensions: int, degree: int, coupling: int, highest: NDArray[np.int64] | None = None) -> None:
        limit = np.full(dimensions, degree) if highest is None else highest
        level = [(0,) * dimensions]
        powers = list(level)
        self._steps: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for _ in range(degree):
            grown: list[tuple[int, ...]] = []
            parents, variables = [], []
            for parent, power in enumerate(level):
                # Only variables from the last active one on: every product is then built exactly once.
                last = max((v for v in range(dimensions) if power[v]), default=0)
                for variable in range(last, dimensions):
                    child = (*power[:variable], power[variable] + 1, *power[variable + 1 :])
                    if child[variable] <= limit[variable] and sum(e > 0 for e in child) <= coupling:
                        grown.append(child)
                        parents.append(parent)
                        variables.append(variable)
            if not grown:
                break
            self._steps.append((np.array(parents), np.array(variables)))
            level = grown
            powers += grown
        self.powers = np.array(powers, dtype=np.int64)
        self.size = len(powers)

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Monomials (n, size)."""
        values = np.empty((len(z), self.size))
        values[:, 0] = 1.0
        level, end = values[:, :1], 1
        for parents, variables in self._steps:
            start, end = end, end + len(parents)
            np.multiply(level[:, parents], z[:, variables], out=values[:, start:end])
            level = values[:, start:end]
        return values
