"""The paper's MountainCar (section 4): −1 for every step, but +10 for the one that reaches the flag."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from numpy.typing import NDArray

FLAG_REWARD = 10.0


class PaperMountainCar(MountainCarEnv):
    """Gymnasium's MountainCar with another reward; the limit of 200 steps comes with its registration."""

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """As MountainCar, except for the reward at the flag."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, FLAG_REWARD if terminated else float(reward), terminated, truncated, info
