"""Returns of the episodes under way in each environment."""

from __future__ import annotations

import numpy as np

from polaug.exploration.base import Batch
from polaug.state import State, fitting


class Episodes:
    """Adds up rewards per environment and gives the totals of the episodes that ended."""

    def __init__(self) -> None:
        self.returns = np.zeros(0)
        self.lengths = np.zeros(0, dtype=np.int64)

    def follow(self, batch: Batch) -> list[tuple[float, int]]:
        """Take in a step of each environment; gives (return, length) of the episodes that ended with it."""
        if len(batch) != len(self.returns):  # another number of environments: their episodes begin here
            self.returns, self.lengths = np.zeros(len(batch)), np.zeros(len(batch), dtype=np.int64)
        self.returns += batch.rewards
        self.lengths += 1
        ended = batch.ended.nonzero()[0]
        if not len(ended):
            return []
        done = [(float(self.returns[i]), int(self.lengths[i])) for i in ended]
        self.returns[ended] = 0.0
        self.lengths[ended] = 0
        return done

    def state_dict(self) -> State:
        """Totals so far."""
        return {"returns": self.returns.copy(), "lengths": self.lengths.copy()}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        layout = {"returns": ("f", "n"), "lengths": ("i", "n")}
        self.returns, self.lengths = fitting("episodes", state, layout).values()
