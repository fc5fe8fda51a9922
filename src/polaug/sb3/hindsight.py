"""Hindsight for the guide: finished episodes with the goal replaced by what they reached (Andrychowicz et al., 2017).

Agents with `HerReplayBuffer` learn from relabelled transitions, and so does the explorer. Without them its completed
reward says nothing until an episode reaches its goal by chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3 import HerReplayBuffer

from polaug.errors import UnsupportedSpaceError, invalid
from polaug.explorers import Transitions
from polaug.features.spaces import mapped, stacked

GOAL, REACHED = "desired_goal", "achieved_goal"
_KEYS = ("observation", REACHED, GOAL)


def uses_hindsight(model: Any) -> bool:
    """Whether the agent replays in hindsight. Raises an error if its environment has no goals."""
    if not isinstance(getattr(model, "replay_buffer", None), HerReplayBuffer):
        return False
    keys = sorted(model.observation_space.spaces)
    missing = [key for key in _KEYS if key not in keys]
    if missing:
        raise UnsupportedSpaceError(
            f"observation_space: must have the keys {', '.join(map(repr, _KEYS))}, as HerReplayBuffer requires, got "
            f"{keys}. Add {', '.join(map(repr, missing))} to the observations, or leave out replay_buffer_class."
        )
    return True


class Hindsight:
    """Follows the episodes of all environments and relabels them when they end."""

    def __init__(self) -> None:
        self._episodes: dict[int, list[tuple[Any, ...]]] = {}

    def restart(self) -> None:
        """Drop the episodes under way."""
        self._episodes = {}

    def follow(self, model: Any, step: Transitions, dones: Any, infos: list[dict[str, Any]]) -> list[Transitions]:
        """Take in one step of each environment, with raw observations; gives the relabelled episodes that ended."""
        relabelled = []
        for i in range(len(dones)):
            before, action, after = (mapped(lambda part, i=i: np.array(part[i]), part) for part in
                                     (step.observations, step.actions, step.next_observations))  # fmt: skip
            row = (before, action, after, bool(step.terminated[i]), bool(step.truncated[i]), infos[i])
            self._episodes.setdefault(i, []).append(row)
            if dones[i]:
                relabelled.append(_relabelled(model, i, self._episodes.pop(i)))
        return relabelled


def _relabelled(model: Any, environment: int, episode: list[tuple[Any, ...]]) -> Transitions:
    before, actions, after, terminated, truncated, infos = zip(*episode, strict=True)
    here, there = stacked(before), stacked(after)
    here[GOAL] = there[GOAL] = np.repeat(there[REACHED][-1:], len(episode), axis=0)
    rewards = model.env.env_method("compute_reward", there[REACHED], there[GOAL], list(infos), indices=[environment])[0]
    rewards = np.asarray(rewards, dtype=float)
    if rewards.shape != (len(episode),):
        raise invalid("compute_reward", f"must return {len(episode)} rewards for as many goals", rewards,
                      "Compute them for a batch of goals, as HerReplayBuffer requires.")  # fmt: skip
    return Transitions(here, np.stack(actions), rewards, there, np.array(terminated), np.array(truncated))
