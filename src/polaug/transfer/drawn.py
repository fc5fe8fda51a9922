"""Steps of the past with their returns, drawn for all minibatches of a lesson at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from polaug.transfer.episodes import FinishedEpisodes

if TYPE_CHECKING:  # base.py draws from here
    from polaug.transfer.base import Student


class Past(NamedTuple):
    """A minibatch: network inputs, actions as the agent counts them, returns in the agent's units."""

    states: torch.Tensor
    actions: torch.Tensor
    returns: torch.Tensor


class DrawnReturns:
    """Gives `size` rows for each of so many minibatches; nothing while no episode has been kept."""

    def __init__(
        self, episodes: FinishedEpisodes, student: Student, rng: np.random.Generator, batches: int, size: int
    ) -> None:
        self.spread = 0.0
        """Standard deviation of the returns drawn."""
        self._parts: Iterator[Past] = iter(())
        if not len(episodes):
            return
        states, taken, returns = episodes.rows(rng.integers(len(episodes), size=batches * max(size, 1)))
        returns = (returns * student.reward_scale()).astype(np.float32)
        self.spread = float(returns.std())
        inputs = student.tensor(states)
        drawn = (inputs, student.actions(taken), torch.from_numpy(returns).to(inputs.device))
        self._parts = map(Past, *(torch.split(each, max(size, 1)) for each in drawn))

    def next(self) -> Past | None:
        """The next minibatch."""
        return next(self._parts, None)
