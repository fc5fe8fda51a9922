"""`epsilon_z`: temporally extended ε-greedy (Dabney et al., 2021): random actions that are repeated.

A random action is repeated for a random time n with P(n) ∝ n^−μ. Without an agent to be greedy with there is nothing to
be greedy about, so ε = 1 here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polaug.checks import positive, whole
from polaug.errors import invalid
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.features.spaces import Space
from polaug.snapshot import saved


@saved("_current", "_left")
class EpsilonZExplorer(Explorer):
    """Repeats each randomly drawn action for a zeta-distributed time.

    `exponent` is μ (2 in the paper), `longest` bounds a repetition. A repetition ends with its episode.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        exponent: float = 2.0,
        longest: int = 10_000,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        if positive("exponent", exponent) <= 1.0:
            raise invalid("exponent", "must be above 1: the times have no distribution otherwise", exponent, "Pass 2.")
        self._exponent, self._longest = float(exponent), whole("longest", longest, 1)
        self._current = np.zeros(0, dtype=np.int64)
        self._left = np.zeros(0, dtype=np.int64)

    def reset(self) -> None:
        """Repetitions end with their episodes."""
        self._left[:] = 0

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        n = len(flat)
        if n != len(self._left):
            self._current, self._left = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        for i in np.flatnonzero(self._left == 0):
            self._current[i] = self._rng.integers(self.actions.n_actions)
            self._left[i] = min(self._rng.zipf(self._exponent), self._longest)
        self._left -= 1
        return self._current.copy()

    def _learn(self, batch: Batch) -> None:
        if len(batch) == len(self._left):
            self._left[batch.ended] = 0
