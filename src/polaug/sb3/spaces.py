"""Checks of an environment's spaces against those that Stable-Baselines3 takes, with remedies."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from polaug.errors import UnsupportedSpaceError, shown
from polaug.features.spaces import action_flattener

_TAKEN = "Box, Discrete, MultiDiscrete, MultiBinary or a flat Dict of these"
_FLAT = "gymnasium.wrappers.FlattenObservation(env)"


def check_environment(env: Any) -> None:
    """Raise an error if `env`, not yet wrapped by SB3, has spaces that SB3 does not take."""
    if isinstance(getattr(env, "observation_space", None), gym.Space):
        _check_observations(env.observation_space)
    if isinstance(getattr(env, "action_space", None), gym.Space):
        check_actions(env.action_space)


def check_actions(space: Any) -> None:
    """Raise an error for actions that do not start at 0, or have no bounds, which SB3 does not support."""
    if np.any(np.asarray(getattr(space, "start", 0))):
        raise UnsupportedSpaceError(
            f"action_space: actions must start at 0, as Stable-Baselines3 requires, got {shown(space)}. Wrap the "
            "environment in gymnasium.wrappers.TransformAction(env, lambda a: a + start, the same space from 0)."
        )
    action_flattener(space)


def _check_observations(space: gym.Space[Any]) -> None:
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    odd = {key: part for key, part in parts.items() if not _is_taken(part)}
    if not odd:
        return
    if all(_flattens(part) for part in odd.values()):
        remedy = f"Wrap the environment in {_FLAT}."
    else:
        remedy = ("Wrap the environment in gymnasium.wrappers.TransformObservation(env, f, space) with a function f "
                  "that turns an observation into a member of a Box `space`.")  # fmt: skip
        kept = [key for key in parts if key not in odd]
        if kept:
            remedy = f"Leave the part out with gymnasium.wrappers.FilterObservation(env, {kept}). Or: {remedy}"
    key, part = next(iter(odd.items()))
    raise UnsupportedSpaceError(
        f"observation_space{f'[{key!r}]' if key else ''}: must be {_TAKEN}, choices counted from 0, as "
        f"Stable-Baselines3 requires, got {shown(part)}. {remedy}"
    )


def _is_taken(space: gym.Space[Any]) -> bool:
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return space.shape != ()
    if isinstance(space, spaces.MultiDiscrete):
        return len(space.shape) == 1 and not np.any(space.start)
    return isinstance(space, spaces.Discrete) and space.start == 0


def _flattens(space: gym.Space[Any]) -> bool:
    try:
        return isinstance(spaces.flatten_space(space), spaces.Box)
    except NotImplementedError:  # a space of the environment's own
        return False
