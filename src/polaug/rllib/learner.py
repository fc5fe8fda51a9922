"""PPO's learner on the steps of the agent's own noisy policy, which PPO's loss assumes."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import ray
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

from polaug.rllib.runner import DRIVER, OWN

LEAST = 8
"""An update needs at least 1/LEAST of the batch: the gradient of fewer steps is too noisy."""


def own_steps(episodes: list[Any]) -> list[Any]:
    """The parts of episodes that the agent drove with its noisy policy; all of an episode without a driver column."""
    result = []
    for episode in episodes:
        if not len(episode):
            continue
        if DRIVER not in episode.extra_model_outputs:
            result.append(episode)
            continue
        own = np.asarray(episode.get_extra_model_outputs(DRIVER)) == OWN
        if own.all():
            result.append(episode)
            continue
        at = 0
        for mine, run in groupby(own.tolist()):
            length = len(list(run))
            if mine:
                result.append(episode.slice(slice(at, at + length)))
            at += length
    return result


class OwnStepsLearner(PPOTorchLearner):  # type: ignore[misc]
    """Ignores the guide's steps and evaluation episodes, and skips an update with too few steps left."""

    def update(self, *args: Any, episodes: Any = None, training_data: Any = None, **kwargs: Any) -> Any:
        """As PPO's, on the agent's own steps."""
        if training_data is not None:  # a learner in a separate process
            training_data.solve_refs()
            episodes, training_data.episodes = training_data.episodes, None
        if episodes is None:
            return super().update(*args, training_data=training_data, **kwargs)
        if episodes and isinstance(episodes[0], ray.ObjectRef):
            episodes = ray.get(episodes)
        own = own_steps(episodes)
        steps, known = sum(map(len, episodes)), sum(map(len, own))
        if known < max(2, steps // LEAST):
            return self.metrics.reduce()
        return super().update(*args, episodes=own, **kwargs)
