"""The same task seen differently: what must not change how well an explorer does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[np.float64]

SCALE = {"rewards x 1e6": 1e6, "rewards x 1e-6": 1e-6}
"""Variants that multiply rewards, and by how much: scores are divided by it again."""

VARIANTS = (*SCALE, "observations x 1000 + 1e6", "unbounded", "reordered", "constant dimension", "noise dimension",
            "noisy rewards", "broken reading")  # fmt: skip
_NOISE = 0.5  # standard deviation, where rewards are 1 or −1
_BROKEN = 50.0  # what the last number of the second episode's first observation is


def variant(env: gym.Env[Any, Any], name: str, seed: int) -> gym.Env[Any, Any]:
    """`env` as the variant called `name` shows it; "plain" is the environment itself."""
    if name == "plain":
        return env
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
