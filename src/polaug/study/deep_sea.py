"""bsuite's DeepSea (Osband et al., 2020): a grid where one sequence of N moves in 2^N pays and each step to it costs.

The diver starts top left and sinks one row per step, to the right or to the left. Which action means "right" is drawn
per cell, so that nothing learnt in one cell helps in another. Moving right costs 0.01/N; moving right in the bottom
right corner pays 1. Always moving right gives 0.99, always left 0, and a uniformly random diver finds the chest once in
2^N episodes. Left out: bsuite's noisy variants.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from polaug.checks import whole


class DeepSea(gym.Env[np.int64, np.int64]):
    """Observations are row · N + column; after the last move, the place in the bottom row where it ended.

    `size` is N; `mapping_seed` draws the meaning of the actions and is part of the task: the same seed, the same sea.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (Gymnasium declares it without ClassVar)

    def __init__(self, size: int = 20, mapping_seed: int = 0, render_mode: str | None = None) -> None:
        self.size = whole("size", size, 1)
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(self.size**2)
        self.action_space = spaces.Discrete(2)
        rng = np.random.default_rng(whole("mapping_seed", mapping_seed, 0))
        self._right = rng.integers(0, 2, (self.size, self.size))
        self._row = self._column = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Back to the top left; nothing is random after the mapping."""
        super().reset(seed=seed)
        self._row = self._column = 0
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One row down, to the right or to the left."""
        reward = 0.0
        if int(action) == self._right[self._row, self._column]:
            reward -= 0.01 / self.size
            if self._row == self._column == self.size - 1:
                reward += 1.0
            self._column = min(self._column + 1, self.size - 1)
        else:
            self._column = max(self._column - 1, 0)
        terminated = self._row == self.size - 1
        self._row = min(self._row + 1, self.size - 1)
        return self._observation(), reward, terminated, False, {}

    def render(self) -> str | None:
        """The sea as text, the diver as D."""
        if self.render_mode != "ansi":
            return None
        rows = [["·"] * self.size for _ in range(self.size)]
        rows[self._row][self._column] = "D"
        return "\n".join("".join(row) for row in rows)

    def _observation(self) -> np.int64:
        return np.int64(self._row * self.size + self._column)
