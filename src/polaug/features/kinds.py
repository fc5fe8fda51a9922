"""Detects whether observations repeat exactly. The declared space is not used.

If observations repeat exactly, a table of counts is enough. Otherwise a model must generalise from near observations.
The same small integers may be declared as Box, MultiDiscrete, Dict of Discrete or float32.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polaug.snapshot import saved

CODES = 2**53
"""Codes lie in [0, CODES): the whole numbers that a float holds exactly."""


def codes(flat: NDArray[np.float64]) -> NDArray[np.int64]:
    """A number for each row (n,) of `flat` (n, d): equal rows, equal numbers."""
    rows = np.ascontiguousarray(flat + 0.0)  # −0 becomes 0
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return np.array([int.from_bytes(digest, "little") % CODES for digest in digests], dtype=np.int64)


def recur(
    returned: int, looked_at: int, before: bool, *, enough: int = 32, rare: float = 0.1, common: float = 0.5
) -> bool:
    """Decides whether observations repeat exactly: of the last `looked_at`, `returned` had been seen before.

    Fewer than `enough` leave the decision as `before`, at first True: a table needs no data to begin with. Below the
    share `rare` they do not recur, above `common` they do, in between nothing changes. A systematic search of a finite
    world comes back at most steps, since it tries every action of a state; measured numbers almost never repeat.
    """
    if looked_at < enough:
        return before
    share = returned / looked_at
    return share >= rare if before else share > common


@saved("_seen", "_recent", "_returned", "_looked_at", "_episodes", "_begun", "recurs")
class Recurrence:
    """Records observations and decides with `recur` whether they repeat.

    Only those count as come back that were first seen in another episode: a walk in steps of a fixed size comes back to
    its places, but not if every episode begins elsewhere. In the first episode whole numbers and pictures, which
    usually stand for one of finitely many states, count as soon as they come back.

    At least the latest `window` observations count, or the last quarter of all: a search that finds the door to
    another room sees new things for a whole episode, however well it knows the first room. `memory` is how many
    different observations are remembered.
    """

    def __init__(self, window: int = 64, memory: int = 20_000) -> None:
        self.window, self._memory = window, memory
        self._seen: dict[int, int] = {}  # the episode in which each was first seen
        self._recent: deque[bool] = deque()
        self._returned = 0  # of these
        self._looked_at = 0  # observations so far
        self._episodes: list[int] = []  # the one under way in each environment
        self._begun = 0
        self.recurs = True

    @property
    def in_first_episode(self) -> bool:
        """Whether no episode has ended yet: only then does it matter whether observations are `finite`."""
        return self._begun <= len(self._episodes)

    def observe(self, new: Sequence[int], ended: Sequence[bool], *, finite: bool = True) -> bool:
        """Take in the code of what each environment's step led to, and whether it ended there; gives `recurs`.

        `finite` says that these are whole numbers or pictures.
        """
        if len(new) != len(self._episodes):
            self._episodes = list(range(self._begun, self._begun + len(new)))
            self._begun += len(new)
        for i, (code, over) in enumerate(zip(new, ended, strict=True)):
            first, episode = self._seen.get(code), self._episodes[i]
            back = first is not None and (first != episode or (finite and self._begun == len(new)))
            self._recent.append(back)
            self._returned += back
            self._seen.setdefault(code, episode)
            if over:
                self._episodes[i] = self._begun
                self._begun += 1
        self._looked_at += len(new)
        window = max(self.window, min(self._looked_at, self._memory) // 4)
        while len(self._recent) > window:
            self._returned -= self._recent.popleft()
        while len(self._seen) > self._memory:
            del self._seen[next(iter(self._seen))]
        self.recurs = recur(self._returned, len(self._recent), self.recurs)
        return self.recurs
