"""Repeats the best episode so far, as long as the same observations come.

Where observations hide something (MiniGrid shows what is in front of the agent, not where it is), a plan over them may
walk in circles for ever, although an episode went well before. If the task is deterministic, what was done then leads
there again (Ecoffet et al., 2021, "First return, then explore").
"""

from __future__ import annotations

import numpy as np

from polaug.snapshot import saved

LONGEST = 5000
"""Steps of an episode that is remembered; a longer one is not."""
_MOST_REPLAYS = 16  # between two tries of a plan that keeps failing


@saved("best", "best_return", "_under_way", "_elsewhere", "_failures", "_due", "_repeatable")
class BestEpisode:
    """Remembers the best episode, decides when to play it again, and says what was done then.

    After an exploiting episode that fell short of the best, the best is played once; after the next failure in a row
    twice, then 4, 8, 16 times. An episode played again that met another observation shows that the task is random or
    starts elsewhere: nothing is played again until there is a better one.
    """

    def __init__(self) -> None:
        self.best: list[tuple[int, int]] = []  # state and action of each step
        self.best_return = -np.inf
        self._under_way: dict[int, list[tuple[int, int]]] = {}
        self._elsewhere: set[int] = set()
        self._failures = 0
        self._due = 0  # episodes to be played again now
        self._repeatable = True

    def reset(self) -> None:
        """Unfinished episodes have no end."""
        self._under_way, self._elsewhere = {}, set()

    @property
    def in_force(self) -> bool:
        """Whether it is better than what the plan does."""
        return self._failures > 0 and self._repeatable

    def is_due(self) -> bool:
        """Whether the next exploiting episode plays the best one again; counted if so."""
        due = self.in_force and self._due > 0
        self._due -= due
        return due

    def action(self, environment: int, state: int) -> int | None:
        """What was done at this step of the best episode, if it was in this state."""
        t = len(self._under_way.get(environment, ()))
        if t < len(self.best) and self.best[t][0] == state and environment not in self._elsewhere:
            return self.best[t][1]
        return None

    def begins(self, environment: int) -> bool:
        """Whether no step of the environment's episode is known yet."""
        return not self._under_way.get(environment)

    def step(self, environment: int, state: int, action: int) -> None:
        """One step of an episode."""
        so_far = self._under_way.setdefault(environment, [])
        t = len(so_far)
        if t <= LONGEST:
            so_far.append((state, action))
        if t >= len(self.best) or self.best[t] != (state, action):
            self._elsewhere.add(environment)

    def ended(self, environment: int, total: float, *, exploited: bool, replayed: bool) -> None:
        """The episode of an environment has ended with a return of `total`."""
        episode = self._under_way.pop(environment, [])
        self._elsewhere.discard(environment)
        short = total < self.best_return - 1e-9 * abs(self.best_return)
        if replayed and short:
            self._repeatable = False
        elif exploited and not replayed:
            self._failures = self._failures + 1 if short else max(self._failures - 1, 0)
            self._due = min(2 ** (self._failures - 1), _MOST_REPLAYS) if short else 0
        if total > self.best_return and len(episode) <= LONGEST:
            self.best, self.best_return, self._repeatable = episode, total, True
            self._elsewhere = self._off_track()

    def _off_track(self) -> set[int]:
        """Environments whose episode is not the beginning of the best one."""
        return {env for env, steps in self._under_way.items() if steps != self.best[: len(steps)]}

    def actions_in(self, state: int) -> list[int]:
        """What the best episode did in a state, if it is in force."""
        return sorted({action for s, action in self.best if s == state}) if self.in_force else []
