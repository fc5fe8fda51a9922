"""`model`: completes the unobserved entries of Q through a learned model of the dynamics, alone, without a committee.

See `imagination` for how Q is completed and where its optimism comes from, and `dynamics` for the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polaug.checks import whole
from polaug.errors import invalid
from polaug.exploration.base import Batch, BoolArray, Explorer, FloatArray, IntArray, driving
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.features.spaces import Space
from polaug.state import State, fitting, part, prefixed

_LONGEST = 1000  # steps between refits: it plays all the time, which in a committee it does not


class ModelExplorer(Explorer):
    """Looks one step ahead through learned dynamics to a value solved on visited states.

    `gamma` is the discount, `capacity` the number of stored transitions.
    """

    searches = True

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
        gamma: float = 0.99,
        capacity: int = 4000,
    ) -> None:
        super().__init__(observation_space, action_space, seed=seed, features=features)
        if not 0.0 < gamma < 1.0:
            raise invalid("gamma", "must lie in (0, 1)", gamma, "Pass for example 0.99.")
        self._gamma, self._capacity = float(gamma), whole("capacity", capacity, 100)
        self._returns = Returns(self._gamma)
        self._store = Store(self._flatten.size, self.actions.size, self._capacity)
        self._member = Imaginer(self._store, self.actions.Y, self._returns, self._rng, longest=_LONGEST)
        self._own = np.zeros(0, dtype=np.bool_)  # whether each environment's episode was driven by nobody else so far
        self._chosen = np.zeros(0, dtype=np.int64)  # by the last call of `_choose`, -1 once the step was observed
        self._driven: BoolArray | None = None  # where the next choice will be followed, if it was said

    def reset(self) -> None:
        """Episodes under way leave neither returns nor dents."""
        self._returns.restart()
        self._follow_environments(0)
        self._chosen[:] = -1
        self._driven = None

    def _follow_environments(self, n: int) -> None:
        """Where their number is another one, all episodes begin here."""
        if n != len(self._own):
            for i in range(max(n, len(self._own))):
                self._member.begin(i)
            self._own = np.ones(n, dtype=np.bool_)

    def drive_only(self, where: BoolArray) -> None:
        """Nothing is trodden, and no vision judged, where somebody else drives."""
        self._driven = np.array(where, dtype=np.bool_)

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        where, self._driven = self._driven, None
        driven = driving(where, len(flat))
        self._follow_environments(len(flat))
        self._chosen = np.full(len(flat), -1, dtype=np.int64)
        for i in driven:
            self._chosen[i] = self._member.choose(i, flat[i])
        return np.maximum(self._chosen, 0)

    def _learn(self, batch: Batch) -> None:
        self._follow_environments(len(batch))
        self._own &= self._chosen == batch.actions if len(self._chosen) == len(batch) else False
        self._chosen = np.full(len(batch), -1, dtype=np.int64)
        self._store.add(batch, self._rng)
        finished = self._returns.follow(batch)
        self._member.learn(batch, playing=True)
        for i, total in finished:
            self._member.finish(i, total if self._own[i] and not self._member.searching else None)
            self._member.begin(i)
            self._own[i] = True

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._member.values(flat) if self._member.ready else None

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._member.novelty(flat) if self._member.ready else None

    def _state(self) -> State:
        state = prefixed("store", self._store.state_dict()) | prefixed("returns", self._returns.state_dict())
        own: State = {"own": self._own.copy(), "chosen": self._chosen.copy()}
        return own | state | prefixed("member", self._member.state_dict())

    def _load(self, state: State) -> None:
        twin = ModelExplorer(self._state_space, self.action_space, gamma=self._gamma, capacity=self._capacity)
        twin._store.load_state_dict(part("store", state), self.actions.n_actions)
        twin._returns.load_state_dict(part("returns", state))
        twin._member.load_state_dict(part("member", state))
        twin._member.use(self._rng)
        self._own, self._chosen = fitting("model", state, {"own": ("b", "n"), "chosen": ("i", "m")}).values()
        self._store, self._returns, self._member = twin._store, twin._returns, twin._member
