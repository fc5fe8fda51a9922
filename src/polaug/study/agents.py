"""A method and a task as a Stable-Baselines3 model on its training environments, and the evaluation of that model.

The agent alone plays deterministic episodes on environments of their own, all of them stepped together. Evaluating
leaves the run as it was: global generators are put back, statistics of observations are read, not changed.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import random
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from polaug.errors import StateError
from polaug.sb3 import augment
from polaug.state import load_state, save_state
from polaug.streams import subseed, subseeds
from polaug.study.folder import NORMALIZATION, POLICY, RunFolder
from polaug.study.methods import ALGORITHMS, Method
from polaug.study.tasks import Task, longest


class Tape(VecEnvWrapper):
    """Keeps the environments' last observations and rewards, before normalisation and bonus."""

    observations: Any  # before the step
    actions: NDArray[Any]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    infos: list[dict[str, Any]]

    def reset(self) -> Any:
        """See `VecEnv`."""
        self._next = self.venv.reset()
        return self._next

    def step_async(self, actions: NDArray[Any]) -> None:
        """See `VecEnv`."""
        self.actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        """See `VecEnv`."""
        result = self.venv.step_wait()
        self.observations = self._next
        self._next, rewards, self.dones, self.infos = result
        self.rewards = rewards.copy()  # a bonus is added to what the agent sees, in place
        return result


def build(
    method: Method, task: Task, seed: int, tensorboard: str | os.PathLike[str] | None = None
) -> tuple[BaseAlgorithm, Tape]:
    """The model of `method` on fresh environments of `task`, and the tape of those environments.

    The environments get seeds of their own: the explorer's generator must not draw the numbers that they draw.
    """
    settings = method.settings(task)
    if tensorboard is not None:
        settings["tensorboard_log"] = str(tensorboard)
    tape = Tape(make_vec_env(task.make, settings.pop("n_envs", 1)))
    env: Any = tape
    if settings.pop("normalize", False):
        env = VecNormalize(tape, gamma=settings.get("gamma", 0.99))  # as the Zoo does
    cls: Any = agent_class(method.algo)
    if method.augmentation is not None:
        cls = augment(cls)
        settings["augmentation"] = method.augmentation
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # SB3's advice on batch sizes, some of them the Zoo's
        device = settings.pop("device", "cpu")
        model: BaseAlgorithm = cls(_policy(task, env), env, seed=seed, device=device, **constructed(settings, env))
    env.seed(subseed(seed, "environment"))  # after the model has seeded them
    return model, tape


def agent_class(algo: str) -> type[BaseAlgorithm]:
    """The class of an algorithm."""
    algorithm = ALGORITHMS[algo]
    found: type[BaseAlgorithm] = getattr(importlib.import_module(algorithm.module), algorithm.cls)
    return found


def _policy(task: Task, env: Any) -> str:
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if isinstance(space, spaces.Box) and is_image_space(space) else "MlpPolicy"


def constructed(settings: Mapping[str, Any], env: Any) -> dict[str, Any]:
    """Plain settings as SB3 takes them: schedules and noise become objects."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "noise":
            kind, scale = value
            size = int(np.prod(env.action_space.shape))
            noise = NormalActionNoise if kind == "normal" else OrnsteinUhlenbeckActionNoise
            result["action_noise"] = noise(np.zeros(size), np.full(size, scale))
        elif isinstance(value, str) and value.startswith("lin_"):
            result[name] = LinearSchedule(float(value.removeprefix("lin_")), 0.0, 1.0)
        elif isinstance(value, Mapping):
            result[name] = dict(value)
        else:
            result[name] = value
    return result


class Evaluator:
    """Environments that play one episode each at the same time, so that the network is asked once a step for all.

    Start states follow from `seed`: every method of a seed is judged on the same ones, another seed on others.
    """

    def __init__(self, task: Task, seed: int, episodes: int, confirm_episodes: int) -> None:
        self._task, self._seed = task, seed
        self._episodes, self._confirm_episodes = episodes, confirm_episodes
        self._envs: list[gym.Env[Any, Any]] = []

    def returns(self, model: BaseAlgorithm) -> NDArray[np.float64]:
        """The raw returns of a cheap evaluation: few episodes, from the same start states every time."""
        return self._play(model, subseeds(self._seed, self._episodes, "evaluation"))

    def confirmed(self, model: BaseAlgorithm, step: int) -> NDArray[np.float64]:
        """The raw returns of many episodes, from start states that no other step has."""
        return self._play(model, subseeds(self._seed, self._confirm_episodes, "confirmation", step))

    def _play(self, model: BaseAlgorithm, seeds: list[int]) -> NDArray[np.float64]:
        while len(self._envs) < len(seeds):
            self._envs.append(self._task.make(disable_env_checker=True))  # the training environments are checked
        with undisturbed():
            return _played(model, self._envs[: len(seeds)], seeds)

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()


def _played(model: BaseAlgorithm, envs: list[gym.Env[Any, Any]], seeds: list[int]) -> NDArray[np.float64]:
    n = len(envs)
    normalizer = model.get_vec_normalize_env()
    observations = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    returns, alive = np.zeros(n), np.ones(n, np.bool_)
    state: tuple[NDArray[Any], ...] | None = None
    starts = np.ones(n, np.bool_)
    for _ in range(longest(envs[0].spec)):
        if not alive.any():
            break
        # Ended ones stay in the batch: its shape, and with it the last bit of the network's answer, never changes.
        batch = _stacked(observations, envs[0].observation_space)
        if normalizer is not None:
            batch = normalizer.normalize_obs(batch)
        actions, state = model.predict(batch, state=state, episode_start=starts, deterministic=True)
        starts = np.zeros(n, np.bool_)
        for i in np.flatnonzero(alive).tolist():
            observations[i], reward, terminated, truncated, _ = envs[i].step(actions[i])
            returns[i] += float(reward)
            alive[i] = not (terminated or truncated)
    return returns


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever draws random numbers inside, the run draws the same ones as without it."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (SB3's generator)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])


def _stacked(observations: list[Any], space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: np.stack([each[key] for each in observations]) for key in space.spaces}
    return np.stack(observations)


# -- an agent's files --------------------------------------------------------------------------------------------------

_LOGGED = ("augment", "train/")
"""Prefixes of the logged scalars that are kept; times, which differ from machine to machine, are not among them."""
_NO_SETTINGS = ("self", "args", "kwargs", "env", "seed", "verbose", "device", "tensorboard_log", "policy",
                "support_multi_env")  # fmt: skip
_UNUSED = ("critic", "actor_target", "q_net_target", "quantile_net_target")
"""Networks that training needs, and acting does not."""


def write_look(folder: RunFolder, model: Any, step: int) -> None:
    """Append the scalars that the agent logged last to scalars.csv, and replace policy.npz."""
    for name, value in sorted(model.logger.name_to_value.items()):
        number = value if isinstance(value, (int, float)) else getattr(value, "item", lambda: math.nan)()
        if name.startswith(_LOGGED) and math.isfinite(number):
            folder.row("scalars.csv", step, name, float(number))
    if getattr(model, "policy", None) is None:  # an agent without a network
        return
    tensors = model.policy.state_dict()
    arrays = {name: tensor.numpy() for name, tensor in tensors.items() if not name.startswith(_UNUSED)}
    save_state(folder.path / POLICY, arrays)
    write_normalization(folder.path / NORMALIZATION, model)


def agent_settings(model: Any) -> dict[str, Any]:
    """The hyperparameters that `model` was built with, named or not, as plain data for done.json."""
    found = {}
    for cls in type(model).__mro__:
        for name in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]  # only read
            value = getattr(model, name, None)
            if name not in _NO_SETTINGS and name not in found and value is not None:
                plain = isinstance(value, (bool, int, float, str))
                found[name] = value if plain else _in_words(value)
    return {name: value for name, value in sorted(found.items()) if value != ""}


def _in_words(value: Any) -> str:
    """Containers of settings in words; objects, such as environments and schedules, are left out."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {getattr(each, '__name__', each)}" for key, each in value.items())
    if isinstance(value, tuple):
        return ", ".join(str(getattr(each, "value", each)) for each in value)
    return ""


def load_policy(folder: Any, model: Any) -> None:
    """Put the arrays of policy.npz in `folder` into the policy of `model`, built by the same settings."""
    file = folder / POLICY
    arrays, mine = load_state(file), model.policy.state_dict()
    for name in mine:
        if name.startswith(_UNUSED):
            continue
        if name not in arrays or arrays[name].shape != tuple(mine[name].shape):
            raise StateError(f"{file}: {name} does not fit the agent of config.json. Train it with this version.")
        mine[name] = torch.from_numpy(arrays[name])
    model.policy.load_state_dict(mine)


def write_normalization(path: Path, model: Any) -> None:
    """Write what `model` needs to see observations as in training; nothing if it sees them raw."""
    normalizer = model.get_vec_normalize_env()
    if normalizer is None or not normalizer.norm_obs:
        return
    statistics = normalizer.obs_rms
    numbers = np.array([normalizer.epsilon, normalizer.clip_obs], dtype=np.float64)
    save_state(path, {"mean": statistics.mean, "var": statistics.var, "epsilon_and_clip": numbers})


def read_normalization(path: Path, venv: Any) -> Any:
    """The VecEnv `venv` under those statistics, which no longer change."""
    state = load_state(path)
    normalizer = VecNormalize(venv, training=False, norm_reward=False)
    statistics: Any = normalizer.obs_rms
    try:
        mean, var, (epsilon, clip) = state["mean"], state["var"], state["epsilon_and_clip"].tolist()
    except (KeyError, ValueError) as fault:
        raise StateError(f"model: {path} is damaged ({fault!r}). Train the agent again.") from fault
    if mean.shape != statistics.mean.shape or var.shape != mean.shape:
        raise StateError(f"model: {path} is of observations of shape {mean.shape}, not of this environment's.")
    statistics.mean, statistics.var = mean, var
    normalizer.epsilon, normalizer.clip_obs = epsilon, clip
    return normalizer
