"""What is measured on: a task is one small record; the suites; any other Gymnasium environment by its id."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from polaug.errors import UnknownNameError, invalid, shown

# Least likeness of a name that is suggested: "Foo" is not "Acrobot", but "taxi" is "Taxi", and "MtnCar" MountainCar.
_NEAR = 0.65


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
    """Mean return from which the task counts as solved; None if nobody has said."""
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
        except gym.error.Error as fault:
            remedy = "Install what it needs, or choose another task."
            raise invalid("task", f"{self.env_id} must be installed ({fault})", self.name, remedy) from fault

    @property
    def success(self) -> float | None:
        """The least return of an episode that counts as a success."""
        return self.threshold if self.goal is None else self.goal


CLASSIC: tuple[Task, ...] = (
    Task("CartPole-v1", "CartPole-v1", threshold=475, description="balance a pole; every step pays"),
    Task(
        "MountainCar-v0", "MountainCar-v0", threshold=-110, goal=-199.5,
        description="swing a weak car up to the flag; every step costs until there",
    ),
    Task(
        "MountainCarContinuous-v0", "MountainCarContinuous-v0", threshold=90, goal=1e-9,
        description="the same car with a throttle; effort costs, only the flag pays",
    ),
    Task("Acrobot-v1", "Acrobot-v1", threshold=-100, goal=-499.5, description="swing two links above the line"),
    Task("Pendulum-v1", "Pendulum-v1", threshold=-200, description="swing a pendulum up with a weak motor"),
    Task("LunarLander-v3", "LunarLander-v3", threshold=200, description="land softly between the flags"),
    Task(
        "FrozenLake8x8", "FrozenLake-v1", kwargs=(("map_name", "8x8"), ("is_slippery", False)), threshold=1.0,
        description="cross a lake of 8 × 8 cells without slipping; only the far corner pays",
    ),
    Task(
        "CliffWalking-v1", "CliffWalking-v1", episode_limit=500, threshold=-13, goal=-499.5,
        description="walk along a cliff; falling costs 100 and starts over",
    ),
    Task(
        "DeepSea", "polaug/DeepSea-v0", threshold=0.9,
        description="20 × 20 chain where going right costs and one path in 2^20 pays",
    ),
)  # fmt: skip
"""The suite that the benchmarks run."""

PAPER: tuple[Task, ...] = (
    Task(
        "CartPole-paper", "CartPole-v1", episode_limit=200, threshold=195,
        description="the paper's CartPole: at most 200 steps",
    ),
    Task(
        "MountainCar-paper", "polaug/PaperMountainCar-v0", threshold=-99, goal=-199.5,
        description="the paper's MountainCar: +10 at the flag, at most 200 steps",
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


def _unknown(name: Any, package: str, env_id: str) -> UnknownNameError:
    """The registry holds hundreds of ids: suggest one of all if it is really near, list only our own."""
    known = [*gym.registry, *(() if package else TASKS)]
    near = max(known, key=lambda each: (*_likeness(env_id, each), each in TASKS, each), default="")
    if near and _likeness(env_id, near)[0] >= _NEAR:
        hint = f"Did you mean {(f'{package}:' if package else '') + near!r}? `polaug list` shows the tasks."
    else:
        listed = f"Tasks are: {', '.join(TASKS)}."
        hint = f"`polaug list` shows the tasks, gymnasium.pprint_registry() all ids. {listed}"
    return UnknownNameError(
        f"task: nothing is called {shown(name)}, neither a task nor a Gymnasium environment. {hint} "
        'An environment of your own or of another package: "package:Id-v0".'
    )


def _likeness(one: str, other: str) -> tuple[float, float]:
    """How alike two ids are, 0 to 1: their names alone, and with namespace and version, which most ids share."""
    pairs = ((_stem(one), _stem(other)), (one.casefold(), other.casefold()))
    first, second = (difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    return first, second


def _stem(env_id: str) -> str:
    """`ALE/Pong-v5` is called pong."""
    return re.sub(r"-v\d+$", "", env_id.rpartition("/")[2]).casefold()
