"""Where a run is, as its worker tells it, and how long it will take. Without torch, which who listens need not load."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

_STABLE_SHARE, _STABLE_SECONDS = 0.05, 20.0  # of a run that must be over before its pace says anything
_APART, _LEAST = 0.5, 5.0  # seconds between what is remembered, and least over which a pace is measured


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is."""

    step: int
    steps: int
    episode: int
    return_: float
    """Of the last training episode; NaN before the first has ended."""
    actor: str
    """Who drove it."""
    evaluation: float
    """The agent's last deterministic mean; NaN before the first."""


class Pace:
    """How fast a run is by the later half of its time so far: at first it compiles, and that does not come again."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._seen: deque[tuple[float, int]] = deque([(started, 0)])
        self._now, self._step, self._steps = started, 0, 0

    def add(self, now: float, progress: Progress) -> None:
        """Note where the run is; `now` in seconds on the clock of `started`."""
        self._now, self._step, self._steps = now, progress.step, progress.steps
        if now - self._seen[-1][0] >= _APART:
            self._seen.append((now, progress.step))
        while len(self._seen) > 1 and self._seen[0][0] < (self._started + now) / 2:
            self._seen.popleft()

    def left(self, now: float) -> float:
        """Seconds that are left; NaN while too little has been seen to tell."""
        since, step = self._seen[0]
        early = self._now - self._started < _STABLE_SECONDS or self._step < _STABLE_SHARE * self._steps
        if early or self._now - since < _LEAST or self._step <= step:
            return math.nan
        rate = (self._step - step) / (self._now - since)
        return max(0.0, (self._steps - self._step) / rate - (now - self._now))
