"""`model`: completes the unobserved entries of Q through a learned model of the dynamics, alone, without a committee.

See `imagination` for how Q is completed and where its optimism comes from, and `dynamics` for the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polaug.checks import whole
from polaug.errors import invalid
from polaug.exploration.base import Batch, Explorer, FloatArray, IntArray
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.features.spaces import Space
from polaug.state import State, part, prefixed

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

    def reset(self) -> None:
        """Returns of cut episodes do not count."""
        self._returns.restart()

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return np.array([self._member.choose(i, flat[i]) for i in range(len(flat))], dtype=np.int64)

    def _learn(self, batch: Batch) -> None:
        self._store.add(batch, self._rng)
        self._returns.follow(batch)
        self._member.learn(batch, playing=True)

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._member.values(flat) if self._member.ready else None

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._member.novelty(flat) if self._member.ready else None

    def _state(self) -> State:
        state = prefixed("store", self._store.state_dict()) | prefixed("returns", self._returns.state_dict())
        return state | prefixed("member", self._member.state_dict())

    def _load(self, state: State) -> None:
        twin = ModelExplorer(self._state_space, self.action_space, gamma=self._gamma, capacity=self._capacity)
        twin._store.load_state_dict(part("store", state), self.actions.n_actions)
        twin._returns.load_state_dict(part("returns", state))
        twin._member.load_state_dict(part("member", state))
        twin._member.use(self._rng)
        self._store, self._returns, self._member = twin._store, twin._returns, twin._member
