"""A method and a task turned into a Stable-Baselines3 model on its training environments."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from polaug.integrations import augment
from polaug.study.methods import ALGORITHMS, Method
from polaug.study.tasks import Task


class Tape(VecEnvWrapper):
    """Keeps what the environments themselves said last: raw, below any normalisation or bonus.

    It counts the seconds that this takes.
    """

    observations: Any  # before the step
    actions: NDArray[Any]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    infos: list[dict[str, Any]]
    seconds: float = 0.0

    def reset(self) -> Any:
        """As the environments'."""
        self._next = self.venv.reset()
        return self._next

    def step_async(self, actions: NDArray[Any]) -> None:
        """As the environments'."""
        self.actions = actions
        self.venv.step_async(actions)

    def step_wait(self) -> Any:
        """As the environments'."""
        result = self.venv.step_wait()
        began = perf_counter()
        self.observations = self._next
        self._next, rewards, self.dones, self.infos = result
        self.rewards = rewards.copy()  # a bonus is added to what the agent sees, in place
        self.seconds += perf_counter() - began
        return result


def build(method: Method, task: Task, seed: int) -> tuple[BaseAlgorithm, Tape]:
    """The model of `method` on fresh environments of `task`, and the tape of those environments.

    The environments get seeds of their own: the explorer's generator must not draw the numbers that they draw.
    """
    settings = method.settings(task)
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
        model: BaseAlgorithm = cls(_policy(task, env), env, seed=seed, device="cpu", **constructed(settings, env))
    env.seed(int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))  # after the model has seeded them
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
