"""An explorer as the one who is asked in a lesson: what its Q̂ said is summed up for the log."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.exploration import Explorer


class Asked:
    """Passes questions on; `statistics` are of the states that Q̂ was last asked about, empty if it had no answer."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.statistics: dict[str, float] = {}

    def q_values(self, observations: NDArray[Any]) -> NDArray[np.float64] | None:
        """As the explorer's."""
        q = self.explorer.q_values(observations)
        if q is None:
            self.statistics = {}
        else:
            gap = (q.max(axis=1) - q.mean(axis=1)).mean()
            self.statistics = {"q_mean": float(q.mean()), "q_spread": float(q.std()), "q_gap": float(gap)}
        return q

    def greedy(self, observations: NDArray[Any]) -> NDArray[Any] | None:
        """As the explorer's, asking Q̂ once for both."""
        if type(self.explorer).greedy is not Explorer.greedy:  # it may choose without a Q̂
            return self.explorer.greedy(observations)
        q = self.q_values(observations)
        return None if q is None else self.explorer.actions.to_environment(q.argmax(axis=1))
