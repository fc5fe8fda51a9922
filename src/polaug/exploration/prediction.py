"""The shared body of explorers that pay for what their networks predict badly: `rnd` and `icm`.

A subclass has networks, an error for each transition, and one training step. This class whitens observations, keeps
transitions until there are enough for a lesson, and divides the errors by the running deviation of their discounted
sums, so that a bonus means about the same in every environment.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from polaug.checks import loaded, non_negative, positive, whole
from polaug.errors import StateError, invalid
from polaug.exploration.base import Batch, Explorer, FloatArray, IntArray
from polaug.exploration.network import Adam, Network
from polaug.exploration.whitening import Moments, Whitening
from polaug.features.spaces import Space
from polaug.state import State


class PredictionExplorer(Explorer):
    """Pays β · error / deviation, nothing before the first lesson; acts at random, because it only pays.

    A subclass fills `_networks`, lists in `_trained` those that learn, and implements `_error`, `_rows` and `_train`.
    """

    steers = False
    pays = True
    _trained: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
        beta: float = 0.5,
        gamma: float = 0.99,
        learning_rate: float = 1e-3,
        hidden: int = 64,
        outputs: int = 64,
        every: int = 128,
        minibatch: int = 32,
        clip: float = 5.0,
    ) -> None:
        super().__init__(observation_space, action_space, seed=seed, features=features)
        self._beta, self._gamma = non_negative("beta", beta), non_negative("gamma", gamma)
        if self._gamma >= 1.0:
            raise invalid("gamma", "must lie in [0, 1)", gamma, "Pass for example gamma=0.99.")
        self._every, self._minibatch = whole("every", every, 1), whole("minibatch", minibatch, 1)
        self._inputs = Whitening(self._flatten, positive("clip", clip))
        self._networks = self._build(whole("hidden", hidden, 1), whole("outputs", outputs, 1))
        rate = positive("learning_rate", learning_rate)
        self._optimizers = {name: Adam(self._networks[name], rate) for name in self._trained}
        self._returns: FloatArray = np.zeros(1)  # discounted sum of errors of each environment, over episodes' ends
        self._scale = Moments(1)  # of these sums
        self._pending: list[FloatArray] = []  # rows for the next lesson
        self._lessons = 0

    # -- what subclasses implement ----------------------------------------------------------------------------------

    @abstractmethod
    def _build(self, hidden: int, outputs: int) -> dict[str, Network]:
        """The networks by name, drawn from `self._rng`."""

    @abstractmethod
    def _error(self, batch: Batch) -> FloatArray:
        """Prediction error (n,) ≥ 0 of each transition."""

    @abstractmethod
    def _rows(self, batch: Batch) -> FloatArray:
        """What a lesson needs of each transition (n, w), not whitened yet: the scale may move until then."""

    @abstractmethod
    def _train(self, rows: FloatArray) -> None:
        """One step of the optimisers on a minibatch of rows."""

    # -- the protocol -----------------------------------------------------------------------------------------------

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return self._rng.integers(self.actions.n_actions, size=len(flat))

    def _learn(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._inputs.observe(batch.next_flat)
        if len(self._returns) != len(batch):
            self._returns = np.zeros(len(batch))
        self._returns = self._gamma * self._returns + self._error(batch)
        self._scale.observe(self._returns[:, None])
        self._pending.append(self._rows(batch))
        if sum(map(len, self._pending)) >= self._every:
            self._lesson()

    def _lesson(self) -> None:
        rows = np.concatenate(self._pending)
        order = self._rng.permutation(len(rows))
        for first in range(0, len(order), self._minibatch):
            self._train(rows[order[first : first + self._minibatch]])
        self._pending = []
        self._lessons += 1

    def _bonus(self, batch: Batch) -> FloatArray:
        deviation = float(self._scale.deviation[0])
        if not self._lessons or deviation <= 0.0:  # the first steps tell scales only
            return np.zeros(len(batch))
        return self._beta * self._error(batch) / deviation

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        scale = {"lessons": float(self._lessons), "error_scale": float(self._scale.deviation[0])}
        return super().statistics() | scale

    # -- state ------------------------------------------------------------------------------------------------------

    def _state(self) -> State:
        pending = np.concatenate(self._pending) if self._pending else np.zeros((0, self._width))
        state: State = {
            "input_moments": self._inputs.moments.values.copy(), "scale_moments": self._scale.values.copy(),
            "returns": self._returns.copy(), "pending": pending,
        }  # fmt: skip
        counters = [self._inputs.moments.count, self._scale.count, self._lessons]
        for name, network in self._networks.items():
            state[f"{name}_parameters"] = network.parameters.copy()
        for name, optimizer in self._optimizers.items():
            state[f"{name}_moments"] = optimizer.moments.copy()
            counters.append(optimizer.updates)
        return state | {"counters": np.array(counters, dtype=np.int64)}

    def _load(self, state: State) -> None:
        new = loaded(type(self).__name__, state, self._state(), growing=("returns", "pending"))
        counters = [int(count) for count in new["counters"]]
        squares = [new["input_moments"][1], new["scale_moments"][1], *(new[f"{n}_moments"][1] for n in self._trained)]
        if min(counters) < 0 or any((values < 0.0).any() for values in squares):
            raise StateError("state: counts and squares must not be negative. The state is damaged.")
        self._inputs.moments.values, self._scale.values = new["input_moments"], new["scale_moments"]
        self._inputs.moments.count, self._scale.count, self._lessons = counters[:3]
        self._returns, self._pending = new["returns"], [new["pending"]] if len(new["pending"]) else []
        for name, network in self._networks.items():
            network.parameters[:] = new[f"{name}_parameters"]
        for (name, optimizer), updates in zip(self._optimizers.items(), counters[3:], strict=True):
            optimizer.moments, optimizer.updates = new[f"{name}_moments"], updates

    @property
    @abstractmethod
    def _width(self) -> int:
        """w, the width of `_rows`."""
