"""`aggregation`: tabular R-max on a coarse grid over the observed range (state aggregation; Bertsekas, 2011).

A smooth model predicts paths through walls; counts do not. A cell is about two steps wide, so that most steps lead to
another cell. It helps where observations have few dimensions and steps are large, and wastes episodes elsewhere.
Therefore it is the reserve arm of the portfolio, which plays when the other arms keep failing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polaug.explorers.base import FloatArray, IntArray
from polaug.explorers.experience import Experience
from polaug.explorers.table import EXPLORING, Table
from polaug.snapshot import saved

_MOST_DIMENSIONS, _MOST_ACTIONS = 4, 9
_AT_ONCE = 400  # transitions of the buffer that are counted at one step


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationOptions:
    """Settings of the grid."""

    most: int = 16
    """Maximum number of cells along a dimension."""
    cells: int = 4000
    """Maximum number of cells of the grid."""
    width: float = 2.0
    """Width of a cell, in large (90% quantile) changes of a dimension within a step."""


@saved("_low", "_width", "_across", "_table", "_counted", "_modes", "laid")
class Aggregation:
    """Counts on a grid, which is built at the first use and again whenever the observed range has grown."""

    def __init__(
        self, experience: Experience, n_actions: int, rng: np.random.Generator, options: AggregationOptions
    ) -> None:
        self._experience, self._n_actions, self._rng, self._options = experience, n_actions, rng, options
        d = len(experience.buffer.low)
        self._low, self._width, self._across = np.zeros(d), np.ones(d), np.ones(d, dtype=np.int64)
        self._table = Table(n_actions, experience.record.returns)
        self._counted = 0  # step up to which the buffer was counted
        self._modes = np.zeros(0, dtype=np.int64)  # in which each environment's episode is played
        self.laid = False
        """Whether there is a grid."""

    @staticmethod
    def suits(dimensions: int, n_actions: int) -> bool:
        """Whether a grid over so many dimensions has few enough cells to be counted."""
        return dimensions <= _MOST_DIMENSIONS and n_actions <= _MOST_ACTIONS

    def choose(self, flat: FloatArray, where: IntArray) -> IntArray:
        """Actions of the environments `where` (k,), of all observations (n, d)."""
        modes = self._modes if len(self._modes) == len(flat) else np.full(len(flat), EXPLORING)
        rows = self._rows(flat[where]).tolist()
        chosen = [self._table.choose(row, int(modes[i]), self._rng) for row, i in zip(rows, where, strict=True)]
        return np.array(chosen, dtype=np.int64)

    def learn(self, n: int, judged: Mapping[int, float | None]) -> None:
        """Count the new transitions of the buffer, and pass the returns of ended episodes to the table."""
        if not self.laid or self._outgrown():
            self._lay()
        if len(self._modes) != n:
            self._modes = np.full(n, EXPLORING)
        self._catch_up()
        for i, total in judged.items():
            if total is not None:
                self._table.judge(int(self._modes[i]), total)
            self._modes[i] = self._table.next_mode()
        if judged:
            self._table.episode_ended()
        else:
            self._table.plan()

    def _outgrown(self) -> bool:
        buffer, factor = self._experience.buffer, 1.0 + 2.0 * self._experience.dynamics.options.reframe
        if (buffer.high - buffer.low <= factor * self._width * self._across).all():
            return False  # without a look for outliers
        low, high = buffer.bounds()
        span = np.where(buffer.scale()[1] > 0.0, high - low, 0.0)
        return bool((span > factor * self._width * self._across).any())

    def _lay(self) -> None:
        """A grid over the range seen, with cells that are some steps wide; nothing is counted yet."""
        buffer, options = self._experience.buffer, self._options
        wide, (low, high) = buffer.scale()[1] > 0.0, buffer.bounds()
        span = np.where(wide, high - low, 1.0)
        moved = np.abs(buffer.next_states[: buffer.size] - buffer.states[: buffer.size])
        steps = np.quantile(moved, 0.9, axis=0)
        across = np.full_like(span, options.most)
        np.divide(span, options.width * steps, out=across, where=steps > span / (2 * options.most))
        across = np.where(wide, np.clip(across, 1, options.most), 1.0)
        across = across * min(1.0, (options.cells / math.prod(across.tolist())) ** (1.0 / len(across)))
        self._across = np.maximum(across.astype(np.int64), 1)
        self._low, self._width = low.copy(), span / self._across
        self._table = Table(self._n_actions, self._experience.record.returns)
        self._counted, self.laid = 0, True

    def _rows(self, flat: FloatArray) -> IntArray:
        """The cells (n,) of observations (n, d)."""
        places = np.clip((flat - self._low) / self._width, 0, self._across - 1).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(places.T), tuple(self._across.tolist())), dtype=np.int64)

    def _catch_up(self) -> None:
        """Count what the buffer got since the last call, the earliest first."""
        buffer = self._experience.buffer
        slots = buffer.written_since(self._counted)
        slots = slots[np.argsort(buffer.stamps[slots], kind="stable")][:_AT_ONCE]
        if not len(slots):
            return
        self._counted = int(buffer.stamps[slots[-1]])
        rows, following = self._rows(buffer.states[slots]).tolist(), self._rows(buffer.next_states[slots]).tolist()
        for slot, row, to in zip(slots.tolist(), rows, following, strict=True):
            ends = bool(buffer.terminated[slot])
            self._table.count(row, int(buffer.actions[slot]), float(buffer.rewards[slot]), to, ends)

    def values(self, flat: FloatArray) -> FloatArray:
        """Q̂ (n, N) by what was tried in each cell."""
        return np.stack([self._table.known_values(int(row)) for row in self._rows(flat)])
