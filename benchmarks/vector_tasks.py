"""Small tasks over real numbers that Gymnasium lacks: a doorway, a swing-up from rest, and a lure."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv


class Doorway(gym.Env[Any, Any]):
    """Two rooms of the unit square, joined by a doorway far from start and goal; only the goal pays."""

    observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = np.array([0.1, 0.1]) + self.np_random.uniform(0, 0.05, 2), 0
        return self.place.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])[action]
        there = np.clip(self.place + move + self.np_random.normal(0, 0.005, 2), 0, 1)
        if (self.place[0] - 0.5) * (there[0] - 0.5) < 0 and not 0.7 < there[1] < 0.85:
            there[0] = self.place[0]
        self.place, self.steps = there, self.steps + 1
        found = bool(np.linalg.norm(there - [0.9, 0.1]) < 0.08)
        return there.astype(np.float32), float(found), found, self.steps >= 200, {}


class SwingUp(gym.Env[Any, Any]):
    """Cart-pole from rest, hanging; +1 for each step within 0.3 rad of upright, and nothing else. 250 steps of 0.04 s.

    The cart is stopped at the ends of its rail, so that an episode has no end but the time limit.
    """

    observation_space = spaces.Box(
        np.array([-2.4, -np.inf, -1, -1, -np.inf], np.float32), np.array([2.4, np.inf, 1, 1, np.inf], np.float32)
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = np.array([0.0, 0.0, math.pi, 0.0]) + self.np_random.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        x, speed, angle, spin = self.state
        return np.array([x, speed, math.cos(angle), math.sin(angle), spin], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        force, (x, speed, angle, spin) = 10.0 * (int(action) - 1), self.state
        for _ in range(2):  # two Euler steps of 0.02 s, with CartPole's masses and lengths
            push = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
            turn = (9.8 * math.sin(angle) - math.cos(angle) * push) / (
                0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) ** 2 / 1.1)
            )
            drive = push - 0.05 * turn * math.cos(angle) / 1.1
            x, speed, angle, spin = x + 0.02 * speed, speed + 0.02 * drive, angle + 0.02 * spin, spin + 0.02 * turn
            if abs(x) > 2.4:
                x, speed = math.copysign(2.4, x), 0.0
        self.state, self.steps = np.array([x, speed, angle, spin]), self.steps + 1
        return self._seen(), float(math.cos(angle) > math.cos(0.3)), False, self.steps >= 250, {}


class Lure(MountainCarEnv):
    """MountainCar where the flag pays 1, no step costs, and standing still in the valley pays a trifle."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        valley = abs(observation[0] + math.pi / 6) < 0.05 and abs(observation[1]) < 0.005
        return observation, 1.0 if terminated else 1e-6 * valley, terminated, truncated, info


IDS = {"Doorway": "benchmarks/Doorway-v0", "SwingUp": "benchmarks/SwingUp-v0", "Lure": "benchmarks/Lure-v0"}
gym.register(IDS["Doorway"], Doorway)
gym.register(IDS["SwingUp"], SwingUp)
gym.register(IDS["Lure"], Lure, max_episode_steps=200)
