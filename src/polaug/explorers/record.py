"""One record of episodes: returns, starts, lengths, and the phase of the search that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from polaug.explorers.base import Batch, FloatArray
from polaug.explorers.returns import Returns
from polaug.snapshot import saved

_STARTS = 60  # number of first states kept
_ALIKE = 1e-9  # relative difference of rewards below which they are the same


@saved()
class Phase(Enum):
    """How far the search has come."""

    BLIND = 0
    """All rewards so far are equal or negligible: only the search counts."""
    SEARCHING = 1
    """Rewards differ, but none was an outlier, and no episode has terminated."""
    IMPROVING = 2
    """An outlier among the rewards was seen, or an end of the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """Settings of the record."""

    idle: int = 200
    """Number of equal first rewards of an episode after which doing nothing counts as the best known behaviour. Then
    only the search counts for five times as many steps. The pause doubles each time.
    """


@saved(
    "returns", "_starts", "started", "longest", "cut", "ended", "terminated", "_lengths", "_first", "_same",
    "_blind_until", "_calm",
)  # fmt: skip
class Record:
    """Follows the episodes of all environments."""

    def __init__(self, dimensions: int, gamma: float, options: RecordOptions) -> None:
        self.options, self.returns = options, Returns(gamma)
        self._starts = np.zeros((_STARTS, dimensions))
        self.started = 0
        """Episodes whose start was seen."""
        self.longest, self.cut = 0, False
        """The longest episode, and whether any was cut off by a time limit."""
        self.ended = 0
        """Episodes."""
        self.terminated = False
        """Whether any episode ever terminated."""
        self._lengths: list[int] = []  # of each environment's episode so far
        self._first: list[float] = []  # the first reward of each environment's episode,
        self._same: list[int] = []  # and how many were just that; −1 once one was not
        self._astray = 5 * options.idle  # steps for which only the search counts
        self._blind_until, self._calm = 0, self._astray

    def follow(self, batch: Batch) -> list[tuple[int, float]]:
        """Take in one step of each environment; gives (environment, return) of the episodes that ended with it."""
        n, ended = len(batch), batch.ended.tolist()
        if n != len(self._lengths):
            self.restart(n)
        rewards = batch.rewards.tolist()
        finished = self.returns.follow_step(rewards, ended)
        if not self.found:
            self._watch_for_idling(rewards, ended)
        for i, over in enumerate(ended):
            if self._lengths[i] == 0:
                self._starts[self.started % len(self._starts)] = batch.flat[i]
                self.started += 1
            self._lengths[i] += 1
            self.longest = max(self.longest, self._lengths[i])
            if over:
                terminated = bool(batch.terminated[i])
                self.cut = self.cut or not terminated
                self.terminated = self.terminated or terminated
                self.ended += 1
                self._lengths[i] = 0
        return finished

    def follow_on(self, batch: Batch, n: int) -> None:
        """`follow` of steps of n environments after each other, in none of which an episode ends."""
        rewards, none = batch.rewards.tolist(), [False] * n
        for at in range(0, len(rewards), n):
            self.returns.follow_step(rewards[at : at + n], none)
            if not self.found:
                self._watch_for_idling(rewards[at : at + n], none)
        for i in range(n):
            if self._lengths[i] == 0:
                self._starts[self.started % len(self._starts)] = batch.flat[i]
                self.started += 1
            self._lengths[i] += len(rewards) // n
            self.longest = max(self.longest, self._lengths[i])

    @property
    def environments(self) -> int:
        """How many are followed; 0 after a restart."""
        return len(self._lengths)

    def restart(self, n: int = 0) -> None:
        """Episodes under way have no end; the next ones are of n environments."""
        if len(self._lengths):
            self.returns.restart()
        self._lengths, self._same, self._first = [0] * n, [0] * n, [0.0] * n

    def _watch_for_idling(self, rewards: list[float], ended: list[bool]) -> None:
        """Return to the blind phase for some steps if an episode only repeats its first reward.

        If actions have a cost and no success was seen, doing nothing is the best known behaviour. Only equal rewards
        from the first step on count: staying in a good state that was reached before is not idling.
        """
        least = _ALIKE * max(abs(self.returns.best_reward), abs(self.returns.worst_reward))
        for i, reward in enumerate(rewards):
            if self._same[i] == 0:
                self._first[i] = reward
            same = self._same[i] >= 0 and abs(reward - self._first[i]) <= least
            self._same[i] = 0 if ended[i] else self._same[i] + 1 if same else -1
        rested = self.returns.steps >= self._blind_until + (self._calm - self._astray)
        if rested and self.at_stake and max(self._same, default=0) >= self.options.idle:
            self._blind_until, self._calm = self.returns.steps + self._astray, 2 * self._calm
            self._same = [-1] * len(self._same)

    # -- what is known ----------------------------------------------------------------------------------------------

    @property
    def at_stake(self) -> bool:
        """Whether rewards have differed so far."""
        best, worst = self.returns.best_reward, self.returns.worst_reward
        return best - worst > _ALIKE * max(abs(best), abs(worst))

    @property
    def found(self) -> bool:
        """Whether an outlier among the rewards, or an end of the task, was ever seen."""
        return self.returns.rewarded or self.terminated

    @property
    def costly(self) -> bool:
        """Whether every step has a clear cost. Doing nothing is then no solution, so low returns are informative."""
        return self.returns.best_reward < -0.01 * abs(self.returns.worst_reward)

    @property
    def trifling(self) -> bool:
        """Whether some rewards are positive, none is an outlier and none is negative."""
        return self.returns.best_reward > 0.0 and self.returns.worst_reward >= 0.0 and not self.returns.rewarded

    @property
    def phase(self) -> Phase:
        """How far the search has come."""
        if self.found:
            return Phase.IMPROVING
        blind = not self.at_stake or self.trifling or self.returns.steps < self._blind_until
        return Phase.BLIND if blind else Phase.SEARCHING

    def horizon(self, most: int) -> int:
        """How long model rollouts should be."""
        return min(self.longest, most) if self.cut else min(max(2 * self.longest, 100), most)

    def starts(self, count: int, rng: np.random.Generator) -> FloatArray:
        """First states (count, d) of past episodes."""
        return self._starts[rng.integers(max(min(self.started, len(self._starts)), 1), size=count)]
