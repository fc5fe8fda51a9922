"""The agent alone: deterministic episodes on environments of their own, from the same start states every time.

Evaluating leaves the run as it was: global generators are put back, statistics of observations are read, not changed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from polaug.study.tasks import Task

LONGEST = 1_000
"""Steps of an evaluation where an environment names no limit: a deterministic agent may go in circles for ever."""


class Evaluator:
    """Some environments that all play one episode at a time, so that the network is asked once for all of them.

    Start states follow from `seed`: every method of a seed is judged on the same ones, another seed on others.
    """

    def __init__(self, task: Task, episodes: int, seed: int) -> None:
        self._envs = [task.make() for _ in range(episodes)]
        spec = self._envs[0].spec
        self._longest = (spec and spec.max_episode_steps) or LONGEST
        self._seeds = [int(word) for word in np.random.SeedSequence([seed, 2]).generate_state(episodes)]

    def returns(self, model: BaseAlgorithm) -> NDArray[np.float64]:
        """The raw return of one episode in each environment."""
        with undisturbed():
            return self._play(model)

    def _play(self, model: BaseAlgorithm) -> NDArray[np.float64]:
        n = len(self._envs)
        normalizer = model.get_vec_normalize_env()
        observations = [env.reset(seed=seed)[0] for env, seed in zip(self._envs, self._seeds, strict=True)]
        returns, alive = np.zeros(n), np.ones(n, np.bool_)
        state: tuple[NDArray[Any], ...] | None = None
        starts = np.ones(n, np.bool_)
        for _ in range(self._longest):
            if not alive.any():
                break
            # Ended ones stay in the batch: its shape, and with it the last bit of the network's answer, never changes.
            batch = _stacked(observations, self._envs[0].observation_space)
            if normalizer is not None:
                batch = normalizer.normalize_obs(batch)
            actions, state = model.predict(batch, state=state, episode_start=starts, deterministic=True)
            starts = np.zeros(n, np.bool_)
            for i in np.flatnonzero(alive).tolist():
                observations[i], reward, terminated, truncated, _ = self._envs[i].step(actions[i])
                returns[i] += float(reward)
                alive[i] = not (terminated or truncated)
        return returns

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Whatever draws random numbers inside, the run draws the same ones as without it."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (SB3's generator)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])


def _stacked(observations: list[Any], space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: np.stack([each[key] for each in observations]) for key in space.spaces}
    return np.stack(observations)
