"""An environment that tosses a coin at every step, from Gymnasium's own generator: nobody may know how it falls."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

STEPS = 50


class Coin(gym.Env):
    """Fifty tosses; a right guess pays 1."""

    action_space = spaces.Discrete(2)

    def __init__(self, cells=False):
        self._cells = cells
        self.observation_space = spaces.Discrete(STEPS + 1) if cells else spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._seen(), {}

    def step(self, action):
        right = int(action) == int(self.np_random.integers(2))
        self._t += 1
        return self._seen(), float(right), False, self._t >= STEPS, {}

    def _seen(self):
        return self._t if self._cells else np.array([self._t / STEPS, 0.5], np.float32)


if "Coin-v0" not in gym.registry:
    gym.register("Coin-v0", entry_point=Coin)
    gym.register("CoinCells-v0", entry_point=Coin, kwargs={"cells": True})
