"""Raw observations below VecNormalize: their space, and the last ones of episodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecTransposeImage

from polaug.errors import UnsupportedSpaceError, invalid, shown

_LARGEST = float(np.finfo(np.float32).max)


def raw_observation_space(model: Any) -> Any:
    """The space of raw observations of `model`'s environment. Refuses wrappers above VecNormalize that change them."""
    normalizer, env = model.get_vec_normalize_env(), model.env
    if normalizer is None:
        return model.observation_space
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
    return normalizer.venv.observation_space


def check_finite(name: str, values: NDArray[Any], *, clipped: bool = False) -> None:
    """Raise an error for NaN, infinity and what a 32-bit float cannot hold; `values` has one row per environment.

    `clipped`: VecNormalize clips large numbers.
    """
    if values.dtype.kind != "f" or np.vdot(values, values) < _LARGEST:  # the cheapest test that nothing of these passes
        return
    if (np.abs(values) <= _LARGEST).all():
        return
    rows = values.reshape(len(values), -1)
    wrong, rule = ~np.isfinite(rows), "must be finite"
    remedy = "Fix the environment, or wrap it so that missing values get a number."
    if not wrong.any() and not clipped:
        wrong, rule = np.abs(rows) > _LARGEST, f"must be at most {_LARGEST:.1e}, for 32-bit networks"
        remedy = f"Clip them: gymnasium.wrappers.Transform{name.removesuffix('s').capitalize()}."
    if wrong.any():
        env = int(np.flatnonzero(wrong.any(axis=1))[0])
        raise invalid(name, f"environment {env}: {rule}", float(rows[env][wrong[env]][0]), remedy)


def check_payable(rewards: NDArray[Any]) -> None:
    """Raise an error for integer rewards, in which a bonus would be rounded to 0."""
    if rewards.dtype.kind != "f":
        raise invalid("rewards", "must be floats, because a bonus is added to them", rewards,
                      "Return float(reward) from the environment's step, or use DummyVecEnv.")  # fmt: skip


@contextmanager
def raw_endings(model: Any) -> Iterator[dict[int, Any]]:
    """The raw last observations of episodes that end with the latest step, by environment.

    VecNormalize replaces them by normalised and clipped ones, so they are read from the environment below it. Without
    VecNormalize the result is empty, and the infos have them.
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
        if patched:  # by other code, before
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
