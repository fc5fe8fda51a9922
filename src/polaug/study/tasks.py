"""Tasks: the suites, two environments, and any Gymnasium environment by id."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from gymnasium.envs.registration import load_env_creator
from numpy.typing import NDArray

from polaug.checks import whole
from polaug.errors import InvalidInputError, UnknownNameError, invalid, shown, unknown

# Least likeness of a name that is suggested: "Foo" is not "Acrobot", but "taxi" is "Taxi", and "MtnCar" MountainCar.
_NEAR = 0.65


LONGEST = 1_000
"""Steps of an episode where an environment names no limit: a deterministic agent may go in circles."""


def longest(spec: Any) -> int:
    """Most steps of an episode of an environment with that `spec`."""
    return (spec and spec.max_episode_steps) or LONGEST


@dataclass(frozen=True)
class Task:
    """An environment, how it is made, and from which return on it counts as solved."""

    name: str
    env_id: str
    kwargs: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments of `gymnasium.make`, as pairs."""
    episode_limit: int | None = None
    """Steps after which an episode is truncated; None leaves it to the environment's registration."""
    threshold: float | None = None
    """Mean return from which the task counts as solved; None if it has none."""
    goal: float | None = None
    """Least return of an episode that reached the goal at all; None: the threshold."""
    description: str = ""
    package: str = ""
    """Imported first, so that worker processes know the environment too."""

    def make(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """The environment; `kwargs` (for example render_mode) are added to the task's own."""
        if self.package:
            _register(self.package, self.name)
        limit = {} if self.episode_limit is None else {"max_episode_steps": self.episode_limit}
        try:
            return gym.make(self.env_id, **dict(self.kwargs) | limit | kwargs)
        except TypeError as fault:  # from the environment's constructor
            if not self.kwargs:
                raise
            raise _refused(self, fault) from fault
        except gym.error.Error as fault:
            remedy = "Install what it needs, or choose another task."
            raise invalid("task", f"{self.env_id} must be installed ({fault})", self.name, remedy) from fault

    @property
    def success(self) -> float | None:
        """The least return of an episode that counts as a success."""
        return self.threshold if self.goal is None else self.goal


CLASSIC: tuple[Task, ...] = (
    Task("CartPole-v1", "CartPole-v1", threshold=475, description="balance a pole; +1 at each step"),
    Task(
        "MountainCar-v0", "MountainCar-v0", threshold=-110, goal=-199.5,
        description="drive an underpowered car to the flag; −1 at each step",
    ),
    Task(
        "MountainCarContinuous-v0", "MountainCarContinuous-v0", threshold=90, goal=1e-9,
        description="the same car with continuous actions; +100 at the flag, actions cost",
    ),
    Task(
        "Acrobot-v1", "Acrobot-v1", threshold=-100, goal=-499.5,
        description="swing two links above the line; −1 at each step",
    ),
    Task("Pendulum-v1", "Pendulum-v1", threshold=-200, description="swing a pendulum up; costs depend on the angle"),
    Task("LunarLander-v3", "LunarLander-v3", threshold=200, description="land between the flags"),
    Task(
        "FrozenLake8x8", "FrozenLake-v1", kwargs=(("map_name", "8x8"), ("is_slippery", False)), threshold=1.0,
        description="cross a lake of 8 × 8 cells without slipping; +1 at the goal",
    ),
    Task(
        "CliffWalking-v1", "CliffWalking-v1", episode_limit=500, threshold=-13, goal=-499.5,
        description="walk along a cliff; −1 at each step, −100 for a fall",
    ),
    Task(
        "DeepSea", "polaug/DeepSea-v0", threshold=0.9,
        description="20 × 20 chain: each step to the right costs, one path in 2^20 reaches the reward",
    ),
)  # fmt: skip
"""The suite that the benchmarks run."""

PAPER: tuple[Task, ...] = (
    Task(
        "CartPole-paper", "CartPole-v1", episode_limit=200, threshold=195,
        description="the paper's CartPole: 200 steps per episode",
    ),
    Task(
        "MountainCar-paper", "polaug/PaperMountainCar-v0", threshold=-99, goal=-199.5,
        description="the paper's MountainCar: +10 at the flag, 200 steps per episode",
    ),
)  # fmt: skip
"""The two tasks of the paper's section 4."""

TASKS: dict[str, Task] = {each.name: each for each in CLASSIC + PAPER}


def task(name: str | Task) -> Task:
    """The task called `name`: one of TASKS, or any registered Gymnasium id ("package:Id-v0" imports the package)."""
    if isinstance(name, Task):
        return name
    if name in TASKS:
        return TASKS[name]
    package, _, env_id = str(name).rpartition(":")
    if package:
        _register(package, name)
    if env_id not in gym.registry:
        raise _unknown(name, package, env_id)
    spec = gym.registry[env_id]
    return Task(env_id, env_id, threshold=spec.reward_threshold, package=package,
                description="a registered Gymnasium environment")  # fmt: skip


def _register(package: str, name: str) -> None:
    """Import the package whose environments are asked for."""
    if not re.fullmatch(r"\w+(\.\w+)*", package):
        raise invalid("task", "must be a name or package:Id-v0", name, "Check the spelling.")
    if os.getcwd() not in sys.path:  # the command `polaug` does not look there by itself, nor do its workers
        sys.path.append(os.getcwd())
    try:
        importlib.import_module(package)
    except ImportError as fault:
        remedy = f"Install {package}, or go to the folder that holds it."
        raise invalid("task", f"its package must be importable ({fault})", name, remedy) from fault


def _refused(found: Task, fault: TypeError) -> InvalidInputError:
    """The first argument that the environment does not have; otherwise what its constructor says."""
    entry = gym.registry[found.env_id].entry_point
    known = inspect.signature(load_env_creator(entry) if isinstance(entry, str) else entry or found.make).parameters
    for name, _ in found.kwargs:
        if name not in known:
            return unknown(f"argument of {found.env_id}", name, known)
    return invalid("task", f"{found.env_id} must accept its arguments ({fault})", dict(found.kwargs), "Change them.")


def _unknown(name: Any, package: str, env_id: str) -> UnknownNameError:
    """The registry holds hundreds of ids: suggest one of all if it is really near, list only our own."""
    known = sorted(gym.registry, key=lambda each: ("/" not in each, each))  # of equal names the last one counts
    stems = {_stem(each): each for each in (*known, *(() if package else TASKS))}
    near = difflib.get_close_matches(_stem(env_id), stems, 1, _NEAR)
    if near:
        hint = f"Did you mean {(f'{package}:' if package else '') + stems[near[0]]!r}? `polaug list` shows the tasks."
    else:
        listed = f"Tasks are: {', '.join(TASKS)}."
        hint = f"`polaug list` shows the tasks, gymnasium.pprint_registry() all ids. {listed}"
    return UnknownNameError(
        f"task: nothing is called {shown(name)}, neither a task nor a Gymnasium environment. {hint} "
        'An environment of your own or of another package: "package:Id-v0".'
    )


def _stem(env_id: str) -> str:
    """`ALE/Pong-v5` is called pong."""
    return re.sub(r"-v\d+$", "", env_id.rpartition("/")[2]).casefold()


# -- environments -----------------------------------------------------------------------------------------------------


class DeepSea(gym.Env[np.int64, np.int64]):
    """bsuite's DeepSea (Osband et al., 2020): one sequence of N moves in 2^N pays, and each step to it costs.

    The diver starts top left and sinks one row per step, to the right or to the left. Which action means "right" is
    drawn per cell by `mapping_seed`, which is part of the task. Moving right costs 0.01/N; moving right in the bottom
    right corner pays 1. Observations are row · N + column; N is `size`. bsuite's noisy variants are left out.
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

    def render(self) -> Any:
        """The sea as text, the diver as D."""
        if self.render_mode != "ansi":
            return None
        rows = [["·"] * self.size for _ in range(self.size)]
        rows[self._row][self._column] = "D"
        return "\n".join("".join(row) for row in rows)

    def _observation(self) -> np.int64:
        return np.int64(self._row * self.size + self._column)


FLAG_REWARD = 10.0


class PaperMountainCar(MountainCarEnv):
    """Gymnasium's MountainCar with another reward; the limit of 200 steps comes with its registration."""

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """As MountainCar, except for the reward at the flag."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, FLAG_REWARD if terminated else float(reward), terminated, truncated, info


for _name, _limit in (("DeepSea", None), ("PaperMountainCar", 200)):  # DeepSea ends by itself after N rows
    if f"polaug/{_name}-v0" not in gym.registry:  # a reload must not warn about overriding
        gym.register(f"polaug/{_name}-v0", entry_point=f"{__name__}:{_name}", max_episode_steps=_limit)
