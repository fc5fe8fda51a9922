"""The guide's choices as labels: for each state a distribution over the agent's choices, or the action itself.

Labels are soft where the values of actions are close, because a small network cannot represent every boundary between
actions of Q̂.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.coach.pupil import Pupil, Tensor
from polaug.explorers import Explorer

TEMPERATURE = 0.5
"""Of the softmax over Q̂, in units of how far its best action is above the mean of all in the median state."""


class Labels:
    """Converts a guide's choices to labels for a pupil. `statistics` describe the latest Q̂."""

    def __init__(self, pupil: Pupil, guide: Explorer) -> None:
        self._pupil, self._guide = pupil, guide
        self._columns: list[NDArray[np.float64]] | None = None
        self.statistics: dict[str, float] = {}

    def probabilities(self, observations: Any, sizes: list[int]) -> Tensor | None:
        """Probabilities (n, Σ sizes): side by side for the factors of the action, whose choices number `sizes`.

        None if the guide has no labels yet.
        """
        q = self._q_values(observations)
        if q is None:
            return self._certain(observations, sizes)
        if self._columns is None:
            self._columns = self._matrices(sizes)
        # The median: with the mean, a few states with large differences would make all others undecided.
        best = float(np.median(q.max(axis=1) - q.mean(axis=1)))
        weights = np.exp((q - q.max(axis=1, keepdims=True)) / max(TEMPERATURE * best, 1e-300))
        weights /= weights.sum(axis=1, keepdims=True)
        return torch.from_numpy(np.concatenate([weights @ each for each in self._columns], axis=1).astype(np.float32))

    def actions(self, observations: Any) -> Tensor | None:
        """The guide's actions in the units of the pupil; None if it has none yet."""
        chosen = self._guide.greedy(observations)
        return None if chosen is None else self._pupil.actions(chosen)

    def _q_values(self, observations: Any) -> NDArray[np.float64] | None:
        q = self._guide.q_values(observations)
        self.statistics = {}
        if q is not None:
            gap = (q.max(axis=1) - q.mean(axis=1)).mean()
            self.statistics = {"q_mean": float(q.mean()), "q_spread": float(q.std()), "q_gap": float(gap)}
        return q

    def _matrices(self, sizes: list[int]) -> list[NDArray[np.float64]]:
        """For each factor, the choice of every column of Q̂ as one-hot rows (N, K)."""
        actions = self._guide.actions
        choices = self._pupil.actions(actions.to_environment(np.arange(actions.n_actions))).long().cpu().numpy()
        return [np.eye(size)[choices[:, factor]] for factor, size in enumerate(sizes)]

    def _certain(self, observations: Any, sizes: list[int]) -> Tensor | None:
        """One-hot labels of a guide without Q̂."""
        choices = self.actions(observations)
        if choices is None:
            return None
        parts = [torch.nn.functional.one_hot(choices[:, k].long(), size) for k, size in enumerate(sizes)]
        return torch.cat(parts, dim=1).float().cpu()
