"""The completed dynamics: next state, reward and end of every pair (s, a), from the pairs tried so far.

One `MultiOutput` engine completes the d coordinates of z' − z and the reward, over features of the state and the action

    φ(s, a) = [(1, z, z_i z_j) ⊗ y(a),  random Fourier features of z]

where z ∈ [−1, 1]^d are the units of the range seen. (With many actions fewer monomials are crossed with y; the others
are shared by all actions.) Each transition updates the engine at once. Only when the range or the relevance of a
dimension changes are the features others: then a second engine takes in the buffer, a few hundred rows at each step,
and replaces the first. A logistic regression on (1, z', z'_i z'_j) says whether the episode terminates there.

Every transition is predicted before it is learnt. A dimension that is predicted no better than by its mean (noise)
loses its relevance, and with it its influence on distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polaug.compiled import compiled
from polaug.completion.multi_output import MultiOutput, add_rows
from polaug.explorers.base import Batch, BoolArray, FloatArray, IntArray
from polaug.explorers.buffer import Buffer
from polaug.explorers.model_step import BEYOND, Model
from polaug.explorers.threads import one_thread
from polaug.features.kernels import cosines, polynomial, polynomial_size
from polaug.snapshot import saved

_CHUNK = 400  # rows that a new engine takes in at each step: some milliseconds where features are many
_MOST_FOURIER = 240  # whatever the dimensions
_TRIED = 100  # least number of predictions for the error of a dimension to count
_NEWTON = 12  # steps towards the weights of termination
_NEWTON_ROWS = 2000  # transitions, at most, that they are fitted to
_NEWTON_WORK = 10**8  # rows times squared monomials of a step, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicsOptions:
    """Settings of the completed dynamics."""

    first_fit: int = 25
    """Steps before the first prediction."""
    ridge: float = 1e-3
    """Weight of ‖W‖² against one transition, and of the logistic weights."""
    fourier: int = 80
    """Number of random Fourier features up to four dimensions, and half as many for each further one."""
    fourier_length: float = 0.5
    """Length scale of the Fourier features per √dimension, where the range seen has length 2."""
    fourier_amplitude: float = 0.3
    """Size of the Fourier features against monomials of size 1: the ridge then prefers the monomials."""
    crossed: int = 400
    """Maximum number of weights that differ by action. Beyond it, fewer monomials are crossed with y(a)."""
    error_window: int = 500
    """Predictions over which the error of a dimension is averaged."""
    noise: tuple[float, float] = (0.1, 0.5)
    """Shares of a dimension's variance that must be predicted for some relevance, and for all."""
    reframe: float = 0.05
    """Relative growth of a range, or change of a relevance, after which features are recomputed."""
    sample: int = 4000
    """Maximum number of transitions that a plan uses."""


@saved()
class Frame(NamedTuple):
    """The units of the features."""

    centre: FloatArray  # (d,)
    inverse: FloatArray  # (d,) z = (s − centre) · inverse
    relevance: FloatArray  # (d,) in [0, 1]
    frequencies: FloatArray  # (d, F)

    def units(self, states: FloatArray) -> FloatArray:
        """States (n, d) as z, outliers no farther off than what can be predicted."""
        return np.clip((states - self.centre) * self.inverse, -BEYOND, BEYOND)


@saved()
class Sample(NamedTuple):
    """N transitions in units of a frame."""

    z: FloatArray  # (n, d)
    following: FloatArray  # (n, d)
    actions: IntArray  # (n,) columns of Q
    listed: NDArray[np.bool_]  # (n,) whether the action was that very column
    rewards: FloatArray  # (n,)
    terminated: NDArray[np.bool_]  # (n,)

    def rows(self, some: IntArray) -> Sample:
        """Some of them."""
        return Sample(
            self.z[some], self.following[some], self.actions[some], self.listed[some], self.rewards[some],
            self.terminated[some],
        )  # fmt: skip


def fourier_features(dimensions: int, options: DynamicsOptions) -> int:
    """How many Fourier features states of so many dimensions get."""
    return min(options.fourier + options.fourier // 2 * max(dimensions - 4, 0), max(options.fourier, _MOST_FOURIER))


@saved(
    "_directions", "_phases", "_relevance", "_squares", "_tried", "_terminations", "_ended_at", "_ending",
    "_last_reward", "_framed_at", "frame", "engine", "_draft", fixed=("_crossed", "_fourier"),
)  # fmt: skip
class Dynamics:
    """The engine, its frame, and how wrong its predictions were."""

    def __init__(
        self, buffer: Buffer, bounds: tuple[FloatArray, FloatArray], Y: FloatArray, rng: np.random.Generator,
        options: DynamicsOptions,
    ) -> None:  # fmt: skip
        self.options = options
        self._buffer, self._bounds, self._Y, self._rng = buffer, bounds, Y, rng
        d = buffer.states.shape[1]
        self._fourier, self._monomials = fourier_features(d, options), polynomial_size(d)
        self._crossed = self._affordable()
        self._directions = rng.standard_normal((d, self._fourier))
        self._phases = rng.uniform(0.0, 2.0 * np.pi, self._fourier)
        self._relevance = np.ones(d)
        self._squares, self._tried = np.zeros(d), 0  # squared errors in the environment's units, of how many steps
        self._terminations, self._ended_at = 0, -1  # and their number when the end was last fitted
        self._ending, self._last_reward = np.zeros(self._monomials), np.zeros(1 + d)
        self._framed_at = 0  # step
        self.frame: Frame | None = None
        self.engine: MultiOutput | None = None
        """What predicts."""
        self._draft: tuple[Frame, MultiOutput, int] | None = None  # being built, and slots taken in so far
        self._model: Model | None = None  # cache of the engine's weights
        self._limits: tuple[Frame, FloatArray, FloatArray] | None = None  # cache of the bounds in units of a frame

    def _restored(self) -> None:
        self._model = self._limits = None

    def _affordable(self) -> int:
        """How many of the monomials differ by action: all, or with many actions the linear ones, or the constant."""
        for few in (self._monomials, 1 + len(self._buffer.low)):
            if few * self._Y.shape[1] <= self.options.crossed:
                return few
        return 1

    # -- learning ---------------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, slots: IntArray, step: int | None = None) -> None:
        """Take in transitions that were just written to these slots of the buffer; `step` of them came at a time."""
        self._terminations += int(np.count_nonzero(batch.terminated))
        self._model = None
        if self.frame is None or self.engine is None:
            if self._buffer.steps >= self.options.first_fit:
                self._reframe()
            return
        frame, usable = self.frame, self._usable(self.frame, batch.flat, batch.next_flat)
        inside = usable.tolist()
        if True in inside:
            phi, targets = self._rows(frame, batch.flat, batch.features, batch.next_flat, batch.rewards)
            terminated = batch.terminated
            if False in inside:
                phi, targets, terminated = phi[usable], targets[usable], terminated[usable]
            take_in = one_thread(self._take_in) if self.engine.inverts_with(len(phi)) else self._take_in
            take_in(self.engine, phi, targets, terminated, step or len(phi))
        if self._draft is not None:
            frame, engine, filled = self._draft
            late = (slots < filled) & self._usable(frame, batch.flat, batch.next_flat)  # the others are taken in later
            if late.any():
                phi, targets = self._rows(frame, batch.flat, batch.features, batch.next_flat, batch.rewards)
                targets[batch.terminated, -1] = engine.predict(phi[batch.terminated])[:, -1]
                add_rows_on_one_thread(engine, phi[late], targets[late])
            self._take_in_buffer()
        elif False in inside and self._buffer.steps >= (1.0 + self.options.reframe) * self._framed_at:
            self._reframe()

    def steady(self, batch: Batch, step: int) -> int:
        """How many of the transitions, `step` of which come at a time, change nothing but the engine and its errors."""
        if self.frame is None or self.engine is None or self._draft is not None or self.engine.multiplies(step):
            return 0
        strange = np.flatnonzero(~self._usable(self.frame, batch.flat, batch.next_flat))
        return int(strange[0]) if len(strange) else len(batch)

    def _take_in(
        self, engine: MultiOutput, phi: FloatArray, targets: FloatArray, terminated: BoolArray, step: int
    ) -> None:
        """Predict rows, `step` at a time, and take them in."""
        assert self.frame is not None
        errors = self.frame.inverse, self._squares
        if engine.multiplies(step):
            self._tried = try_predictions(
                phi, targets, engine.weights, terminated, *errors, self._tried, self.options.error_window
            )
            engine.add(phi, targets)
            return
        for block in engine.blocks(len(phi), step):
            self._tried = try_and_add(
                *engine.arrays, phi[block], targets[block], terminated[block], *errors, self._tried,
                self.options.error_window, step,
            )  # fmt: skip

    def _usable(self, frame: Frame, states: FloatArray, following: FloatArray) -> NDArray[np.bool_]:
        """Rows (n,) within the frame: the others wait for a wider one, or are broken readings."""
        return np.asarray(are_inside(states, following, frame.centre, frame.inverse))

    def _rows(
        self, frame: Frame, states: FloatArray, y: FloatArray, following: FloatArray, rewards: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Features φ (n, p) and targets (n, d + 1)."""
        amplitude, crossed = self.options.fourier_amplitude, self._crossed
        phi, targets = feature_rows(
            states, y, following, rewards, frame.centre, frame.inverse, frame.frequencies, self._phases, amplitude,
            crossed,
        )  # fmt: skip
        return phi, targets

    def review(self) -> None:
        """Before a plan: see whether the range or the relevances have changed, and fit the end of episodes."""
        if self.frame is None:
            return
        if self._draft is None:
            new, old, limit = self._frame_now(), self.frame, self.options.reframe
            ratio = np.where(new.inverse > 0, old.inverse / np.where(new.inverse > 0, new.inverse, 1.0), 1.0)
            shift = np.abs(new.centre - old.centre) * new.inverse
            moved = (np.abs(ratio - 1.0) > limit) | (shift > limit) | (np.abs(new.relevance - old.relevance) > limit)
            if moved.any():
                self._reframe(new)
        if self._terminations > self._ended_at:
            self._fit_end(self.frame)
        self._model = None

    def _frame_now(self) -> Frame:
        centre, inverse = self._buffer.scale()
        if self._tried >= _TRIED:
            seen = self._buffer.next_states[: self._buffer.size]
            variance = seen[self._buffer.plausible(seen)].var(axis=0)
            explained = 1.0 - self._squares / np.maximum(variance, 1e-300)
            least, enough = self.options.noise
            self._relevance = np.sqrt(np.clip((explained - least) / (enough - least), 0.0, 1.0))
        relevance = np.where(inverse > 0, self._relevance, 0.0)
        if not relevance.any():
            relevance = (inverse > 0).astype(float)
        effective = max(float((relevance**2).sum()), 1.0)
        frequencies = self._directions * relevance[:, None] / (self.options.fourier_length * math.sqrt(effective))
        return Frame(centre, inverse, relevance, frequencies)

    def _reframe(self, frame: Frame | None = None) -> None:
        self._framed_at = self._buffer.steps
        p = self._crossed * self._Y.shape[1] + self._fourier + self._monomials - self._crossed
        engine = MultiOutput(np.full(p, self.options.ridge), len(self._buffer.low) + 1)
        self._draft = (frame or self._frame_now(), engine, 0)
        self._take_in_buffer()

    def _take_in_buffer(self) -> None:
        """A chunk of the buffer for the engine that is being built; when it has all, it is the one that predicts."""
        assert self._draft is not None
        frame, engine, filled = self._draft
        buffer, chunk = self._buffer, slice(filled, min(filled + _CHUNK, self._buffer.size))
        states, following = buffer.states[chunk], buffer.next_states[chunk]
        phi, targets = self._rows(frame, states, buffer.features[chunk], following, buffer.rewards[chunk])
        last = buffer.terminated[chunk]
        if last.any():  # the reward of terminal steps is fitted separately
            targets[last, -1] = self._usual_rewards(states[last], buffer.features[chunk][last])
        usable = self._usable(frame, states, following)
        add_rows_on_one_thread(engine, phi[usable], targets[usable])
        self._draft = (frame, engine, chunk.stop)
        if chunk.stop == buffer.size:
            self.frame, self.engine, self._draft = frame, engine, None
            self._fit_end(frame)

    def _usual_rewards(self, states: FloatArray, y: FloatArray) -> FloatArray:
        """The reward (n,) that terminal steps would have had if they were not terminal, as far as is known."""
        if self.frame is not None and self.engine is not None:
            rows, _ = self._rows(self.frame, states, y, states, np.zeros(len(states)))
            return self.engine.predict(rows)[:, -1]
        alive = self._buffer.rewards[: self._buffer.size][~self._buffer.terminated[: self._buffer.size]]
        return np.full(len(states), alive.mean() if len(alive) else 0.0)

    def _fit_end(self, frame: Frame) -> None:
        """Logistic weights (P,) of termination in z', and the linear reward (1 + d,) on it, by Newton's method."""
        self._ended_at = self._terminations
        size = self._buffer.size
        terminal = np.flatnonzero(self._buffer.terminated[:size])
        d, ridge = len(frame.centre), self.options.ridge
        if not len(terminal):
            if not self._terminations:
                self._ending, self._last_reward = np.zeros(self._monomials), np.zeros(1 + d)
            return
        alive = np.flatnonzero(~self._buffer.terminated[:size])
        most = min(_NEWTON_ROWS, _NEWTON_WORK // self._monomials**2)
        terminal, alive = (rows[:: 1 + len(rows) // most] for rows in (terminal, alive))
        dead = frame.units(self._buffer.next_states[terminal])
        X = polynomial(np.concatenate([dead, frame.units(self._buffer.next_states[alive])]))
        count = len(dead)
        y, importance = np.zeros(len(X)), np.ones(len(X))
        y[:count] = 1.0
        importance[:count] = max(1.0, math.sqrt(len(alive) / count))  # terminal states are rare: give them more weight
        weights = np.zeros(self._monomials)
        for _ in range(_NEWTON):  # steps of bounded length
            p = 1.0 / (1.0 + np.exp(-np.clip(X @ weights, -30.0, 30.0)))
            curvature = importance * np.maximum(p * (1.0 - p), 1e-6)
            slope = X.T @ (importance * (p - y)) + ridge * weights
            system = (X * curvature[:, None]).T @ X
            system[np.diag_indices_from(system)] += ridge
            step = np.linalg.solve(system, slope)
            longest = float(np.abs(step).max())
            if longest > 0.0:
                weights = weights - step * min(1.0, 20.0 / longest)
            if longest < 1e-2:
                break
        rewards = self._buffer.rewards[terminal]
        linear = np.concatenate([np.ones((count, 1)), dead], axis=1)
        reward = np.linalg.solve(linear.T @ linear + np.eye(1 + d), linear.T @ (rewards - rewards.mean()))
        reward[0] += rewards.mean()
        self._ending, self._last_reward = weights, reward

    # -- predicting -------------------------------------------------------------------------------------------------

    @property
    def ends(self) -> bool:
        """Whether any episode ever terminated."""
        return self._terminations > 0

    @property
    def model(self) -> Model | None:
        """The engine as it is now, for compiled loops; None before the first fit."""
        if self._model is None and self.frame is not None and self.engine is not None:
            frame = self.frame
            if self._limits is None or self._limits[0] is not frame:
                self._limits = frame, frame.units(self._bounds[0]), frame.units(self._bounds[1])
            parts = weights_by_action(self._Y, self.engine.weights, self._crossed, self._fourier)
            error = np.minimum(np.sqrt(self._squares) * frame.inverse, 1.0) if self._tried else 0.0 * frame.inverse
            self._model = Model(
                *frame, self._phases, self.options.fourier_amplitude, *parts, self.ends, self._ending,
                self._last_reward, error, *self._limits[1:],
            )  # fmt: skip
        return self._model

    def variance(self, states: FloatArray, y: FloatArray) -> FloatArray:
        """The engine's variance (n,) of the pairs (s, a), in units of the noise; infinite before the first fit."""
        if self.frame is None or self.engine is None:
            return np.full(len(states), np.inf)
        phi, _ = self._rows(self.frame, states, y, states, np.zeros(len(states)))
        return self.engine.variance(phi)

    def draw(self, rng: np.random.Generator) -> Sample:
        """Transitions of the buffer in units of the frame."""
        assert self.frame is not None
        buffer, frame = self._buffer, self.frame
        slots = np.flatnonzero(self._usable(frame, buffer.states[: buffer.size], buffer.next_states[: buffer.size]))
        if not len(slots):
            slots = np.arange(buffer.size)
        if len(slots) > self.options.sample:
            slots = slots[rng.choice(len(slots), self.options.sample, replace=False)]
        actions = buffer.actions[slots]
        return Sample(
            frame.units(buffer.states[slots]), frame.units(buffer.next_states[slots]), actions,
            np.abs(buffer.features[slots] - self._Y[actions]).max(axis=1) < 1e-4, buffer.rewards[slots],
            buffer.terminated[slots],
        )  # fmt: skip

    def use(self, rng: np.random.Generator) -> None:
        """Draw from this generator from now on."""
        self._rng = rng


def add_rows_on_one_thread(engine: MultiOutput, phi: FloatArray, targets: FloatArray, step: int | None = None) -> None:
    """Take in rows; where that takes an inversion, on one thread."""
    (one_thread(engine.add) if engine.inverts_with(len(phi)) else engine.add)(phi, targets, step)


@compiled
def are_inside(states: FloatArray, following: FloatArray, centre: FloatArray, inverse: FloatArray) -> BoolArray:
    """Rows (n,) of which both states lie within the units, or a little beyond."""
    rows = np.ones(states.shape[0], dtype=np.bool_)
    for i in range(states.shape[0]):
        for k in range(states.shape[1]):
            far = max(abs(states[i, k] - centre[k]), abs(following[i, k] - centre[k])) * inverse[k]
            rows[i] = rows[i] and far <= BEYOND
    return rows


@compiled
def feature_rows(
    states: FloatArray, y: FloatArray, following: FloatArray, rewards: FloatArray, centre: FloatArray,
    inverse: FloatArray, frequencies: FloatArray, phases: FloatArray, amplitude: float, crossed: int,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Φ (n, p): the first `crossed` monomials of z (n, d) ⊗ y (n, m), Fourier features, the other monomials.

    Also the targets (n, d + 1): z' − z and the reward.
    """
    n, d = states.shape
    z, targets = np.empty((n, d)), np.empty((n, d + 1))
    for i in range(n):
        for k in range(d):
            z[i, k] = min(max((states[i, k] - centre[k]) * inverse[k], -BEYOND), BEYOND)
            targets[i, k] = min(max((following[i, k] - centre[k]) * inverse[k], -BEYOND), BEYOND) - z[i, k]
        targets[i, d] = rewards[i]
    monomials = polynomial(z)
    m, F, P = y.shape[1], phases.shape[0], monomials.shape[1]
    phi = np.empty((n, m * crossed + F + P - crossed))
    wide = m * crossed
    for i in range(n):
        for j in range(m):
            for c in range(crossed):
                phi[i, j * crossed + c] = y[i, j] * monomials[i, c]
        waves = phi[i, wide : wide + F]
        for f in range(F):
            waves[f] = phases[f]
        for k in range(d):
            for f in range(F):
                waves[f] += frequencies[k, f] * z[i, k]
        cosines(waves)
        for f in range(F):
            waves[f] *= amplitude
        for c in range(crossed, P):
            phi[i, wide + F + c - crossed] = monomials[i, c]
    return phi, targets


@compiled
def try_predictions(
    phi: FloatArray, targets: FloatArray, weights: FloatArray, terminated: BoolArray, inverse: FloatArray,
    squares: FloatArray, tried: int, window: int,
) -> int:  # fmt: skip
    """Average the squared errors (d,) of predictions made before their transitions are learnt, in place; gives how many
    were tried. Terminal steps get the reward that was predicted: theirs is a matter of its own.
    """
    for i in range(phi.shape[0]):
        keep = min(tried, window)
        for k in range(targets.shape[1]):
            predicted = 0.0
            for p in range(phi.shape[1]):
                predicted += phi[i, p] * weights[p, k]
            if k == inverse.shape[0]:
                if terminated[i]:
                    targets[i, k] = predicted
            elif inverse[k] > 0.0:
                error = min(abs(predicted - targets[i, k]), BEYOND) / inverse[k]
                squares[k] += (error * error - squares[k]) / (keep + 1)
            else:
                squares[k] = 0.0  # a dimension that is constant so far
        tried += 1
    return tried


@compiled
def try_and_add(
    P: FloatArray, W: FloatArray, gram: FloatArray, moments: FloatArray, phi: FloatArray, targets: FloatArray,
    terminated: BoolArray, inverse: FloatArray, squares: FloatArray, tried: int, window: int, step: int,
) -> int:  # fmt: skip
    """`try_predictions` and `add_rows` of `step` rows after `step` rows."""
    for at in range(0, phi.shape[0], step):
        rows, wanted = phi[at : at + step], targets[at : at + step]
        tried = try_predictions(rows, wanted, W, terminated[at : at + step], inverse, squares, tried, window)
        add_rows(P, W, gram, moments, rows, wanted)
    return tried


@compiled
def weights_by_action(
    Y: FloatArray, W: FloatArray, crossed: int, fourier: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """W (p, k) as weights of each action (A, k, C), of other monomials (k, ·) and of Fourier features (k, F)."""
    A, n = Y.shape
    outputs, wide = W.shape[1], n * crossed
    by_action = np.zeros((A, outputs, crossed))
    for a in range(A):
        for j in range(n):
            y = Y[a, j]
            if y == 0.0:
                continue
            for c in range(crossed):
                for k in range(outputs):
                    by_action[a, k, c] += y * W[j * crossed + c, k]
    shared = np.ascontiguousarray(W[wide + fourier :].T)
    by_fourier = np.ascontiguousarray(W[wide : wide + fourier].T)
    return by_action, shared, by_fourier
