"""The same task seen differently: what must not change how well an explorer does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polaug.errors import InvalidInputError
from polaug.streams import stream
from polaug.study.tasks import TASKS

Array = NDArray[np.float64]

SCALE = {"rewards x 1e6": 1e6, "rewards x 1e-6": 1e-6}
"""Variants that multiply rewards, and by how much: scores are divided by it again."""

VARIANTS = (*SCALE, "observations x 1000 + 1e6", "unbounded", "reordered", "constant dimension", "noise dimension",
            "noisy rewards", "broken reading")  # fmt: skip
IDS_PERMUTED = "ids permuted"
"""The variant of tasks with Discrete observations: states and actions are numbered in another order."""
_NOISE = 0.5  # standard deviation, where rewards are 1 or −1
_BROKEN = 50.0  # what the last number of the second episode's first observation is


def variant(env: gym.Env[Any, Any], name: str, seed: int) -> gym.Env[Any, Any]:
    """`env` as the variant called `name` shows it; "plain" is the environment itself."""
    if name == "plain":
        return env
    if name == IDS_PERMUTED:
        return PermutedIds(env, seed)
    if name in SCALE:
        return gym.wrappers.TransformReward(env, lambda reward: float(reward) * SCALE[name])
    if name == "noisy rewards":
        noise = np.random.default_rng([seed, 3])
        return gym.wrappers.TransformReward(env, lambda reward: float(reward) + _NOISE * noise.standard_normal())
    if name == "broken reading":
        return BrokenReading(env)
    box = env.observation_space
    assert isinstance(box, spaces.Box)
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    if name == "observations x 1000 + 1e6":
        return _seen(env, lambda o: o * 1e3 + 1e6, low * 1e3 + 1e6, high * 1e3 + 1e6)
    if name == "unbounded":
        return _seen(env, lambda o: o, np.full_like(low, -np.inf), np.full_like(high, np.inf))
    if name == "reordered":
        return _seen(env, lambda o: o[::-1].copy(), low[::-1], high[::-1])
    low, high = np.append(low, -np.inf), np.append(high, np.inf)
    if name == "constant dimension":
        return _seen(env, lambda o: np.append(o, 7.0), low, high)
    if name == "noise dimension":
        rng = np.random.default_rng([seed, 2])
        return _seen(env, lambda o: np.append(o, rng.standard_normal()), low, high)
    raise KeyError(name)


class BrokenReading(gym.Wrapper[Any, Any, Any, Any]):
    """One number of one observation is far off, once."""

    _episodes = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """As the environment's; the second one is broken."""
        observation, info = self.env.reset(**options)
        self._episodes += 1
        if self._episodes == 2:
            observation = np.array(observation)
            observation[-1] = _BROKEN
        return observation, info


def _seen(env: gym.Env[Any, Any], change: Callable[[Array], Array], low: Array, high: Array) -> gym.Env[Any, Any]:
    space = spaces.Box(low, high, dtype=np.float64)
    return gym.wrappers.TransformObservation(env, lambda o: change(np.asarray(o, dtype=np.float64)), space)


class PermutedIds(gym.Wrapper[Any, Any, Any, Any]):
    """The same environment with its Discrete observations and actions numbered in another order.

    Parameters
    ----------
    env
        An environment with Discrete observations; actions are renamed if they are Discrete.
    seed
        Draws the two permutations, apart from every other stream of random numbers.
    """

    def __init__(self, env: gym.Env[Any, Any], seed: int) -> None:
        super().__init__(env)
        if not isinstance(env.observation_space, spaces.Discrete):
            raise InvalidInputError(
                f"env: must have Discrete observations, got {env.observation_space}. Leave it as it is."
            )
        self._seen = _Renaming(env.observation_space, stream(seed, "permuted", "observations"))
        renames = isinstance(env.action_space, spaces.Discrete)
        self._done = _Renaming(env.action_space, stream(seed, "permuted", "actions")) if renames else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's, with the new id."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._seen.new(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's, of the action that has this id, with the new id of the observation."""
        taken = action if self._done is None else self._done.old(action)
        observation, reward, terminated, truncated, info = self.env.step(taken)
        return self._seen.new(observation), reward, terminated, truncated, info


class _Renaming:
    """A permutation of the members of a Discrete space."""

    def __init__(self, space: Any, rng: np.random.Generator) -> None:
        self._start = int(space.start)
        self._new = rng.permutation(int(space.n))
        self._old = np.argsort(self._new)

    def new(self, member: Any) -> np.int64:
        return np.int64(self._new[int(member) - self._start] + self._start)

    def old(self, member: Any) -> int:
        return int(self._old[int(member) - self._start] + self._start)


def permuted(task: str, **options: Any) -> gym.Env[Any, Any]:
    """The environment of `task` with permuted ids: one permutation, which is part of the task."""
    return PermutedIds(TASKS[task].make(**options), seed=0)


WITH_IDS = ("FrozenLake8x8", "CliffWalking-v1", "DeepSea")
"""Tasks whose observations are ids, which mean nothing: they run with permuted ids too."""
PERMUTED = {name: f"benchmarks.variants:{name.removesuffix('-v1')}Permuted-v0" for name in WITH_IDS}
"""Their names for `polaug compare`, in the folder of the repository."""
for _name, _id in PERMUTED.items():
    gym.register(_id.partition(":")[2], permuted, kwargs={"task": _name}, reward_threshold=TASKS[_name].threshold)
