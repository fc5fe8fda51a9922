"""A learned model of what actions do: next state, reward and termination from a few hundred transitions.

In units z ∈ [−1, 1] of the range seen, ridge regression fits

    z' − z  and  r   on   (1, z, z_i z_j) ⊗ y(a)  and  random Fourier features of z

(with many actions fewer monomials are crossed with y, the others are shared),
and a logistic regression on (1, z', z'_i z'_j) says whether the episode terminates there. Before each refit the old
model is tried on the transitions it has not seen; a dimension that it predicts no better than its mean (noise) loses
its relevance, and with it its influence on distances.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.exploration.base import Batch, FloatArray, IntArray
from polaug.exploration.geometry import polynomial, polynomial_size
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.state import LARGEST_COUNT, State, captured, checked, fitting, part, prefixed, within

BEYOND = 1.2
"""How far, in units of the range seen, imagined states may leave it."""

WAVE_SIZE = 0.3
"""Amplitude of the waves against monomials of size 1: the ridge then prefers the monomials."""

_RIDGE = 1e-3
_WAVES, _MORE_WAVES, _MOST_WAVES, _WAVE_LENGTH = 80, 40, 240, 0.5  # up to four dimensions, and for each further one
_CROSSED = 400  # most weights that differ by action: a fit costs their number to the third power
_TERMINALS = 300  # terminal states kept
_FRESH = 1000  # unseen transitions kept for the next trial
_NEWTON = 10**8  # rows times squared monomials of a step towards the weights of termination, at most


class Laws(NamedTuple):
    """A fitted model, as plain arrays for compiled code. d dimensions, A actions, P monomials, F waves.

    The first C monomials have weights for each action, the others the same for all: A · P · d numbers would fill the
    memory where there are hundreds of dimensions.
    """

    centre: FloatArray  # (d,)
    inverse: FloatArray  # (d,) z = (s − centre) · inverse
    relevance: FloatArray  # (d,) in [0, 1]
    frequencies: FloatArray  # (F, d)
    phases: FloatArray  # (F,)
    by_action: FloatArray  # (A, C, d + 1) weights of the first monomials for Δz and r
    shared: FloatArray  # (P − C, d + 1) weights of the others
    by_wave: FloatArray  # (F, d + 1) weights of the waves, the same for all actions
    ends: bool  # whether any episode ever terminated
    ending: FloatArray  # (P,) logistic weights of termination
    last_reward: FloatArray  # (1 + d,) reward on termination, linear in z'
    error: FloatArray  # (d,) standard deviation of Δz on unseen transitions, in z


_LAWS = {
    "centre": ("f", "d"), "inverse": ("f", "d"), "relevance": ("f", "d"), "frequencies": ("f", "F", "d"),
    "phases": ("f", "F"), "by_action": ("f", "A", "C", "targets"), "shared": ("f", "others", "targets"),
    "by_wave": ("f", "F", "targets"), "ends": ("b",), "ending": ("f", "P"), "last_reward": ("f", "targets"),
    "error": ("f", "d"),
}  # fmt: skip


class Sample(NamedTuple):
    """The n transitions that the last fit used, in units of that fit."""

    z: FloatArray  # (n, d)
    following: FloatArray  # (n, d)
    actions: IntArray  # (n,) columns of Q
    listed: NDArray[np.bool_]  # (n,) whether the action was that very column
    rewards: FloatArray  # (n,)
    terminated: NDArray[np.bool_]  # (n,)


_SAMPLE = {
    "z": ("f", "n", "d"), "following": ("f", "n", "d"), "actions": ("i", "n"), "listed": ("b", "n"),
    "rewards": ("f", "n"), "terminated": ("b", "n"),
}  # fmt: skip


def restored_laws(state: State, dimensions: int, n_actions: int) -> Laws:
    """Laws from their arrays, once all of them fit these spaces and each other."""
    sizes = {"d": dimensions, "A": n_actions, "P": polynomial_size(dimensions), "targets": dimensions + 1}
    arrays = fitting("laws", state, _LAWS, **sizes)
    if arrays["by_action"].shape[1] + len(arrays["shared"]) != sizes["P"]:
        raise StateError(f"laws.shared: must have the rest of {sizes['P']} monomials. The state is damaged.")
    return Laws(ends=bool(arrays.pop("ends")), **arrays)


def waves_of(dimensions: int) -> int:
    """How many waves laws of so many dimensions have."""
    return min(_WAVES + _MORE_WAVES * max(dimensions - 4, 0), _MOST_WAVES)


class Dynamics:
    """Fits `Laws` to the store, and knows how wrong the last ones were."""

    _SAVED = ("_relevance", "_error", "_tried", "_directions", "_phases", "_terminal_states", "_terminal_rewards",
              "_terminals", "_fresh_states", "_fresh_features", "_fresh_next", "_n_fresh")  # fmt: skip

    def __init__(self, store: Store, Y: FloatArray, rng: np.random.Generator, *, sample: int = 4000) -> None:
        self._store, self._Y, self._rng, self._sample_size = store, Y, rng, sample
        d = store.states.shape[1]
        waves = waves_of(d)
        self._directions = rng.standard_normal((waves, d))
        self._phases = rng.uniform(0.0, 2.0 * np.pi, waves)
        self._relevance = np.ones(d)
        self._error, self._tried = np.zeros(d), 0  # squared errors in the environment's units, and on how many steps
        self._terminal_states, self._terminal_rewards = np.zeros((_TERMINALS, d)), np.zeros(_TERMINALS)
        self._terminals = 0
        self._fresh_states, self._fresh_next = np.zeros((_FRESH, d)), np.zeros((_FRESH, d))
        self._fresh_features = np.zeros((_FRESH, Y.shape[1]))
        self._n_fresh = 0
        self.laws: Laws | None = None
        self.sample: Sample | None = None

    def observe(self, batch: Batch) -> None:
        """Remember terminal states, and the transitions on which the present laws are yet to be tried."""
        for i in batch.terminated.nonzero()[0].tolist():
            at = self._terminals if self._terminals < _TERMINALS else int(self._rng.integers(_TERMINALS))
            self._terminal_states[at], self._terminal_rewards[at] = batch.next_flat[i], batch.rewards[i]
            self._terminals = min(self._terminals + 1, _TERMINALS)
        n, first = len(batch), self._n_fresh % _FRESH
        slots = slice(first, first + n) if first + n <= _FRESH else np.arange(first, first + n) % _FRESH
        self._fresh_states[slots], self._fresh_next[slots] = batch.flat, batch.next_flat
        self._fresh_features[slots] = batch.features
        self._n_fresh += n

    def replaces(self, terminations: int) -> bool:
        """Whether so many more terminal states would take the place of others, at random."""
        return self._terminals + terminations > _TERMINALS

    def fit(self, returns: Returns) -> None:
        """New laws from the store."""
        centre, inverse = self._store.scale()
        self._try_old_laws(inverse > 0)
        relevance = np.where(inverse > 0, self._relevance, 0.0)
        if not relevance.any():
            relevance = (inverse > 0).astype(float)
        effective = max(float((relevance**2).sum()), 1.0)
        frequencies = self._directions / (_WAVE_LENGTH * math.sqrt(effective))
        sample, y = self._draw(centre, inverse)
        monomials = polynomial(sample.z)
        waves = wave_features(sample.z * relevance, frequencies, self._phases)
        crossed = self._crossed(monomials.shape[1])
        by_action = (monomials[:, None, :crossed] * y[:, :, None]).reshape(len(y), -1)
        psi = np.concatenate([by_action, waves, monomials[:, crossed:]], axis=1)
        reward_size = max(abs(returns.best_reward), abs(returns.worst_reward), 1e-300)
        alive = ~sample.terminated
        weights = np.empty((psi.shape[1], sample.z.shape[1] + 1))
        weights[:, :-1] = _ridge(psi, sample.following - sample.z)
        # The reward of terminal steps is a matter of its own: it would bend the others' fit.
        weights[:, -1] = reward_size * _ridge(psi[alive], sample.rewards[alive] / reward_size)
        wide, F = by_action.shape[1], waves.shape[1]
        parts = np.tensordot(self._Y, weights[:wide].reshape(self._Y.shape[1], crossed, -1), (1, 0))
        ending, last_reward = self._fit_termination(centre, inverse, sample.following[alive])
        error = np.minimum(np.sqrt(self._error) * inverse, 1.0) if self._tried else np.zeros_like(inverse)
        self.laws = Laws(
            centre, inverse, relevance, frequencies, self._phases,
            parts, weights[wide + F :].copy(), np.ascontiguousarray(weights[wide : wide + F]),
            self._terminals > 0, ending, last_reward, error,
        )  # fmt: skip
        self.sample = sample

    def _crossed(self, monomials: int) -> int:
        """How many of the monomials differ by action: all, or with many actions the linear ones, or the constant."""
        for few in (monomials, 1 + len(self._relevance)):
            if few * self._Y.shape[1] <= _CROSSED:
                return few
        return 1

    def _draw(self, centre: FloatArray, inverse: FloatArray) -> tuple[Sample, FloatArray]:
        """Up to `sample` transitions of the store, and the features y (n, ·) of their actions."""
        store = self._store
        n = store.size
        slots = np.flatnonzero(store.plausible(store.states[:n], store.next_states[:n]))
        if len(slots) > self._sample_size:
            slots = slots[self._rng.choice(len(slots), self._sample_size, replace=False)]
        actions, y = store.actions[slots], store.features[slots]
        z, following = ((each[slots] - centre) * inverse for each in (store.states, store.next_states))
        return Sample(
            _in_reach(z), _in_reach(following),
            actions, np.abs(y - self._Y[actions]).max(axis=1) < 1e-4, store.rewards[slots], store.terminated[slots],
        ), y  # fmt: skip

    def _try_old_laws(self, varies: NDArray[np.bool_]) -> None:
        """Errors of the present laws on what they have not seen, and from them the relevance of each dimension."""
        n = min(self._n_fresh, _FRESH)
        self._n_fresh = 0
        if self.laws is None or n == 0:
            return
        laws, store = self.laws, self._store
        rows = np.flatnonzero(store.plausible(self._fresh_states[:n], self._fresh_next[:n]))
        n, states, following = len(rows), self._fresh_states[rows], self._fresh_next[rows]
        z = (states - laws.centre) * laws.inverse
        # Laws hold weights per listed action; those of a very action are the same combination by its features.
        listed = np.linalg.lstsq(self._Y.T, self._fresh_features[rows].T, rcond=None)[0]  # (A, n)
        polynomials = polynomial(z)
        crossed, others = np.split(polynomials, [laws.by_action.shape[1]], axis=1)
        change = np.einsum("np,an,apk->nk", crossed, listed, laws.by_action[:, :, :-1], optimize=True)
        if others.shape[1]:
            change += others @ laws.shared[:, :-1]
        change += wave_features(z * laws.relevance, laws.frequencies, laws.phases) @ laws.by_wave[:, :-1]
        actual = (following - states) * laws.inverse
        squares = ((change - actual) ** 2).mean(axis=0)
        units = np.where(laws.inverse > 0, laws.inverse, 1.0)
        squares = np.where(laws.inverse > 0, squares / units**2, 0.0)  # a dimension constant so far has no error
        keep = min(self._tried, 500)
        self._error = (self._error * keep + squares * n) / (keep + n)
        self._tried = keep + n
        if self._tried >= 100:
            seen = store.next_states[: store.size]
            variance = seen[store.plausible(seen)].var(axis=0)
            explained = 1.0 - self._error / np.maximum(variance, 1e-300)
            self._relevance = np.where(varies, np.sqrt(np.clip((explained - 0.1) / 0.4, 0.0, 1.0)), 0.0)

    def _fit_termination(
        self, centre: FloatArray, inverse: FloatArray, alive: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Logistic weights (P,) of termination in z', and the linear reward (1 + d,) on it."""
        d = len(centre)
        weights, reward = np.zeros(polynomial_size(d)), np.zeros(1 + d)
        count = self._terminals
        if count == 0:
            return weights, reward
        dead = _in_reach((self._terminal_states[:count] - centre) * inverse)
        alive = alive[:: 1 + len(alive) * len(weights) ** 2 // _NEWTON]
        X = np.concatenate([polynomial(dead), polynomial(alive)])
        y = np.zeros(len(X))
        y[:count] = 1.0
        importance = np.ones(len(X))
        importance[:count] = max(1.0, math.sqrt(len(alive) / count))  # the few terminal states must be heard
        for _ in range(12):  # Newton steps of bounded length
            p = _logistic(X @ weights)
            curvature = importance * np.maximum(p * (1.0 - p), 1e-6)
            slope = X.T @ (importance * (p - y)) + _RIDGE * weights
            system = (X * curvature[:, None]).T @ X
            system[np.diag_indices_from(system)] += _RIDGE
            step = np.linalg.solve(system, slope)
            longest = float(np.abs(step).max())
            if longest > 0.0:
                weights = weights - step * min(1.0, 20.0 / longest)
            if longest < 1e-2:
                break
        rewards = self._terminal_rewards[:count]
        linear = np.concatenate([np.ones((count, 1)), dead], axis=1)
        reward[0] = rewards.mean()
        reward += np.linalg.solve(linear.T @ linear + np.eye(1 + d), linear.T @ (rewards - rewards.mean()))
        return weights, reward

    def use(self, rng: np.random.Generator) -> None:
        """Draw from this generator from now on."""
        self._rng = rng

    def state_dict(self) -> State:
        """Everything that the next fit, and those who use the present one, need."""
        state = captured(self, self._SAVED)
        if self.laws is not None and self.sample is not None:
            state |= prefixed("laws", {k: np.array(v) for k, v in self.laws._asdict().items()})
            state |= prefixed("sample", self.sample._asdict())
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        values = checked(self, self._SAVED, state)
        within("dynamics._terminals", values["_terminals"], 0, _TERMINALS)
        within("dynamics._n_fresh, _tried", [values["_n_fresh"], values["_tried"]], 0, LARGEST_COUNT)
        arrays, sampled = part("laws", state), part("sample", state)
        laws = sample = None
        if arrays or sampled:
            d = len(self._relevance)
            laws = restored_laws(arrays, d, len(self._Y))
            sample = Sample(**fitting("sample", sampled, _SAMPLE, d=d))
            within("sample.actions", sample.actions, 0, len(self._Y) - 1)
        for name, value in values.items():
            setattr(self, name, value)
        self.laws, self.sample = laws, sample


def _in_reach(z: FloatArray) -> FloatArray:
    """Outliers no farther off than what can be imagined."""
    return np.clip(z, -BEYOND, BEYOND)


def _ridge(X: FloatArray, y: FloatArray) -> FloatArray:
    gram = X.T @ X
    gram[np.diag_indices_from(gram)] += _RIDGE
    return np.asarray(np.linalg.solve(gram, X.T @ y), dtype=np.float64)


def wave_features(z: FloatArray, frequencies: FloatArray, phases: FloatArray) -> FloatArray:
    """The random Fourier features (n, F) of relevant states z (n, d)."""
    waves: FloatArray = np.cos(z @ frequencies.T + phases) * WAVE_SIZE
    return waves


def _logistic(x: FloatArray) -> FloatArray:
    p: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0)))
    return p
