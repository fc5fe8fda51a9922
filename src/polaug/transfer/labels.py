"""Q̂ as labels: for each state a distribution over the agent's choices, soft where Q̂ hardly prefers one to another.

A small network cannot follow every border that Q̂ draws between actions. Where the choice hardly matters it need not,
and soft labels say so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.transfer.asked import Asked
from polaug.transfer.base import Student, Tensor

_TEMPERATURE = 0.5  # in units of how far Q̂'s best action is above the mean of all, on average over states


class SoftLabels:
    """Asks an explorer, answers in the choices of a student that has discrete ones."""

    def __init__(self, student: Student, asked: Asked) -> None:
        self._student, self._asked = student, asked
        self._columns: list[NDArray[np.float64]] | None = None

    def __call__(self, observations: NDArray[Any], sizes: list[int]) -> Tensor | None:
        """Probabilities (n, Σ sizes): side by side for the factors of the action, whose choices number `sizes`."""
        q = self._asked.q_values(observations)
        if q is None:
            return self._certain(observations, sizes)
        if self._columns is None:
            self._columns = self._matrices(sizes)
        best = (q.max(axis=1) - q.mean(axis=1)).mean()
        weights = np.exp((q - q.max(axis=1, keepdims=True)) / max(_TEMPERATURE * best, 1e-300))
        weights /= weights.sum(axis=1, keepdims=True)
        return torch.from_numpy(np.concatenate([weights @ each for each in self._columns], axis=1).astype(np.float32))

    def _matrices(self, sizes: list[int]) -> list[NDArray[np.float64]]:
        """Which choice (K,) of each factor every column of Q̂ means (N, K)."""
        actions = self._asked.explorer.actions
        choices = self._student.actions(actions.to_environment(np.arange(actions.n_actions))).long().cpu().numpy()
        return [np.eye(size)[choices[:, factor]] for factor, size in enumerate(sizes)]

    def _certain(self, observations: NDArray[Any], sizes: list[int]) -> Tensor | None:
        """An explorer may say what it would do without having a Q̂."""
        actions = self._asked.greedy(observations)
        if actions is None:
            return None
        choices = self._student.actions(actions).long()
        parts = [torch.nn.functional.one_hot(choices[:, factor], size) for factor, size in enumerate(sizes)]
        return torch.cat(parts, dim=1).float()
