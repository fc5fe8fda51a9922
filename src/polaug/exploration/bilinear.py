"""Q̂ = x(s)ᵀ W y(a) by fitted Q iteration on the observed pairs only: the engine behind `optimistic`.

x(s) are random Fourier features in one or several groups, each with a W of its own, all fitted to the same targets by
ridge regression; Q̂ is their mean. One sweep sets the targets

    r + γ max_a' [Q̂(s', a') + β bonus(s', a')] − α (max_a' Q̂(s, a') − Q̂(s, a))

(0 after the r where the episode terminated, clipped to the returns seen) and refits W. The last term, advantage
learning (Baird, 1999), widens the gaps between actions, which a smooth Q̂ otherwise blurs. With one-hot actions the Gram
matrix falls apart into one block per action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from polaug.completion.compiled import compiled
from polaug.exploration.base import FloatArray, IntArray
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.state import State, alike

Single = NDArray[np.float32]

_LARGEST_SYSTEM = 700  # weights that one Cholesky factor may have: its cost grows with their third power
_FEWEST_FREQUENCIES = 10  # below so many a group says little more than its linear part


def affordable_frequencies(dimensions: int, Y: FloatArray, wanted: int, largest: int = _LARGEST_SYSTEM) -> int:
    """How many of the `wanted` frequencies keep the Gram matrices of all actions affordable; 0 if too few would."""
    blocks, width = (len(Y), 1) if is_one_hot(Y) else (1, Y.shape[1])
    size = int(largest / (blocks ** (1 / 3) * width))
    frequencies = min(wanted, (size - 1 - dimensions) // 2)
    return frequencies if frequencies >= min(wanted, _FEWEST_FREQUENCIES) else 0


def is_one_hot(Y: FloatArray) -> bool:
    """Whether every action is a feature of its own: the Gram matrix then falls apart."""
    return Y.shape == (len(Y), len(Y)) and bool((np.eye(len(Y)) == Y).all())


@dataclass(frozen=True, slots=True)
class Limits:
    """What targets may be: clipped to [low, high], in units where `spread` is the range of the returns seen."""

    low: float
    high: float
    spread: float

    @staticmethod
    def within(returns: Returns, hope: float = 0.0) -> Limits:
        """The returns seen, half a spread beyond, and what the rewards allow; `hope` spreads more at the top."""
        spread, horizon = returns.scale(), 1.0 / (1.0 - returns.gamma)
        low = max(returns.low - 0.5 * spread, min(returns.worst_reward * horizon, 0.0))
        high = min(returns.high + 0.5 * spread, max(returns.best_reward * horizon, 0.0))
        return Limits(low, high + hope * spread, spread)


class Waves:
    """cos and sin of Gaussian frequencies, a constant and the linear part, of states scaled to about [−1, 1]."""

    def __init__(self, dimensions: int, frequencies: int, rng: np.random.Generator) -> None:
        self.size = 2 * frequencies + 1 + dimensions
        self.stretch(rng.standard_normal((dimensions, frequencies)), 1.0)

    def stretch(self, directions: FloatArray, length: float) -> None:
        """Take these frequencies (d, ·), over a length."""
        self.directions, self.length = directions, length
        self._frequencies = directions / length

    def __call__(self, z: FloatArray) -> FloatArray:
        """Features (n, size) of z (n, d)."""
        n, frequencies = len(z), self.directions.shape[1]
        features = np.empty((n, self.size))
        angles = z @ self._frequencies
        np.cos(angles, out=features[:, :frequencies])
        np.sin(angles, out=features[:, frequencies : 2 * frequencies])
        features[:, : 2 * frequencies] /= math.sqrt(frequencies)
        features[:, 2 * frequencies] = 0.5
        np.multiply(z, 0.2, out=features[:, 2 * frequencies + 1 :])
        return features


class Group:
    """One group of features of all stored pairs, the Gram matrix they make, and W for each head."""

    def __init__(self, store: Store, Y: FloatArray, waves: Waves, ridge: float, heads: int) -> None:
        self.waves, self._store, self._Y, self._ridge = waves, store, Y, ridge
        self.one_hot = is_one_hot(Y)
        d, n = waves.size, Y.shape[1]
        self.here = np.zeros((store.capacity, d), dtype=np.float32)
        self.there = np.zeros((store.capacity, d), dtype=np.float32)
        self.actions = np.zeros(store.capacity, dtype=np.int64)  # as they were when last added to the Gram matrix
        self.features = np.zeros((store.capacity, Y.shape[1]))
        self.W = np.zeros((heads, d, n))
        self._gram = np.zeros((n, d, d)) if self.one_hot else np.zeros((1, n * d, n * d))
        self._factors: list[FloatArray] = []

    def rebuild(self, slots: IntArray, old: IntArray, centre: FloatArray, inverse: FloatArray) -> None:
        """Features of `slots` anew; those in `old` first leave the Gram matrix."""
        if len(old):
            self._count(old, -1.0)
        store = self._store
        self.here[slots] = self.waves(scaled(store.states[slots], centre, inverse))
        self.there[slots] = self.waves(scaled(store.next_states[slots], centre, inverse))
        self.actions[slots], self.features[slots] = store.actions[slots], store.features[slots]
        self._count(slots, 1.0)

    def clear(self) -> None:
        """Forget the Gram matrix."""
        self._gram[:] = 0.0

    def _count(self, slots: IntArray, sign: float) -> None:
        for begin in range(0, len(slots), 2000):
            part = slots[begin : begin + 2000]
            x, a = self.here[part].astype(np.float64), self.actions[part]
            if self.one_hot:
                for action in range(len(self._gram)):
                    mine = x[a == action]
                    if len(mine):
                        self._gram[action] += sign * (mine.T @ mine)
            else:
                both = (self.features[part][:, :, None] * x[:, None, :]).reshape(len(x), -1)
                self._gram[0] += sign * (both.T @ both)

    def factor(self) -> None:
        """Cholesky factors of the Gram matrix plus ridge; more of it where rounding has left the sum indefinite."""
        self._factors = []
        for block in self._gram:
            ridge, failed = self._ridge, 1
            while failed and ridge < np.inf:
                system = block.copy()
                system[np.diag_indices(len(system))] += ridge
                factor, failed = lapack.dpotrf(system, lower=1, overwrite_a=1, clean=0)
                ridge *= 10.0
            self._factors.append(factor)

    def uncertainty(self, z: FloatArray) -> FloatArray:
        """√(ridge φᵀΛ⁻¹φ / φᵀφ) (n,) of the least known action at scaled states z (n, d): 1 where nothing was seen."""
        if not self._factors:  # just loaded
            self.factor()
        x, most = self.waves(z), np.zeros(len(z))
        for k, y in enumerate(self._Y):
            phi = x if self.one_hot else (y[:, None] * x[:, None, :]).reshape(len(x), -1)
            far = solve_triangular(self._factors[k if self.one_hot else 0], phi.T, lower=True)
            share = self._ridge * np.square(far).sum(axis=0) / np.square(phi).sum(axis=1)
            np.maximum(most, np.sqrt(np.minimum(share, 1.0)), out=most)
        return most

    def solve(self, head: int, targets: FloatArray) -> None:
        """W of `head` for the targets (size,) of all stored pairs."""
        n = self._store.size
        unit = max(
            float(np.abs(targets).max()), 1e-300
        )  # single precision sees numbers up to 1 whatever the rewards are
        weighted = ((targets / unit)[:, None] * self.features[:n]).astype(np.float32)
        right = unit * (self.here[:n].T @ weighted).astype(np.float64)
        if self.one_hot:
            for action, factor in enumerate(self._factors):
                self.W[head, :, action] = lapack.dpotrs(factor, right[:, action].copy(), lower=1)[0]
        else:
            flat = lapack.dpotrs(self._factors[0], right.T.ravel().copy(), lower=1)[0]
            self.W[head] = flat.reshape(right.shape[1], -1).T


class Bilinear:
    """The ensemble of groups: rescaling, incremental Gram matrices and sweeps, for one or several heads."""

    def __init__(
        self,
        store: Store,
        Y: FloatArray,
        rng: np.random.Generator,
        *,
        groups: int,
        frequencies: int,
        ridge: float,
        gamma: float,
        advantage: float,
        heads: int = 1,
    ) -> None:
        self._store, self._Y, self._gamma, self._advantage = store, Y, gamma, advantage
        dimensions = store.states.shape[1]
        self.groups = [Group(store, Y, Waves(dimensions, frequencies, rng), ridge, heads) for _ in range(groups)]
        self.targets = np.zeros((heads, store.capacity))
        self.centre, self.inverse = np.zeros(dimensions), np.zeros(dimensions)
        self._seen, self._filled = 0, 0  # step, and slots, up to which the store is in the Gram matrices
        self._next_rescale = 0
        self.fitted = False

    def update(self) -> bool:
        """Take in what the store got since the last call; True if everything was rescaled."""
        store = self._store
        slots = store.written_since(self._seen)
        self.targets[:, slots] = store.rewards[slots]
        rescaled = store.steps >= self._next_rescale
        if rescaled:
            self._next_rescale = int(1.3 * store.steps) + 1
            self.centre, self.inverse = store.scale()
            live = max(1, int(np.count_nonzero(self.inverse)))
            # Few dimensions can afford sharp features, many need smooth ones; chosen on four tasks, see the docs.
            length = math.sqrt(live) * min(max(0.25 * (live / 3.0) ** 2.5, 0.25), 0.6)
            for group in self.groups:
                group.waves.stretch(group.waves.directions, length)
                group.clear()
                group.rebuild(np.arange(store.size), slots[:0], self.centre, self.inverse)
        else:
            old = slots[slots < self._filled]
            for group in self.groups:
                group.rebuild(slots, old, self.centre, self.inverse)
        for group in self.groups:
            group.factor()
        if rescaled and self.fitted:
            for head in range(len(self.targets)):
                for group in self.groups:
                    group.solve(head, self.targets[head, : store.size])
        self._seen, self._filled = store.steps, store.size
        return rescaled

    def sweep(self, head: int, times: int, limits: Limits, bonus: Single | None, beta: float) -> None:
        """`times` rounds of targets and refits for `head`; `bonus` (size, N) is of the stored next states."""
        store, n = self._store, self._store.size
        targets, gapped = self.targets[head, :n], np.empty(n)
        paid = np.zeros((1, 1), dtype=np.float32) if bonus is None else bonus
        for _ in range(times):
            ahead, here = self._stored_values(head, limits.spread)
            set_targets(
                ahead, here, store.actions[:n], store.rewards[:n], store.terminated[:n], paid,
                beta if bonus is not None else 0.0, self._gamma, self._advantage, limits.spread,
                limits.low, limits.high, limits.low - limits.spread, targets, gapped,
            )  # fmt: skip
            for group in self.groups:
                group.solve(head, gapped)
        self.fitted = True

    def _stored_values(self, head: int, unit: float) -> tuple[Single, Single]:
        """Q̂ (size, N) of the stored next states and states, in units of `unit`."""
        n, share = self._store.size, 1.0 / (len(self.groups) * unit)
        ahead = np.zeros((n, len(self._Y)), dtype=np.float32)
        here = np.zeros_like(ahead)
        for group in self.groups:
            weights = (share * (group.W[head] @ self._Y.T)).astype(np.float32)
            ahead += group.there[:n] @ weights
            here += group.here[:n] @ weights
        return ahead, here

    def q(self, flat: FloatArray, head: int) -> FloatArray:
        """Q̂ (n, N) of flat observations."""
        z = scaled(flat, self.centre, self.inverse)
        total = np.zeros((len(flat), len(self._Y)))
        for group in self.groups:
            total += group.waves(z) @ (group.W[head] if group.one_hot else group.W[head] @ self._Y.T)
        return total / len(self.groups)

    def state_dict(self) -> State:
        """Weights, targets, features' scale and the Gram matrices."""
        n = self._store.size
        state: State = {
            "targets": self.targets[:, :n].copy(), "centre": self.centre.copy(), "inverse": self.inverse.copy(),
            "counters": np.array([self._seen, self._filled, self._next_rescale, self.fitted], dtype=np.int64),
        }  # fmt: skip
        for k, group in enumerate(self.groups):
            state |= {
                f"W{k}": group.W.copy(), f"gram{k}": group._gram.copy(),
                f"directions{k}": group.waves.directions.copy(),
                f"length{k}": np.array(group.waves.length), f"here{k}": group.here[:n].copy(),
                f"there{k}": group.there[:n].copy(), f"actions{k}": group.actions[:n].copy(),
                f"features{k}": group.features[:n].copy(),
            }  # fmt: skip
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`, after the store was loaded; on an error nothing has changed."""
        n, state = self._store.size, alike("model", state, self.state_dict())
        self.targets[:, :n] = state["targets"]
        self.centre, self.inverse = state["centre"], state["inverse"]
        self._seen, self._filled, self._next_rescale, fitted = (int(c) for c in state["counters"])
        self.fitted = bool(fitted)
        for k, group in enumerate(self.groups):
            group.W, group._gram = state[f"W{k}"], state[f"gram{k}"]
            group.waves.stretch(state[f"directions{k}"], float(state[f"length{k}"]))
            group.here[:n], group.there[:n] = state[f"here{k}"], state[f"there{k}"]
            group.actions[:n], group.features[:n] = state[f"actions{k}"], state[f"features{k}"]
            group.factor()


def scaled(flat: FloatArray, centre: FloatArray, inverse: FloatArray) -> FloatArray:
    """States (n, d) in units of the range seen, clipped to ±3."""
    z: FloatArray = np.minimum(np.maximum((flat - centre) * inverse, -3.0), 3.0)  # faster than `clip` on a few
    return z


@compiled
def set_targets(
    ahead: Single, here: Single, actions: IntArray, rewards: FloatArray, terminated: NDArray[np.bool_], bonus: Single,
    beta: float, gamma: float, advantage: float, unit: float, low: float, high: float, least: float,
    targets: FloatArray, gapped: FloatArray,
) -> None:  # fmt: skip
    """Bootstrapped, clipped `targets` (n,) and the same less advantage · (max Q̂(s, ·) − Q̂(s, a)), at least `least`.

    `ahead` and `here` are in units of `unit`.
    """
    for i in range(rewards.shape[0]):
        target = rewards[i]
        if not terminated[i]:
            best = -np.inf
            for a in range(ahead.shape[1]):
                value = unit * ahead[i, a]
                if beta > 0.0:
                    value += beta * bonus[i, a]
                best = max(best, value)
            target += gamma * best
        targets[i] = min(max(target, low), high)
        top = float(here[i, 0])
        for a in range(1, here.shape[1]):
            top = max(top, float(here[i, a]))
        gapped[i] = max(targets[i] - advantage * unit * (top - here[i, actions[i]]), least)
