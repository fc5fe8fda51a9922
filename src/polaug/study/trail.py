"""The states, actions and returns-to-go of a run in bounded memory: beyond a number of rows every second one goes.

A step only copies what it is given; the work is done for many steps at once.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 100_000
"""The most rows that are kept."""
_BLOCK = 4_096  # steps of all environments between two times of work
_LONGEST = 20_000  # steps after which an episode under way is settled without waiting for its end
_NEVER = np.iinfo(np.int64).max

Rows = tuple[NDArray[np.float32], NDArray[np.float64]]
"""States (n, d), and (n, 4): column, reward and later the return, seen at, known at."""


class Trail:
    """Rows of (state, action's column, discounted return-to-go, step at which it was seen, step at which it ended).

    `columns` gives the columns (k,) of actions (k, ...).
    """

    def __init__(self, size: int, gamma: float, columns: Callable[[NDArray[Any]], NDArray[np.int64]]) -> None:
        self._size, self._gamma, self._columns = size, gamma, columns
        self._open: list[list[Rows]] = []  # for each environment the parts of its episode under way
        self._block: tuple[NDArray[Any], ...] = ()  # observations, actions, rewards, ends: (steps, environments, ...)
        self._shape: tuple[int, ...] | None = None  # of the actions that fit into it
        self._dtype: np.dtype[Any] | None = None
        self._waiting = 0  # steps in the block
        self._states = np.zeros((1024, size), dtype=np.float32)
        self._numbers = np.zeros((1024, 4))  # column, return, seen at, known at
        self._filled = self._settled = 0
        self.steps = 0
        """Steps of all environments so far."""
        self.stride = 1
        """Each row stands for so many steps."""

    def add(self, states: Any, actions: Any, rewards: Any, ended: Any) -> None:
        """One step of n environments."""
        actions = np.asarray(actions)
        if actions.shape != self._shape or actions.dtype != self._dtype:
            self._work()
            self._make_room(np.shape(states), actions)
        block, at = self._block, self._waiting
        block[0][at], block[1][at], block[2][at], block[3][at] = states, actions, rewards, ended
        self._waiting = at + 1
        self.steps += len(actions)
        if self._waiting == len(block[0]):
            self._work()

    def rows(self) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """States (n, d), columns, returns (NaN: still open), when seen, when known; in no particular order."""
        self._work()
        states, parts = [self._states[: self._filled]], [self._numbers[: self._filled]]
        for episode in filter(None, self._open):
            seen, numbers = (np.concatenate(part)[:: self.stride] for part in zip(*episode, strict=True))
            numbers[:, 1] = np.nan
            states.append(seen)
            parts.append(numbers)
        table = np.concatenate(parts)
        return np.concatenate(states), table[:, 0].astype(np.int64), table[:, 1], table[:, 2], table[:, 3]

    def _make_room(self, shape: tuple[int, ...], actions: NDArray[Any]) -> None:
        n, steps = len(actions), max(1, _BLOCK // len(actions))
        self._block = (
            np.zeros((steps, *shape), np.float32), np.zeros((steps, *actions.shape), actions.dtype),
            np.zeros((steps, n)), np.zeros((steps, n), np.bool_),
        )  # fmt: skip
        self._shape, self._dtype = actions.shape, actions.dtype
        self._open += [[] for _ in range(n - len(self._open))]

    def _work(self) -> None:
        """Empty the block: ended episodes become rows, the others go on."""
        if not self._waiting:
            return
        states, actions, rewards, ended = (part[: self._waiting] for part in self._block)
        (count, n), self._waiting = rewards.shape, 0
        columns = self._columns(actions.reshape(count * n, *actions.shape[2:])).reshape(count, n)
        seen_at, never = self.steps - n * np.arange(count - 1, -1, -1.0), np.full(count, float(_NEVER))
        for env in range(n):
            seen = states[:, env].reshape(count, self._size).copy()  # the block is used again
            numbers = np.stack([columns[:, env], rewards[:, env], seen_at, never], axis=1)
            first = 0
            for last in (np.flatnonzero(ended[:, env]) + 1).tolist():
                self._open[env].append((seen[first:last], numbers[first:last]))
                self._settle(env)
                first = last
            if first < count:
                self._open[env].append((seen[first:], numbers[first:]))
            if sum(len(part) for part, _ in self._open[env]) >= _LONGEST:
                self._settle(env)

    def _settle(self, env: int) -> None:
        """The episode is over: its returns are known from now on."""
        parts, self._open[env] = self._open[env], []
        seen, table = parts[0] if len(parts) == 1 else (np.concatenate(part) for part in zip(*parts, strict=True))
        backwards = accumulate(table[::-1, 1].tolist(), lambda later, reward: reward + self._gamma * later)
        table[::-1, 1] = list(backwards)
        table[:, 3] = table[-1, 2]
        first = -self._settled % self.stride  # as if all episodes were one: short ones are thinned like long ones
        self._settled += len(seen)
        self._append(seen[first :: self.stride], table[first :: self.stride])

    def _append(self, states: NDArray[np.float32], table: NDArray[np.float64]) -> None:
        needed = self._filled + len(states)
        while needed > len(self._states):
            self._states = np.concatenate([self._states, np.zeros_like(self._states)])
            self._numbers = np.concatenate([self._numbers, np.zeros_like(self._numbers)])
        self._states[self._filled : needed], self._numbers[self._filled : needed] = states, table
        self._filled = needed
        if self._filled > ROWS:
            kept = (self._filled + 1) // 2
            self._states[:kept] = self._states[: self._filled : 2].copy()
            self._numbers[:kept] = self._numbers[: self._filled : 2].copy()
            self._filled, self.stride = kept, 2 * self.stride
