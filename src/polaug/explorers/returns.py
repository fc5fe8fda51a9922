"""Discounted returns-to-go observed so far: the scale on which values, optimism and clipping are measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polaug.explorers.base import Batch, FloatArray
from polaug.snapshot import saved

_RARE = 0.01  # of all rewards may lie above the usual ones, and as many below
_LONGEST = 2000  # rewards kept of an episode under way; at γ ≤ 0.995 what lies further back adds nothing


@saved("low", "high", "best_reward", "worst_reward", "steps", "_outstanding", "_struck", "_rewards", "_totals")
class Returns:
    """Range [low, high] of the returns-to-go of finished episodes (0 included), range of rewards, episode totals."""

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.low = self.high = 0.0
        self.best_reward, self.worst_reward = -np.inf, np.inf
        self._outstanding = np.inf  # rewards above it are outliers
        self._struck = False  # whether one was ever seen; kept, because such a reward may become common
        self.steps = 0
        self._rewards: list[list[float]] = []
        self._totals: list[float] = []

    @property
    def environments(self) -> int:
        """How many are followed; 0 after a restart."""
        return len(self._rewards)

    def follow(self, batch: Batch) -> list[tuple[int, float]]:
        """Take in one step of each environment; gives (environment, return) of the episodes that ended with it."""
        return self.follow_step(batch.rewards.tolist(), batch.ended.tolist())

    def follow_step(self, rewards: Sequence[float], ended: Sequence[bool]) -> list[tuple[int, float]]:
        """`follow`, of the rewards and ends of n environments alone."""
        if len(rewards) != len(self._rewards):
            self._rewards, self._totals = [[] for _ in range(len(rewards))], [0.0] * len(rewards)
        self.steps += len(rewards)
        finished = []
        for i, reward in enumerate(rewards):
            self.best_reward, self.worst_reward = max(self.best_reward, reward), min(self.worst_reward, reward)
            self._struck = self._struck or reward > self._outstanding
            self._rewards[i].append(reward)
            self._totals[i] += reward
            if ended[i] or len(self._rewards[i]) >= _LONGEST:
                self._look_back(self._rewards[i])
                self._rewards[i] = []
            if ended[i]:
                finished.append((i, self._totals[i]))
                self._totals[i] = 0.0
        return finished

    def survey(self, rewards: FloatArray) -> None:
        """Set the bound for outliers from a sample (n,) of all rewards so far."""
        low, high = np.quantile(rewards, [_RARE, 1.0 - _RARE])
        self._outstanding = float(high + (high - low))
        self._struck |= self.best_reward > self._outstanding

    @property
    def rewarded(self) -> bool:
        """Whether a reward was ever positive and, if rewards differ, an outlier."""
        best, worst = self.best_reward, self.worst_reward
        return best > 0 and (self._struck or best - worst <= 1e-9 * max(abs(best), abs(worst)))

    @property
    def most(self) -> float:
        """Upper bound of all values: the best reward so far at every step, or 0 if it is negative."""
        return max(self.best_reward, 0.0) / (1.0 - self.gamma)

    def restart(self) -> None:
        """Forget the episodes under way: they have no end."""
        self._rewards, self._totals = [], []

    def scale(self) -> float:
        """The spread high − low; before an episode has ended, what the rewards so far would add up to. Above 0."""
        if self.high > self.low:
            return self.high - self.low
        largest = max(abs(self.best_reward), abs(self.worst_reward), 1e-12) if self.steps else 1e-12
        return largest * min(max(self.steps, 1), 1.0 / (1.0 - self.gamma))

    def look_ahead(self) -> None:
        """Count the episodes under way as if they ended now, for early estimates."""
        for rewards in self._rewards:
            self._look_back(rewards)

    def _look_back(self, rewards: list[float]) -> None:
        to_go = 0.0
        for reward in reversed(rewards):
            to_go = reward + self.gamma * to_go
            self.low, self.high = min(self.low, to_go), max(self.high, to_go)
