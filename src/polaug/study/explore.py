"""One explorer alone on one task. Every step counts, and results of a seed repeat."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numba.core import event

from polaug.checks import whole
from polaug.explorers import Explorer, Transitions, make_explorer
from polaug.explorers.portfolio import PortfolioExplorer
from polaug.state import State
from polaug.streams import subseed
from polaug.study.maps import MapRecorder
from polaug.study.tasks import Task
from polaug.study.tasks import task as find_task

_EVENT: Any = event  # it has no types
_COMPILING = _EVENT.TimingListener()
_EVENT.register("numba:compile", _COMPILING)


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode; `step` counts all environment steps up to its end, from 1."""

    episode: int
    step: int
    return_: float
    length: int
    actor: str


@dataclass(frozen=True, slots=True)
class Exploration:
    """Result of a run: episodes, the explorer, the time, and maps if the state is 2-D."""

    episodes: tuple[Episode, ...]
    explorer: Explorer
    seconds: float
    explorer_seconds: float
    maps: State | None = None
    choices: tuple[str, ...] = ()
    """The portfolio's arm that drove, per episode."""

    @property
    def returns(self) -> list[float]:
        """The return of each episode."""
        return [episode.return_ for episode in self.episodes]

    @property
    def steps(self) -> int:
        """All environment steps."""
        return self.episodes[-1].step if self.episodes else 0


def explore(
    task: str | Task,
    explorer: str = "portfolio",
    *,
    episodes: int = 40,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[Episode], None] | None = None,
) -> Exploration:
    """Let `explorer` drive for some episodes; `progress` is called after each of them.

    The same task, explorer, options and seed give the same episodes. The environment is closed in any case.
    """
    whole("episodes", episodes, 1)
    whole("seed", seed, 0)
    found = find_task(task)
    with contextlib.closing(found.make()) as env:
        made = make_explorer(explorer, env.observation_space, env.action_space, seed=seed, **(options or {}))
        return drive(env, made, episodes=episodes, seed=seed, progress=progress)


def drive(
    env: gym.Env[Any, Any],
    explorer: Explorer,
    *,
    episodes: int,
    seed: int,
    progress: Callable[[Episode], None] | None = None,
    watch: Callable[[Any, Any, Any, Any], None] | None = None,
) -> Exploration:
    """`explore` for an environment and an explorer that exist already; the environment stays open.

    `watch` is called after each step, as `MapRecorder.observe` is.
    """
    # The environment must not draw the same numbers as the explorer, so its seed is another one.
    env_seed = subseed(seed, "environment")
    start, thinking, step = clock(), 0.0, 0
    done: list[Episode] = []
    choices: list[str] = []
    maps = MapRecorder.of(env.observation_space, env.action_space)
    watchers = [each for each in (watch, None if maps is None else maps.observe) if each is not None]
    observation, _ = env.reset(seed=env_seed)
    for number in range(1, episodes + 1):
        if number > 1:
            observation, _ = env.reset()
        total, length, ended = 0.0, 0, False
        while not ended:
            before = clock()
            actions = explorer.act(batch_of_one(observation))
            thinking += clock() - before
            following, reward, terminated, truncated, _ = env.step(plain_action(actions[0]))
            before = clock()
            explorer.observe(single(observation, actions[0], reward, following, terminated, truncated))
            thinking += clock() - before
            ended = bool(terminated or truncated)
            for each in watchers:
                each(batch_of_one(observation), actions, [float(reward)], [ended])
            total, length = total + float(reward), length + 1
            observation = following
        step += length
        done.append(Episode(number, step, total, length, "explorer"))
        if isinstance(explorer, PortfolioExplorer):
            choices += explorer.played.values()
        if maps is not None:
            maps.snapshot(step, explorer)
        if progress is not None:
            progress(done[-1])
    seconds, drawn = clock() - start, None if maps is None else maps.state()
    return Exploration(tuple(done), explorer, seconds, thinking, drawn, tuple(choices))


def single(before: Any, action: Any, reward: Any, after: Any, terminated: bool, truncated: bool) -> Transitions:
    """One step of one environment as explorers take it."""
    return Transitions(
        batch_of_one(before), np.asarray(action)[None], np.array([float(reward)]), batch_of_one(after),
        np.array([bool(terminated)]), np.array([bool(truncated)]),
    )  # fmt: skip


def batch_of_one(observation: Any) -> Any:
    """An observation as a vector of one environment would show it: Tuple and Dict observations part by part."""
    if isinstance(observation, tuple):
        return tuple(batch_of_one(part) for part in observation)
    if isinstance(observation, dict):
        return {key: batch_of_one(part) for key, part in observation.items()}
    return np.asarray(observation)[None]


def plain_action(action: Any) -> Any:
    """A Discrete action as a plain int, which every environment takes."""
    return action.item() if isinstance(action, (np.generic, np.ndarray)) and action.ndim == 0 else action


def clock() -> float:
    """Like `time.perf_counter`, without what this process has spent compiling."""
    return time.perf_counter() - compile_seconds()


def compile_seconds() -> float:
    """What this process has spent compiling so far."""
    return float(_COMPILING.duration) if _COMPILING.done else 0.0
