"""`optimistic`: the bilinear Q̂ fitted to bootstrapped targets on Ω only, curious where it knows little.

Two heads share features and Gram matrices. The *exploiting* one is greedy on Q̂, with a random action ever more seldom.
The *curious* one adds β · spread · √(ridge φᵀΛ⁻¹φ) to Q̂ in acting and in the targets, and may hope for more than was
ever seen. It plays while there is nothing to exploit: no positive reward, no termination, and rewards that are not all
clearly negative (then Q̂ = 0 where nothing is known is optimism enough).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polaug.checks import non_negative, positive, whole
from polaug.errors import StateError, UnsupportedSpaceError, invalid
from polaug.exploration.base import Batch, Explorer, FloatArray, IntArray
from polaug.exploration.bilinear import Bilinear, Limits, affordable_frequencies, scaled
from polaug.exploration.novelty import Novelty
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.exploration.threads import one_thread
from polaug.features.spaces import Space
from polaug.state import State, part, prefixed, within

_EXPLOITING, _CURIOUS = 0, 1
_FEW = 1500  # stored transitions up to which refits come at their usual intervals
_LARGEST = 1500  # weights of one Cholesky factor: more would take gigabytes, and seconds at each refit
_HELD = 4  # steps for which a random action is held before the first fit


class OptimisticExplorer(Explorer):
    """Fitted Q iteration with random Fourier features and optimism.

    Parameters
    ----------
    groups, frequencies
        Q̂ is the mean of `groups` models of `frequencies` random frequencies each, or of fewer where so many dimensions
        and actions would cost seconds.
    ridge
        Of the regression of W.
    gamma
        Discount.
    advantage
        α of advantage learning, in [0, 1).
    beta
        Size of the curious head's bonus, in units of the spread of returns seen.
    capacity
        Stored transitions.
    sweeps, every
        Rounds of targets and refits, every so many steps (fewer in the first episodes, more with much in store).
    """

    searches = True

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
        groups: int = 2,
        frequencies: int = 50,
        ridge: float = 0.03,
        gamma: float = 0.99,
        advantage: float = 0.6,
        beta: float = 0.3,
        capacity: int = 6000,
        sweeps: int = 10,
        every: int = 100,
    ) -> None:
        super().__init__(observation_space, action_space, seed=seed, features=features)
        for name, value in (("gamma", gamma), ("advantage", advantage)):
            if not 0.0 <= value < 1.0:
                raise invalid(name, "must lie in [0, 1)", value, "Pass for example 0.99 for gamma, 0.6 for advantage.")
        self._gamma, self._beta = float(gamma), non_negative("beta", beta)
        self._sweeps, self._every = whole("sweeps", sweeps, 1), whole("every", every, 1)
        self._store = Store(self._flatten.size, self.actions.size, whole("capacity", capacity, 100))
        self._model = Bilinear(
            self._store, self.actions.Y, self._rng, groups=whole("groups", groups, 1),
            frequencies=self._affordable(whole("frequencies", frequencies, 1)), ridge=positive("ridge", ridge),
            gamma=self._gamma, advantage=float(advantage), heads=2,
        )  # fmt: skip
        one_hot = self._model.groups[0].one_hot
        self._novelty = Novelty(self._store, self.actions.u, one_hot, self._rng, frequencies=20, ridge=0.1)
        self._returns = Returns(self._gamma)
        self._ended = False  # whether an episode ever terminated
        self._spread = 1e-12
        self._fit_at = 0
        self._episodes = 0
        self._heads = np.zeros(0, dtype=np.int64)
        self._warm = np.zeros(0, dtype=np.int64)  # the action that each environment repeats before the first fit
        self._last_head = _EXPLOITING

    def _affordable(self, frequencies: int) -> int:
        d, Y = self._flatten.size, self.actions.Y
        affordable = affordable_frequencies(d, Y, frequencies, _LARGEST)
        if not affordable:
            raise UnsupportedSpaceError(
                "observation_space, action_space: optimistic needs fewer numbers or actions, its matrices would take "
                f"gigabytes, got {d} numbers and {len(Y)} actions of {Y.shape[1]} features. Use the explorer "
                "'committee', which leaves out what would."
            )
        return affordable

    def reset(self) -> None:
        """Other episodes begin, with heads of their own."""
        self._returns.restart()
        self._heads, self._warm = self._heads[:0], self._warm[:0]

    # -- acting -----------------------------------------------------------------------------------------------------

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        self._follow_environments(len(flat))
        chosen = np.empty(len(flat), dtype=np.int64)
        for i in range(len(flat)):
            if not self._model.fitted:
                if self.steps // len(flat) % _HELD == 0:  # before the first fit: random actions, each held a while
                    self._warm[i] = self._rng.integers(self.actions.n_actions)
                chosen[i] = self._warm[i]
            elif self._heads[i] == _EXPLOITING and self._rng.random() < 0.5 / (4 + self._episodes):
                chosen[i] = self._rng.integers(self.actions.n_actions)
            else:
                q = self._head_values(flat[i : i + 1], int(self._heads[i]))[0]
                chosen[i] = np.argmax(q + 1e-9 * self._spread * self._rng.random(len(q)))
        return chosen

    def _head_values(self, flat: FloatArray, head: int) -> FloatArray:
        q = self._model.q(flat, head)
        if head == _CURIOUS:
            q += self._beta * self._spread * self._novelty(scaled(flat, self._model.centre, self._model.inverse))
        return q

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._model.q(flat, _EXPLOITING) if self._model.fitted else None

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if not self._model.fitted:
            return None
        z = scaled(flat, self._model.centre, self._model.inverse)
        return np.asarray(np.mean([group.uncertainty(z) for group in self._model.groups], axis=0), dtype=np.float64)

    def _follow_environments(self, n: int) -> None:
        if n != len(self._heads):
            self._heads = np.array([self._next_head() for _ in range(n)], dtype=np.int64)
            self._warm = self._rng.integers(self.actions.n_actions, size=n)

    def _next_head(self) -> int:
        """Who plays the next episode."""
        self._episodes += 1
        if self.steps == 0:
            return _CURIOUS
        best, worst = self._returns.best_reward, self._returns.worst_reward
        if best > 0 or self._ended or best < -0.1 * abs(worst):
            return _EXPLOITING
        if best - worst <= 1e-9 * max(abs(best), abs(worst)):
            return _CURIOUS  # every reward was the same: there is nothing to exploit
        k = self._episodes  # the first four episodes, then 16, 64, 256, …
        return _CURIOUS if k <= 4 or (k & (k - 1) == 0 and k.bit_length() % 2 == 1) else _EXPLOITING

    @property
    def _hopeless(self) -> bool:
        return not (self._returns.best_reward > 0 or self._ended)

    # -- learning ---------------------------------------------------------------------------------------------------

    def _learn(self, batch: Batch) -> None:
        self._follow_environments(len(batch))
        self._store.add(batch, self._rng)
        self._ended = self._ended or bool(batch.terminated.any())
        finished = self._returns.follow(batch)
        self._spread = self._returns.scale()
        for i, _ in finished:
            self._heads[i] = self._next_head()
        # A refit costs in proportion to what is stored: the more there is, the rarer it is, and a step costs the same.
        every = min(self._every, 20 + self._store.size // 20) * max(1.0, self._store.size / _FEW)
        since = self._store.steps - self._fit_at
        if self._store.size >= 20 and (since >= every or (finished and since >= every / 2)):
            self._refit()

    @one_thread
    def _refit(self) -> None:
        self._fit_at = self._store.steps
        rescaled = self._model.update()
        if self._hopeless:
            self._novelty.update(self._model, rescaled)
        for head in sorted(set(self._heads.tolist())):
            # A head that has not played for a while has some catching up to do.
            times = self._sweeps * (2 if rescaled or head != self._last_head else 1)
            self._last_head = head
            curious = head == _CURIOUS and self._hopeless
            bonus = self._novelty.stored[: self._store.size] if curious else None
            self._model.sweep(head, times, Limits.within(self._returns, hope=head), bonus, self._beta * self._spread)

    # -- logging and state ------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return super().statistics() | {
            "stored": float(self._store.size),
            "return_spread": float(self._spread),
            "curious_share": float(np.mean(self._heads == _CURIOUS)) if len(self._heads) else 0.0,
        }

    def _state(self) -> State:
        own: State = {
            "heads": self._heads.copy(), "warm": self._warm.copy(), "spread": np.array(self._spread),
            "counters": np.array([self._ended, self._fit_at, self._episodes, self._last_head], dtype=np.int64),
        }  # fmt: skip
        own |= prefixed("store", self._store.state_dict()) | prefixed("model", self._model.state_dict())
        return own | prefixed("novelty", self._novelty.state_dict()) | prefixed("returns", self._returns.state_dict())

    def _load(self, state: State) -> None:
        store = Store(self._flatten.size, self.actions.size, self._store.capacity)
        store.load_state_dict(part("store", state), self.actions.n_actions)
        first = self._model.groups[0]
        model = Bilinear(
            store, self.actions.Y, np.random.default_rng(0), groups=len(self._model.groups),
            frequencies=first.waves.directions.shape[1], ridge=first._ridge, gamma=self._gamma,
            advantage=self._model._advantage, heads=2,
        )  # fmt: skip
        model.load_state_dict(part("model", state))
        novelty = Novelty(store, self.actions.u, first.one_hot, np.random.default_rng(0), frequencies=20, ridge=0.1)
        novelty.load_state_dict(part("novelty", state))
        returns = Returns(self._gamma)
        returns.load_state_dict(part("returns", state))
        heads, warm, spread = state["heads"].astype(np.int64), state["warm"].astype(np.int64), float(state["spread"])
        ended, fit_at, episodes, last_head = (int(c) for c in state["counters"])
        if heads.ndim != 1 or heads.shape != warm.shape:
            raise StateError("heads, warm: do not fit together. The state is damaged.")
        within("heads", [*heads, last_head], _EXPLOITING, _CURIOUS)
        within("warm", warm, 0, self.actions.n_actions - 1)
        self._store, self._model, self._novelty, self._returns = store, model, novelty, returns
        self._heads, self._warm, self._spread = heads, warm, spread
        self._ended, self._fit_at, self._episodes, self._last_head = bool(ended), fit_at, episodes, last_head
