"""What a member of the committee offers: it learns from every transition, and plays the episodes it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from polaug.exploration.base import Batch, FloatArray
from polaug.exploration.dynamics import Laws
from polaug.exploration.promise import imagined_return
from polaug.state import State


class Member(ABC):
    """One way to play. Environments are numbered; an episode of one belongs to one member at a time."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether it has anything to play by."""

    @abstractmethod
    def begin(self, environment: int) -> None:
        """An episode, or the rest of one, is given to this member: catch up with what was learnt meanwhile."""

    @abstractmethod
    def choose(self, environment: int, flat: FloatArray) -> int:
        """Column of Q for the flat observation (d,)."""

    @abstractmethod
    def learn(self, batch: Batch, playing: bool) -> None:
        """Take in a step of all environments; `playing` says whether any of them is this member's at present."""

    def finish(self, environment: int, total: float | None) -> None:  # noqa: B027 (most have nothing to note)
        """Its part of an episode is over; `total` is the return so far, None if it was not all its own."""

    def plays(self, environment: int) -> bool:
        """Whether it can go on with an episode of this environment: it was given one."""
        return True

    @abstractmethod
    def values(self, flat: FloatArray) -> FloatArray:
        """Q̂ (n, N) of flat observations (n, d)."""

    def promise(self, laws: Laws, starts: FloatArray, horizon: int) -> float:
        """Mean return of its greedy policy in imagined episodes from `starts` (n, d)."""
        return imagined_return(laws, self.values, starts, horizon)

    @abstractmethod
    def use(self, rng: np.random.Generator) -> None:
        """Draw from this generator from now on."""

    @abstractmethod
    def state_dict(self) -> State:
        """Everything learnt, as plain arrays."""

    @abstractmethod
    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
