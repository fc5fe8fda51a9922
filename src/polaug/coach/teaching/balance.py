"""`balance`: the paper's second future work, training on as many high-value as low-value rollouts.

A rollout is high-value if its return lies above the middle between the best and the worst one. The rarer kind is
repeated until both have the same number of steps. Rollouts of guide and agent are balanced together, as in the paper.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from polaug.coach.teaching.base import Rollout, Transfer


class Balance(Transfer):
    """Selects the steps that an on-policy agent trains on. There are no teaching updates."""

    families = ("policy_gradient",)

    def select(self, rollout: Rollout) -> NDArray[np.int64] | None:
        """Flat indices with repetition; both kinds are equally frequent."""
        value = rollout_returns(rollout).T.ravel()
        return balanced(value, self.rng)

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """No teaching updates."""
        return {}


def balanced(value: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Indices of steps, half of them from rollouts above the middle value; None if there is only one kind."""
    known = np.isfinite(value)
    if not known.any():
        return None
    middle = (value[known].max() + value[known].min()) / 2.0
    high, low = np.flatnonzero(known & (value > middle)), np.flatnonzero(known & (value <= middle))
    if not len(high) or not len(low):
        return None
    few, many = (high, low) if len(high) < len(low) else (low, high)
    extra = rng.choice(few, size=len(many) - len(few))
    return np.concatenate([many, few, extra]).astype(np.int64)


def rollout_returns(rollout: Rollout) -> NDArray[np.float64]:
    """The return (T, n) of the piece of an episode that each step belongs to."""
    T, n = rollout.rewards.shape
    result = np.zeros((T, n))
    for env in range(n):
        bounds = [0, *(np.flatnonzero(rollout.starts[1:, env]) + 1).tolist(), T]
        for first, end in itertools.pairwise(bounds):
            result[first:end, env] = rollout.rewards[first:end, env].sum()
    return result
