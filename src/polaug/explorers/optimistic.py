"""`optimistic`: fitted Q iteration (Ernst et al., 2005) on the completion engine, with its standard deviation as bonus.

Q̂(s, a) = x(s)ᵀ W y(a) with random Fourier features x is ridge regression on the observed pairs. One sweep sets the
targets

    r + γ max_a' [Q̂(s', a') + b(s', a')] − α (max_a' Q̂(s, a') − Q̂(s, a)),     b = β · spread · √(ridge φᵀPφ / φᵀφ)

(r alone where the episode terminated, clipped to the returns seen) and solves W again. The last term, advantage
learning (Baird, 1999), widens the gaps between actions. The bonus counts while there is nothing to exploit: no positive
reward, no termination, and rewards that are not all clearly negative (then Q̂ = 0 where nothing is known is optimism
enough).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polaug.checks import non_negative, positive, whole
from polaug.completion.multi_output import MultiOutput
from polaug.errors import UnsupportedSpaceError, invalid
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.explorers.buffer import Buffer
from polaug.explorers.returns import Returns
from polaug.explorers.threads import one_thread
from polaug.features.random_fourier import RandomFourier
from polaug.features.spaces import Space
from polaug.snapshot import saved

_LARGEST = 700  # features of one engine: its cost grows with their third power
_FEWEST = 10  # frequencies, below which x says little more than its linear part
_HOLD = 4  # steps for which a random action is held before the first fit


@saved("_features", "_buffer", "_returns", "_engines", "_held", "_fit_at", "_episodes", "_ended")
class OptimisticExplorer(Explorer):
    """Fitted Q iteration with random Fourier features and optimism.

    Parameters
    ----------
    frequencies, length
        Random Fourier features: how many frequencies (fewer where the engine would cost seconds), and their length
        scale per √dimension, where the range seen has length 2.
    ridge
        Of the regression of W.
    gamma
        Discount.
    advantage
        α of advantage learning, in [0, 1).
    beta
        Size of the bonus, in units of the spread of the returns seen.
    capacity
        Stored transitions.
    sweeps, every
        Rounds of targets, every so many steps (fewer in the first episodes, more with much in store).
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        frequencies: int = 100,
        length: float = 0.25,
        ridge: float = 0.03,
        gamma: float = 0.99,
        advantage: float = 0.6,
        beta: float = 0.3,
        capacity: int = 6000,
        sweeps: int = 10,
        every: int = 100,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        for name, value in (("gamma", gamma), ("advantage", advantage)):
            if not 0.0 <= value < 1.0:
                raise invalid(name, "must lie in [0, 1)", value, "Pass for example 0.99 for gamma, 0.6 for advantage.")
        self._gamma, self._advantage, self._beta = float(gamma), float(advantage), non_negative("beta", beta)
        self._ridge = positive("ridge", ridge)
        self._sweeps, self._every = whole("sweeps", sweeps, 1), whole("every", every, 1)
        Y = self.actions.Y
        # With one-hot actions the Gram matrix falls apart: an engine for each action.
        self._one_hot = Y.shape == (len(Y), len(Y)) and bool((np.eye(len(Y)) == Y).all())
        most = self._affordable(whole("frequencies", frequencies, 1))
        self._features = RandomFourier(
            self._state_space, seed=self._seed, frequencies=most, length_scale=positive("length", length), bounds=False
        )
        self._buffer = Buffer(self._flatten.size, self.actions.size, whole("capacity", capacity, 100))
        self._returns = Returns(self._gamma)
        self._engines: list[MultiOutput] = []
        self._held = np.zeros(0, dtype=np.int64)  # the action that each environment repeats before the first fit
        self._fit_at = self._episodes = 0
        self._ended = False  # whether an episode ever terminated

    def _affordable(self, frequencies: int) -> int:
        d, (A, m) = self._flatten.size, self.actions.Y.shape
        size = _LARGEST / (A ** (1 / 3) if self._one_hot else m)
        most = min(frequencies, int(size - 1 - d) // 2)
        if most < min(frequencies, _FEWEST):
            raise UnsupportedSpaceError(
                "observation_space, action_space: optimistic needs fewer numbers or actions, its matrices would take "
                f"gigabytes, got {d} numbers and {A} actions of {m} features. Use the explorer "
                "'portfolio', which leaves out what would."
            )
        return most

    def reset(self) -> None:
        """Episodes under way have no end."""
        self._returns.restart()
        self._held = self._held[:0]

    # -- acting -----------------------------------------------------------------------------------------------------

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        n, A = len(flat), self.actions.n_actions
        if not self._engines:
            if len(self._held) != n or self.steps // n % _HOLD == 0:
                self._held = self._rng.integers(A, size=n)
            return self._held.copy()
        x = self._features(flat)
        q = self._values(x) + (self._bonus_of(x) if self._curious else 0.0)
        chosen = (q + 1e-9 * self._returns.scale() * self._rng.random(q.shape)).argmax(axis=1)
        random = self._rng.random(n) < (0.0 if self._curious else 0.5 / (4 + self._episodes))
        return np.where(random, self._rng.integers(A, size=n), chosen)

    @property
    def _curious(self) -> bool:
        best, worst = self._returns.best_reward, self._returns.worst_reward
        return not (best > 0 or self._ended or best < -0.1 * abs(worst))

    def _pairs(self, x: FloatArray, actions: IntArray, y: FloatArray) -> list[tuple[IntArray, FloatArray]]:
        """For each engine: its rows, and their features φ = y(a) ⊗ x(s)."""
        if self._one_hot:
            rows = [np.flatnonzero(actions == a) for a in range(self.actions.n_actions)]
            return [(mine, x[mine]) for mine in rows]
        return [(np.arange(len(x)), (y[:, :, None] * x[:, None, :]).reshape(len(x), -1))]

    def _values(self, x: FloatArray) -> FloatArray:
        """Q̂ (n, N) for features x (n, m)."""
        W = np.concatenate([engine.weights for engine in self._engines]).reshape(-1, x.shape[1])
        return np.asarray(x @ W.T if self._one_hot else x @ W.T @ self.actions.Y.T)

    def _deviation(self, x: FloatArray) -> FloatArray:
        """√(ridge φᵀ P φ / φᵀφ) (n, N), in [0, 1]: 1 where nothing was seen."""
        deviation, n = np.empty((len(x), self.actions.n_actions)), len(x)
        for a, y in enumerate(self.actions.Y):
            [(_, phi)] = [(0, x)] if self._one_hot else self._pairs(x, np.full(n, a), np.tile(y, (n, 1)))
            engine = self._engines[a if self._one_hot else 0]
            share = self._ridge * engine.variance(phi) / np.maximum(np.square(phi).sum(axis=1), 1e-300)
            deviation[:, a] = np.sqrt(np.clip(share, 0.0, 1.0))
        return deviation

    def _bonus_of(self, x: FloatArray) -> FloatArray:
        return self._beta * self._returns.scale() * self._deviation(x)

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._values(self._features(flat)) if self._engines else None

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._deviation(self._features(flat)).max(axis=1) if self._engines else None

    # -- learning ---------------------------------------------------------------------------------------------------

    def _learn(self, batch: Batch) -> None:
        self._buffer.add(batch, self._rng)
        self._features.observe(batch.next_flat)
        self._ended = self._ended or bool(batch.terminated.any())
        finished = self._returns.follow(batch)
        self._episodes += len(finished)
        # A refit costs in proportion to what is stored: the more there is, the rarer it is, and a step costs the same.
        size, since = self._buffer.size, self._buffer.steps - self._fit_at
        every = min(self._every, 20 + size // 20) * max(1.0, size / 1500)
        if size >= 20 and (since >= every or (finished and since >= every / 2)):
            self._refit()

    @one_thread
    def _refit(self) -> None:
        """New engines with the features as they are now, and some sweeps from the Q̂ so far."""
        buffer, n = self._buffer, self._buffer.size
        self._fit_at = buffer.steps
        x, ahead = self._features(buffer.states[:n]), self._features(buffer.next_states[:n])
        pairs = self._pairs(x, buffer.actions[:n], buffer.features[:n])
        before, self._engines = self._engines, []
        for k, (_, phi) in enumerate(pairs):
            engine = MultiOutput(np.full(phi.shape[1], self._ridge), 1)
            engine.add(phi, np.zeros((len(phi), 1)))
            engine.weights = before[k].weights if before else engine.weights
            self._engines.append(engine)
        bonus = self._bonus_of(ahead) if self._curious else 0.0
        low, high, spread = self._bounds()
        onward = self._gamma * ~buffer.terminated[:n]
        for _ in range(self._sweeps):
            here = self._values(x)
            targets = np.clip(buffer.rewards[:n] + onward * (self._values(ahead) + bonus).max(axis=1), low, high)
            gap = here.max(axis=1) - here[np.arange(n), buffer.actions[:n]]
            targets = np.maximum(targets - self._advantage * gap, low - spread)
            for engine, (mine, phi) in zip(self._engines, pairs, strict=True):
                engine.solve(phi.T @ targets[mine, None])

    def _bounds(self) -> tuple[float, float, float]:
        """Bounds of targets: the observed returns plus half their spread, within what the rewards allow; one spread
        more while the bonus is used.
        """
        returns, spread, horizon = self._returns, self._returns.scale(), 1.0 / (1.0 - self._gamma)
        low = max(returns.low - 0.5 * spread, min(returns.worst_reward * horizon, 0.0))
        high = min(returns.high + 0.5 * spread, max(returns.best_reward * horizon, 0.0))
        return low, high + spread * self._curious, spread

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        own = {
            "stored": float(self._buffer.size),
            "return_spread": self._returns.scale(),
            "curious": float(self._curious),
        }
        return super().statistics() | own
