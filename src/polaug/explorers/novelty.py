"""Novelty: how little is known about a state, by the variance of a completion engine that has seen all visits."""

from __future__ import annotations

import numpy as np

from polaug.compiled import compiled
from polaug.completion.multi_output import MultiOutput
from polaug.explorers.base import FloatArray
from polaug.explorers.dynamics import add_rows_on_one_thread as _add
from polaug.features.kernels import bumps, exponentials, single_bumps
from polaug.snapshot import saved

_JITTER = 1e-6  # on the diagonal of kernel matrices


@saved("visited", "length", "ridge", "engine", "_least")
class Novelty:
    """How little is known about a state: the variance of an engine over radial basis functions around visited ones."""

    def __init__(self, visited: FloatArray, length: float, ridge: float) -> None:
        self.visited, self.length, self.ridge = visited, length, ridge
        kernel = bumps(visited, visited, length)
        kernel[np.diag_indices_from(kernel)] += _JITTER
        self._least: FloatArray = np.asarray(np.linalg.inv(kernel), dtype=np.float64)
        self.engine = MultiOutput(ridge * kernel, 0)

    def count(self, relevant: FloatArray) -> None:
        """Visits of states (n, d) in relevant units."""
        seen = single_bumps(relevant, self.visited, self.length).astype(np.float64)
        self.engine.add(seen, np.zeros((len(seen), 0)))

    def visit(
        self, states: FloatArray, centre: FloatArray, inverse: FloatArray, relevance: FloatArray,
        step: int | None = None,
    ) -> None:  # fmt: skip
        """`count` of raw states (n, d), in these units; `step` of them came at a time."""
        seen = kernel_rows(states, centre, inverse, relevance, self.visited, self.length)
        _add(self.engine, seen, np.zeros((len(seen), 0)), step)

    def write_certainty(self, out: FloatArray) -> None:
        """`certainty`, in place."""
        write_certainty(self.engine.lower, self._least, self.ridge, out)

    @property
    def certainty(self) -> FloatArray:
        """C (b, b): the variance at a state is 1 + k C kᵀ."""
        return self.ridge * self.engine.inverse - self._least

    def variance(self, relevant: FloatArray) -> FloatArray:
        """(n,): 1 far from everything visited, towards 0 with visits."""
        kernel = single_bumps(relevant, self.visited, self.length).astype(np.float64)
        variance: FloatArray = 1.0 + np.einsum("ij,ij->i", kernel @ self.certainty, kernel)
        return variance


def novelties(variance: FloatArray, known: float, novel: float) -> FloatArray:
    """κ: 0 up to the variance `known`, 1 from `novel` on."""
    return np.clip((variance - known) / (novel - known), 0.0, 1.0)


@compiled
def kernel_rows(
    states: FloatArray, centre: FloatArray, inverse: FloatArray, relevance: FloatArray, visited: FloatArray,
    length: float,
) -> FloatArray:  # fmt: skip
    """Radial basis functions (n, b) of raw states (n, d)."""
    rows = np.zeros((states.shape[0], visited.shape[0]))
    for i in range(states.shape[0]):
        for k in range(states.shape[1]):
            x = min(max((states[i, k] - centre[k]) * inverse[k], -3.0), 3.0) * relevance[k]
            for j in range(visited.shape[0]):
                rows[i, j] += (visited[j, k] - x) * (visited[j, k] - x)
        for j in range(visited.shape[0]):
            rows[i, j] *= -0.5 / length**2
        exponentials(rows[i])
    return rows


@compiled
def write_certainty(lower: FloatArray, least: FloatArray, ridge: float, out: FloatArray) -> None:
    """The certainty (b, b), ridge P − K⁻¹, from the lower triangle of P."""
    for i in range(lower.shape[0]):
        for j in range(i + 1):
            out[i, j] = ridge * lower[i, j] - least[i, j]
            out[j, i] = ridge * lower[i, j] - least[j, i]
