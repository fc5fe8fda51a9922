"""The latest returns and lengths of the episodes of guide and agent."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import State

KINDS = ("guide", "agent", "noisy")
"""Episodes of the guide, of the agent without its exploration noise, and of the agent with it."""

FLOOR = 0.05
"""Smallest standard deviation of returns, as a fraction of the range of all returns. Without it, equal returns of a
deterministic policy would make P(guide better) 0 or 1 after two episodes."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode of one environment, or a segment of one that does not end."""

    environment: int
    total: float
    length: int
    kind: str


class Records:
    """The last `window` returns and lengths of each kind, and the range of all returns.

    `prior` is P(guide better) before both have two episodes that count.
    """

    def __init__(self, window: int, prior: float = 0.9) -> None:
        self._window, self._prior = window, prior
        self.returns: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self._lengths: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self._ended_at: dict[str, list[float]] = {kind: [] for kind in KINDS}  # environment steps
        self._low, self._high = math.inf, -math.inf

    def add(self, episode: Episode, steps: int) -> None:
        """Record an episode that ended after so many environment steps."""
        columns = (self.returns, self._lengths, self._ended_at)
        for values, value in zip(columns, (episode.total, float(episode.length), float(steps)), strict=True):
            values[episode.kind] = [*values[episode.kind], value][-self._window :]
        self._low, self._high = min(self._low, episode.total), max(self._high, episode.total)

    @property
    def scale(self) -> float:
        """Range of all returns so far; 0 while they are all equal."""
        return self._high - self._low if self._high > self._low else 0.0

    def mean(self, kind: str) -> float:
        """Mean of the latest returns; NaN if there are none."""
        values = self.returns[kind]
        return sum(values) / len(values) if values else math.nan

    def length(self, driver: str) -> float:
        """Mean length of the latest episodes of the "guide" or of the "agent", with noise or without."""
        kinds = ("guide",) if driver == "guide" else ("agent", "noisy")
        values = [length for kind in kinds for length in self._lengths[kind]]
        return sum(values) / len(values) if values else math.nan

    def p_guide(self, steps: int) -> float:
        """P(the guide's mean return is above the agent's), with or without exploration noise, whichever is better.

        Without noise an untrained agent is often as bad as a bad guide, and would be taught to stay bad. A guide may
        learn although it hardly drives, so its episodes from the first half of the `steps` so far do not count.
        """
        ended_at = np.array(self._ended_at["guide"])
        guide = np.array(self.returns["guide"])[ended_at > steps / 2]
        return min(self._p_above(guide, "agent", self._prior), self._p_above(guide, "noisy", 1.0))

    def _p_above(self, guide: NDArray[np.float64], kind: str, unknown: float) -> float:
        """P(the mean of the `guide`'s returns is above that of `kind`), from normal errors of the two means."""
        agent = np.array(self.returns[kind])
        if min(len(guide), len(agent)) < 2 or self.scale == 0.0:
            return unknown
        floor = (FLOOR * self.scale) ** 2
        error = math.sqrt((guide.var() + floor) / len(guide) + (agent.var() + floor) / len(agent))
        return 0.5 * (1.0 + math.erf(float(guide.mean() - agent.mean()) / (error * math.sqrt(2.0))))

    def state_dict(self) -> State:
        """Returns, lengths, when they were, the range of returns and the prior."""
        state: State = {"range": np.array([self._low, self._high]), "prior": np.array(self._prior)}
        for kind in KINDS:
            state[kind] = np.array([self.returns[kind], self._lengths[kind], self._ended_at[kind]])
        return state

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        arrays = {kind: state[kind] for kind in KINDS}
        if any(array.ndim != 2 or len(array) != 3 or array.dtype.kind != "f" for array in arrays.values()):
            raise StateError("records: must hold returns and lengths. The state is damaged.")
        self._low, self._high = (float(bound) for bound in state["range"])
        self._prior = float(state["prior"])
        for kind, rows in arrays.items():
            self.returns[kind], self._lengths[kind], self._ended_at[kind] = rows.tolist()
