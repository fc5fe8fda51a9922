"""Returns of the episodes under way in each environment."""

from __future__ import annotations

import numpy as np

from polaug.explorers.base import Batch
from polaug.snapshot import saved


@saved("returns")
class Episodes:
    """Adds up rewards per environment and gives the totals of the episodes that ended."""

    def __init__(self) -> None:
        self.returns = np.zeros(0)

    def follow(self, batch: Batch) -> list[float]:
        """Take in a step of each environment; gives the returns of the episodes that ended with it."""
        if len(batch) != len(self.returns):  # another number of environments: their episodes begin here
            self.returns = np.zeros(len(batch))
        self.returns += batch.rewards
        ended = batch.ended.nonzero()[0]
        if not len(ended):
            return []
        done: list[float] = self.returns[ended].tolist()
        self.returns[ended] = 0.0
        return done
