"""The steps of the ladder between the printed algorithm and planning: Q̂ completed from Bellman targets, on the
paper's hashed states. Not for use: the explorers of `polaug.explorers` are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from polaug.completion import InductiveCompletion
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.features.fourier import Fourier
from polaug.features.grid import Grid
from polaug.features.spaces import Flattener, Space


class FourierGrid(Grid):
    """The cells of `Grid`; the features of a row are a Fourier basis of its centre: a constant, and both signs."""

    def __init__(self, space: Space, *, order: int = 3) -> None:
        super().__init__(space, scaled=True)
        d = Flattener(space).size
        self._basis = Fourier(spaces.Box(-1.0, 1.0, (d,), dtype=np.float64), order=order)
        self.size = self._basis.size

    def __call__(self, observations: Any) -> FloatArray:
        """Features (n, m) of observations as they are, not of their cells."""
        return self.at(self.scaled(observations))

    def row_features(self) -> FloatArray:
        """X (n_rows, m)."""
        return self.at(self.centres())

    def scaled(self, observations: Any) -> FloatArray:
        """Observations (n, d) in [−1, 1]."""
        return self._scaler(self._flatten(observations))

    def centres(self) -> FloatArray:
        """Centres (n_rows, d) of the cells, in [−1, 1]."""
        return super().row_features()

    def at(self, places: FloatArray) -> FloatArray:
        """Features (n, m) of places (n, d) in [−1, 1]."""
        return self._basis(np.clip(places, -1.0, 1.0))


@dataclass(frozen=True)
class CompletedQOptions:
    """Settings of `CompletedQ`."""

    gamma: float = 0.99
    """Discount, as the paper's."""
    optimism: float = 0.0
    """Bonus at pairs of which nothing is known, in units of the largest reward; 0 is greedy. It falls with the
    completion's standard deviation, as the count in MBIE-EB (Strehl & Littman, 2008)."""
    dynamics: bool = False
    """Complete next state, reward and end, and back up every pair with them."""
    every: int = 100
    """Steps between completions: two for a full episode of the paper's MountainCar."""
    sweeps: int = 10
    """Backups between completions; each is fitted before the next, starting from the last Q̂."""
    ridge: float = 1e-2
    """Weight of ‖W‖² against one observed entry."""


class CompletedQ(Explorer):
    """Greedy on a Q̂ that is completed from Bellman targets r + γ max Q̂(s', ·) on the pairs tried (Ω).

    Parameters
    ----------
    **options
        Fields of `CompletedQOptions`.
    """

    Options = CompletedQOptions

    def __init__(self, observation_space: Space, action_space: Space, *, seed: int = 0, **options: Any) -> None:
        super().__init__(observation_space, action_space, seed=seed)
        self._settings = CompletedQOptions(**options)
        self._hash = FourierGrid(self._state_space)
        self._Y: FloatArray = np.eye(self.actions.n_actions)
        self._q: InductiveCompletion | None = None
        self._known: Any = None  # the completion of what was tried; its deviation is the novelty
        self._range, self._bonus_size = (0.0, 0.0), 0.0
        self._steps: list[tuple[FloatArray, int, float, FloatArray, bool]] = []

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        values = self._q_values(flat, states)
        if values is None:
            return self._rng.integers(self.actions.n_actions, size=len(flat))
        keys = np.where(values >= values.max(axis=1, keepdims=True), self._rng.random(values.shape), -1.0)
        return np.asarray(keys.argmax(axis=1), dtype=np.int64)

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return None if self._q is None else self._values(self._hash(states))

    def _learn(self, batch: Batch) -> None:
        self._hash.observe(batch.next_flat)
        self._steps += zip(
            batch.flat, batch.actions.tolist(), batch.rewards.tolist(), batch.next_flat, batch.terminated.tolist(),
            strict=True,
        )  # fmt: skip
        if (self.steps + len(batch)) // self._settings.every > self.steps // self._settings.every:
            self._complete()

    def _values(self, x: FloatArray) -> FloatArray:
        """Q̂ (n, N) at features (n, m), as far as returns can go, with optimism where little is known."""
        assert self._q is not None
        low, high = self._range
        values: FloatArray = np.clip(self._q.predict(x, self._Y), low, high)
        if self._settings.optimism:
            deviation = self._known.predict(x, self._Y, return_std=True)[1]
            values += self._bonus_size * np.minimum(deviation, 1.0)
        return values

    def _complete(self) -> None:
        """Every pair tried is an entry, with the means of what followed it."""
        here, actions, rewards, there, ends = (np.array(column) for column in zip(*self._steps, strict=True))
        gamma, n, X = self._settings.gamma, self.actions.n_actions, self._hash.row_features()
        self._bonus_size = self._settings.optimism * float(np.abs(rewards).max())
        low, high = min(rewards.min(), 0.0), max(rewards.max() + self._bonus_size, 0.0)
        self._range = low / (1.0 - gamma), high / (1.0 - gamma)
        pairs, at, tries = np.unique(self._hash.rows(here) * n + actions, return_inverse=True, return_counts=True)

        def entries(values: FloatArray) -> InductiveCompletion:
            """The completion of the means of `values` over the steps of each pair."""
            return self._completed(X, pairs, np.bincount(at, values, len(pairs)) / tries)

        self._known = entries(rewards)
        if self._settings.dynamics:
            moves = (self._hash.scaled(there) - self._hash.scaled(here)).T
            reward, end, *move = (each.predict(X, self._Y) for each in map(entries, (rewards, ends, *moves)))
            places = self._hash.centres()[:, None] + np.stack(move, axis=2)  # (rows, N, d)
            after = self._hash.at(places.reshape(-1, places.shape[2]))
            goes_on = 1.0 - np.clip(end, 0.0, 1.0).ravel()
            for _ in range(self._settings.sweeps):
                values = reward.ravel() + gamma * goes_on * self._ahead(after)
                self._q = self._completed(X, np.arange(len(values)), values)
            return
        after = self._hash(there)
        for _ in range(self._settings.sweeps):
            self._q = entries(rewards + gamma * (1.0 - ends) * self._ahead(after))

    def _ahead(self, x: FloatArray) -> FloatArray:
        """Max Q̂(s, ·) (n,) at features (n, m); 0 before there is a Q̂."""
        return np.zeros(len(x)) if self._q is None else self._values(x).max(axis=1)

    def _completed(self, X: FloatArray, pairs: IntArray, values: FloatArray) -> InductiveCompletion:
        """W fitted to the values of pairs row · N + action."""
        rows, columns = np.divmod(pairs, self.actions.n_actions)
        return InductiveCompletion("recursive", ridge=self._settings.ridge, noise=1.0).fit(
            X, self._Y, rows, columns, values
        )
