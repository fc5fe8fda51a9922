"""What the environment itself shows, before VecNormalize: the space that an explorer is built for, and last states."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecTransposeImage

from polaug.errors import UnsupportedSpaceError, invalid, shown


def raw_observation_space(model: Any) -> Any:
    """The space of raw observations of `model`'s environment; refuses what an explorer cannot follow."""
    normalizer = model.get_vec_normalize_env()
    space = model.observation_space if normalizer is None else normalizer.venv.observation_space
    if isinstance(space, spaces.Dict):
        raise UnsupportedSpaceError(
            "observation_space: Dict observations cannot be augmented. Wrap the environment in "
            "gymnasium.wrappers.FlattenObservation, or pass augmentation=None."
        )
    if normalizer is not None:
        _check_above(model.env, normalizer)
    return space


def check_actions(space: Any) -> None:
    """Refuse actions that SB3's policies cannot name: these count from 0."""
    if np.any(np.asarray(getattr(space, "start", 0))):
        raise UnsupportedSpaceError(
            f"action_space: actions must be counted from 0, as Stable-Baselines3 does, got {shown(space)}. Wrap the "
            "environment in gymnasium.wrappers.TransformAction(env, lambda a: a + start, the same space from 0)."
        )


def _check_above(env: Any, normalizer: Any) -> None:
    """Raw observations are those of VecNormalize, so nothing above it may make others of them."""
    while env is not normalizer:
        # SB3 itself puts VecTransposeImage on top, and its policies turn raw images as well.
        if env.observation_space != env.venv.observation_space and not isinstance(env, VecTransposeImage):
            name = type(env).__name__
            raise UnsupportedSpaceError(
                f"env: wrappers above VecNormalize must leave observations as they are, got {name}, which makes "
                f"{shown(env.observation_space)} of {shown(env.venv.observation_space)}. Put VecNormalize outermost: "
                f"VecNormalize({name}(...))."
            )
        env = env.venv


def check_finite(name: str, values: NDArray[Any]) -> None:
    """Refuse NaN and infinity in one row for each environment, at the step that they came with."""
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    env = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
    row = values[env].reshape(-1)
    raise invalid(name, f"environment {env}: must be finite", float(row[~np.isfinite(row)][0]),
                  "Mend the environment, or wrap it so that missing readings get a number.")  # fmt: skip


def check_payable(rewards: NDArray[Any]) -> None:
    """Refuse whole numbers, which SubprocVecEnv makes of an environment's own: a bonus would be rounded to nothing."""
    if rewards.dtype.kind != "f":
        raise invalid("rewards", "must be floats, or a bonus cannot be added to them", rewards,
                      "Return float(reward) from the environment's step, or use DummyVecEnv.")  # fmt: skip


@contextmanager
def raw_endings(model: Any) -> Iterator[dict[int, Any]]:
    """The raw last observations of episodes that end with the latest step, by environment, while steps are made.

    VecNormalize puts normalised and clipped ones in their place, from which they cannot be had back: they are read
    where it gets them from. Without VecNormalize there are none; the infos have them.
    """
    endings: dict[int, Any] = {}
    normalizer = model.get_vec_normalize_env()
    if normalizer is None:
        yield endings
        return
    below, plain = normalizer.venv, normalizer.venv.step_wait
    patched = "step_wait" in vars(below)
    below.step_wait = functools.partial(_noting, plain, endings)
    try:
        yield endings
    finally:
        if patched:  # by somebody else, before
            below.step_wait = plain
        else:
            del below.step_wait


def _noting(step_wait: Callable[[], Any], endings: dict[int, Any]) -> Any:
    result = step_wait()
    _, _, dones, infos = result
    endings.clear()
    for env in dones.nonzero()[0].tolist():
        if "terminal_observation" in infos[env]:
            endings[env] = infos[env]["terminal_observation"]
    return result
