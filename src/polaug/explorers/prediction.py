"""The base of `rnd` and `icm`: a bonus for the prediction error of networks.

A subclass has networks, an error for each transition, and one training step. This class whitens observations, keeps
transitions until there are enough for an update, and divides the errors by the running deviation of their discounted
sums, so that a bonus means about the same in every environment.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from polaug.checks import non_negative, positive, whole
from polaug.errors import invalid
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.explorers.network import Adam, Network
from polaug.explorers.whitening import Moments, Whitening
from polaug.features.spaces import Space
from polaug.snapshot import saved


@saved("_inputs", "_networks", "_optimizers", "_returns", "_scale", "_pending", "_updates")
class PredictionExplorer(Explorer):
    """Pays β · error / deviation, 0 before the first update. It acts at random, because it only adds a bonus.

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
        beta: float = 0.5,
        gamma: float = 0.99,
        learning_rate: float = 1e-3,
        hidden: int = 64,
        outputs: int = 64,
        every: int = 128,
        minibatch: int = 32,
        clip: float = 5.0,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
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
        self._pending: FloatArray = np.zeros((0, 0))  # rows for the next update
        self._updates = 0

    # -- what subclasses implement ----------------------------------------------------------------------------------

    @abstractmethod
    def _build(self, hidden: int, outputs: int) -> dict[str, Network]:
        """The networks by name, drawn from `self._rng`."""

    @abstractmethod
    def _error(self, batch: Batch) -> FloatArray:
        """Prediction error (n,) ≥ 0 of each transition."""

    @abstractmethod
    def _rows(self, batch: Batch) -> FloatArray:
        """Rows (n, w) for an update, one per transition, not yet whitened because the scale may still change."""

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
        rows = self._rows(batch)
        self._pending = np.concatenate([self._pending, rows]) if len(self._pending) else rows
        if len(self._pending) >= self._every:
            self._update()

    def _update(self) -> None:
        rows, self._pending = self._pending, self._pending[:0]
        order = self._rng.permutation(len(rows))
        for first in range(0, len(order), self._minibatch):
            self._train(rows[order[first : first + self._minibatch]])
        self._updates += 1

    def _bonus(self, batch: Batch) -> FloatArray:
        deviation = float(self._scale.deviation[0])
        if not self._updates or deviation <= 0.0:  # the first steps only set the scales
            return np.zeros(len(batch))
        return self._beta * self._error(batch) / deviation

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        scale = {"updates": float(self._updates), "error_scale": float(self._scale.deviation[0])}
        return super().statistics() | scale
