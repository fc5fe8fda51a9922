"""The member that fits the bilinear Q̂ to observed transitions only, and exploits it."""

from __future__ import annotations

import numpy as np

from polaug.exploration.base import Batch, FloatArray
from polaug.exploration.bilinear import Bilinear, Limits, affordable_frequencies
from polaug.exploration.member import Member
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.exploration.threads import one_thread
from polaug.state import State, captured, checked, part, prefixed

_SWEEPS, _EVERY = 10, 100
_FREQUENCIES = 50  # of a group, or as many as can be afforded


class Fitted(Member):
    """Fitted Q iteration without a bonus: others find what there is, this one makes the most of it."""

    _SAVED = ("_fit_at", "_plays")

    def __init__(self, store: Store, Y: FloatArray, returns: Returns, rng: np.random.Generator) -> None:
        self._store, self._returns, self._rng, self._n_actions = store, returns, rng, len(Y)
        frequencies = affordable_frequencies(store.states.shape[1], Y, _FREQUENCIES)
        self._model = Bilinear(
            store, Y, rng, groups=2, frequencies=frequencies, ridge=0.03, gamma=returns.gamma, advantage=0.6
        )  # fmt: skip
        self._fit_at = self._plays = 0

    @staticmethod
    def suits(dimensions: int, Y: FloatArray) -> bool:
        """Whether so many dimensions and these actions leave Gram matrices that can be factored again and again."""
        return affordable_frequencies(dimensions, Y, _FREQUENCIES) > 0

    @property
    def ready(self) -> bool:
        """Whether Q̂ was ever fitted."""
        return self._model.fitted

    def begin(self, environment: int) -> None:
        """Catch up with what was observed since the last fit."""
        self._plays += 1
        # Not for a handful of steps: with short episodes a refit at each would cost more than everything else.
        if self._store.size >= 20 and self._store.steps - self._fit_at >= self._every() // 2:
            self._refit()

    def choose(self, environment: int, flat: FloatArray) -> int:
        """Greedy on Q̂, with a random action ever more seldom."""
        if not self.ready or self._rng.random() < 0.5 / (4 + self._plays):
            return int(self._rng.integers(self._n_actions))
        q = self.values(flat[None])[0]
        return int(np.argmax(q + 1e-9 * self._returns.scale() * self._rng.random(len(q))))

    def values(self, flat: FloatArray) -> FloatArray:
        """Q̂ (n, N)."""
        return self._model.q(flat, 0)

    def learn(self, batch: Batch, playing: bool) -> None:
        """Refit when due, while playing."""
        if not playing or self._store.size < 20:
            return
        every, since = self._every(), self._store.steps - self._fit_at
        if since >= every or (since >= every // 2 and bool(batch.ended.any())):
            self._refit()

    def _every(self) -> int:
        """Steps between refits: few at first, when each step tells much."""
        return min(_EVERY, 20 + self._store.size // 20)

    @one_thread
    def _refit(self) -> None:
        late = self._store.steps - self._fit_at > 2 * _EVERY
        self._fit_at = self._store.steps
        rescaled = self._model.update()
        times = _SWEEPS * (2 if rescaled or late else 1)
        self._model.sweep(0, times, Limits.within(self._returns), None, 0.0)

    def use(self, rng: np.random.Generator) -> None:
        """Draw from this generator from now on."""
        self._rng = rng

    def state_dict(self) -> State:
        """The model and when it was fitted."""
        return captured(self, self._SAVED) | prefixed("model", self._model.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        values = checked(self, self._SAVED, state)
        self._model.load_state_dict(part("model", state))
        for name, value in values.items():
            setattr(self, name, value)
