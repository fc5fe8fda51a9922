"""The completed Q: a learned model fills in every action at a set of anchor states, and V is solved on them.

At each anchor every action gets the target

    (1 − κ) [(1 − p)(r̂ + γ V(ẑ')) + p r̂_end] + κ V_opt

where ẑ', r̂ and the termination probability p come from the laws of `Dynamics` (or from the transition itself where
that very pair was observed), and κ ∈ [0, 1] is the novelty of ẑ': the variance of a Gaussian process that has seen all
visited states. V is the mean of two kernel regressions of different length on the anchors, plus quadratics; a few dozen
sweeps, warm-started, solve it. Acting looks one step ahead through the laws, so the Q of any state is completed from V
the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polaug.completion.compiled import compiled
from polaug.exploration.base import FloatArray, IntArray
from polaug.exploration.dynamics import BEYOND, WAVE_SIZE, Laws, Sample, wave_features
from polaug.exploration.geometry import bumps, farthest_points, polynomial, single_bumps

_CENTRES, _SHORTEST = 100, 0.1  # per head
_NOVELTY_CENTRES, _NOVELTY_LENGTH, _NOVELTY_SHORTEST, _NOVELTY_RIDGE = 60, 2.0, 0.15, 0.1
_KNOWN = 0.1  # a variance below this counts as known
_QUADRATIC_RIDGE = 1e-2
_SWEEPS = 150  # at most: half-solved values play badly, and sweeps are cheap beside their matrices


class Hopes(NamedTuple):
    """The range in which values are looked for: `optimum` is what an unknown state is worth."""

    low: float
    optimum: float


class Style(NamedTuple):
    """How V is fitted: lengths of the two heads in units of the covering radius, ridge, and a quadratic part or not."""

    lengths: tuple[float, float]
    ridge: float
    quadratic: bool


SEARCHING = Style((2.0, 4.0), 0.02, True)
"""While nothing good was ever seen: smooth, and it extrapolates, which finds goals."""

FOUND = Style((2.0, 2.0), 0.01, False)
"""Afterwards: local, so that cliffs and switching lines stay where they are."""


class Vision(NamedTuple):
    """V and the novelty of states, as plain arrays for compiled code. Two heads of m centres each."""

    centres: FloatArray  # (2 m, d) in relevant units
    weights: FloatArray  # (2 m,)
    lengths: FloatArray  # (2,)
    quadratic: FloatArray  # (2, P) weights of the monomials of z
    mean: float
    visited: FloatArray  # (b, d) centres of the novelty
    visited_length: float
    certainty: FloatArray  # (b, b): novelty = 1 + k certainty kᵀ
    counted: FloatArray  # (b, b) inverse of the counts' matrix, for rank-one updates
    low: float
    optimum: float


def imagine(
    laws: Laws, sample: Sample, before: tuple[Laws, Vision] | None, hopes: Hopes, style: Style,
    gamma: float, n_actions: int, rng: np.random.Generator,
) -> Vision:  # fmt: skip
    """Solve V on anchors drawn from the sample, starting from the V of `before`."""
    relevant = sample.z * laws.relevance
    anchors, order, radius, candidates = _anchors(relevant, n_actions, rng)
    m = max(1, min(_CENTRES, len(order) // 2))
    b = min(_NOVELTY_CENTRES, len(order))
    chosen = candidates[np.concatenate([order[: 2 * m : 2][:m], order[1 : 2 * m : 2][:m]])]
    if len(chosen) < 2 * m:  # a single point so far serves both heads
        chosen = np.resize(chosen, 2 * m)
    centres = np.ascontiguousarray(relevant[chosen])
    lengths = np.maximum(np.array(style.lengths) * radius[m - 1], _SHORTEST)
    visited = np.ascontiguousarray(relevant[candidates[order[:b]]])
    visited_length = max(_NOVELTY_LENGTH * radius[b - 1], _NOVELTY_SHORTEST)
    counted, certainty = _novelty(relevant, visited, visited_length)

    following, reward, ends, last_reward = _complete(laws, sample, anchors)
    flat = following.reshape(len(anchors) * n_actions, -1)
    there = flat * laws.relevance
    kernel = single_bumps(there, visited, visited_length).astype(np.float64)
    novelty = 1.0 + np.einsum("ij,ij->i", kernel @ certainty, kernel)
    novelty = np.clip((novelty - _KNOWN) / (1.0 - _KNOWN), 0.0, 1.0).reshape(len(anchors), n_actions)

    known = (1.0 - novelty) * ((1.0 - ends) * reward + ends * last_reward) + novelty * hopes.optimum
    onward = (1.0 - novelty) * (1.0 - ends) * gamma
    start = _value_before(before, laws, sample.z[anchors], hopes)
    here = np.ascontiguousarray(relevant[anchors])
    heads = [_regression(here, there, centres[h * m : (h + 1) * m], float(lengths[h]), style) for h in range(2)]
    values = _sweep(heads, known, onward, start, hopes)
    mean = float(values.mean())
    solved = [project @ (values - mean) for project, _ in heads]
    # The monomials were of relevant units; looking ahead uses those of z.
    rescale = polynomial(laws.relevance[None])[0]
    quadratic = np.stack([w[m:] * rescale for w in solved]) if style.quadratic else np.zeros((2, len(rescale)))
    return Vision(
        centres, np.concatenate([w[:m] for w in solved]), lengths, quadratic, mean,
        visited, visited_length, certainty, counted, hopes.low, hopes.optimum,
    )  # fmt: skip


def _anchors(
    relevant: FloatArray, n_actions: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
    """Anchors (rows of the sample): two thirds spread as far as possible, the rest at random.

    Also the farthest-point order among the candidates, its covering radii, and the candidates.
    """
    n = len(relevant)
    count = max(2, min(1000, 4000 // n_actions, n))
    candidates = np.arange(n) if n <= 1500 else rng.choice(n, 1500, replace=False)
    spread = max(min(2 * count // 3, len(candidates)), min(len(candidates), 2))
    order, radius = farthest_points(
        np.ascontiguousarray(relevant[candidates]), spread, int(rng.integers(len(candidates)))
    )
    far = candidates[order]
    rest = np.setdiff1d(np.arange(n), far)
    extra = rng.choice(rest, min(max(count - spread, 0), len(rest)), replace=False)
    return np.concatenate([far, extra]), order, radius, candidates


def _foresee(laws: Laws, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Next state (n, A, d), reward, termination probability and reward on it (n, A) of every action at z (n, d)."""
    d = z.shape[1]
    change = np.tensordot(polynomial(np.ascontiguousarray(z)), laws.by_action, (1, 1))  # (n, A, d + 1)
    change += (wave_features(z * laws.relevance, laws.frequencies, laws.phases) @ laws.by_wave)[:, None, :]
    following = np.clip(z[:, None, :] + change[:, :, :d], -BEYOND, BEYOND)
    reward = change[:, :, d].copy()
    ends, last_reward = np.zeros_like(reward), np.zeros_like(reward)
    if laws.ends:
        flat = np.ascontiguousarray(following.reshape(-1, d))
        logits = np.clip(polynomial(flat) @ laws.ending, -30.0, 30.0)
        ends = (1.0 / (1.0 + np.exp(-logits))).reshape(reward.shape)
        last_reward = (laws.last_reward[0] + flat @ laws.last_reward[1:]).reshape(reward.shape)
    return following, reward, ends, last_reward


def _complete(laws: Laws, sample: Sample, anchors: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`_foresee` at the anchors; what was observed needs no imagination."""
    following, reward, ends, last_reward = _foresee(laws, sample.z[anchors])
    real = np.flatnonzero(sample.listed[anchors])
    at, action = anchors[real], sample.actions[anchors[real]]
    following[real, action], reward[real, action] = sample.following[at], sample.rewards[at]
    ends[real, action], last_reward[real, action] = sample.terminated[at], sample.rewards[at]
    return following, reward, ends, last_reward


def _novelty(relevant: FloatArray, visited: FloatArray, length: float) -> tuple[FloatArray, FloatArray]:
    prior = bumps(visited, visited, length)
    prior[np.diag_indices_from(prior)] += 1e-6
    seen = single_bumps(relevant, visited, length).astype(np.float64)
    counted = np.asarray(np.linalg.inv(seen.T @ seen + _NOVELTY_RIDGE * prior), dtype=np.float64)
    certainty: FloatArray = _NOVELTY_RIDGE * counted - np.linalg.inv(prior)
    return counted, certainty


def _value_before(before: tuple[Laws, Vision] | None, laws: Laws, z: FloatArray, hopes: Hopes) -> FloatArray:
    """V of the vision before at these states, in the units that it was made in."""
    if before is None:
        return np.zeros(len(z))
    old_laws, old = before
    units = np.where(laws.inverse > 0, laws.inverse, 1.0)
    state = np.where(laws.inverse > 0, z / units, 0.0) + laws.centre
    there = (state - old_laws.centre) * old_laws.inverse
    m = len(old.centres) // 2
    relevant, monomials = there * old_laws.relevance, polynomial(np.ascontiguousarray(there))
    heads = [
        bumps(relevant, old.centres[h * m : (h + 1) * m], float(old.lengths[h])) @ old.weights[h * m : (h + 1) * m]
        + monomials @ old.quadratic[h]
        for h in range(2)
    ]
    return np.asarray(np.clip(old.mean + 0.5 * (heads[0] + heads[1]), hopes.low, hopes.optimum))


def _regression(
    here: FloatArray, there: FloatArray, centres: FloatArray, length: float, style: Style
) -> tuple[FloatArray, NDArray[np.float32]]:
    """The matrix from anchor values to weights (m + P, N), and the features (N A, m + P) of the next states."""
    m = len(centres)
    K, ahead = bumps(here, centres, length), single_bumps(there, centres, length)
    if style.quadratic:
        K = np.concatenate([K, polynomial(here)], axis=1)
        ahead = np.concatenate([ahead, polynomial(there).astype(np.float32)], axis=1)
    system = K.T @ K
    system[:m, :m] += style.ridge * bumps(centres, centres, length)
    system[np.diag_indices_from(system)] += 1e-6
    system[range(m, len(system)), range(m, len(system))] += _QUADRATIC_RIDGE
    return np.asarray(np.linalg.solve(system, K.T), dtype=np.float64), ahead


def _sweep(
    heads: list[tuple[FloatArray, NDArray[np.float32]]],
    known: FloatArray,
    onward: FloatArray,
    start: FloatArray,
    hopes: Hopes,
) -> FloatArray:
    """V (N,) on the anchors: value iteration through the mean of both regressions, in single precision."""
    unit = max(hopes.optimum - hopes.low, 1e-300)
    singles = [(project.astype(np.float32), ahead) for project, ahead in heads]
    values = start
    for _ in range(_SWEEPS):
        mean = float(values.mean())
        scaled = ((values - mean) / unit).astype(np.float32)
        (p1, k1), (p2, k2) = singles
        both = 0.5 * (k1 @ (p1 @ scaled) + k2 @ (p2 @ scaled)).astype(np.float64)
        following = np.clip(mean + unit * both, hopes.low, hopes.optimum).reshape(known.shape)
        after = np.clip((known + onward * following).max(axis=1), hopes.low, hopes.optimum)
        change = float(np.abs(after - values).max())
        values = after
        if change < 1e-4 * unit:
            break
    return values


@compiled
def look_ahead(
    laws: Laws, vision: Vision, z: FloatArray, gamma: float, q: FloatArray, novelty: FloatArray, ask: bool
) -> None:
    """Add Q(z, ·) by one step through the laws to q (A,); with `ask` also write the novelty (A,) of where it leads."""
    d, A, P = z.shape[0], laws.by_action.shape[0], laws.by_action.shape[1]
    here = np.empty((1, d))
    here[0] = z
    monomials = polynomial(here)[0]
    base = np.zeros(d + 1)
    for f in range(laws.frequencies.shape[0]):
        angle = laws.phases[f]
        for k in range(d):
            angle += laws.frequencies[f, k] * z[k] * laws.relevance[k]
        wave = math.cos(angle) * WAVE_SIZE
        for k in range(d + 1):
            base[k] += wave * laws.by_wave[f, k]
    m, b = vision.centres.shape[0] // 2, vision.visited.shape[0]
    narrow = (-0.5 / vision.lengths[0] ** 2, -0.5 / vision.lengths[1] ** 2)
    near = np.empty(b)
    there = np.empty((1, d))
    for a in range(A):
        reward = base[d]
        for p in range(P):
            reward += monomials[p] * laws.by_action[a, p, d]
        for k in range(d):
            change = base[k]
            for p in range(P):
                change += monomials[p] * laws.by_action[a, p, k]
            there[0, k] = min(max(z[k] + change, -BEYOND), BEYOND)
        after = polynomial(there)[0]
        value = 0.0
        for h in range(2):
            for j in range(h * m, (h + 1) * m):
                square = 0.0
                for k in range(d):
                    difference = there[0, k] * laws.relevance[k] - vision.centres[j, k]
                    square += difference * difference
                value += vision.weights[j] * math.exp(narrow[h] * square)
            for p in range(P):
                value += vision.quadratic[h, p] * after[p]
        value = min(max(vision.mean + 0.5 * value, vision.low), vision.optimum)
        if ask:
            for j in range(b):
                square = 0.0
                for k in range(d):
                    difference = there[0, k] * laws.relevance[k] - vision.visited[j, k]
                    square += difference * difference
                near[j] = math.exp(-0.5 * square / vision.visited_length**2)
            variance = 1.0
            for i in range(b):
                total = 0.0
                for j in range(b):
                    total += vision.certainty[i, j] * near[j]
                variance += near[i] * total
            novelty[a] = min(max((variance - _KNOWN) / (1.0 - _KNOWN), 0.0), 1.0)
        ends, last_reward = 0.0, 0.0
        if laws.ends:
            logit = 0.0
            for p in range(P):
                logit += after[p] * laws.ending[p]
            ends = 1.0 / (1.0 + math.exp(-min(max(logit, -30.0), 30.0)))
            last_reward = laws.last_reward[0]
            for k in range(d):
                last_reward += laws.last_reward[1 + k] * there[0, k]
        q[a] += (1.0 - ends) * (reward + gamma * value) + ends * last_reward


def values_of(laws: Laws, vision: Vision, z: FloatArray, gamma: float) -> FloatArray:
    """Q(z, ·) (n, A) of many states z (n, d) at once, novelty left out: `look_ahead` in matrix products."""
    following, reward, ends, last_reward = _foresee(laws, z)
    there = np.ascontiguousarray(following.reshape(-1, z.shape[1]))
    relevant, monomials, m = there * laws.relevance, polynomial(there), len(vision.centres) // 2
    value = np.full(len(there), 2.0 * vision.mean)
    for h in range(2):
        own = slice(h * m, (h + 1) * m)
        kernel = single_bumps(relevant, vision.centres[own], float(vision.lengths[h])).astype(np.float64)
        value += kernel @ vision.weights[own] + monomials @ vision.quadratic[h]
    ahead = np.clip(0.5 * value, vision.low, vision.optimum).reshape(reward.shape)
    q: FloatArray = (1.0 - ends) * (reward + gamma * ahead) + ends * last_reward
    return q


def imagined_return(laws: Laws, values: Callable[[FloatArray], FloatArray], starts: FloatArray, horizon: int) -> float:
    """Mean undiscounted return of the policy greedy in `values` (of raw states) from `starts` (n, d), in the model."""
    z = np.clip((starts - laws.centre) * laws.inverse, -BEYOND, BEYOND)
    back = np.divide(1.0, laws.inverse, out=np.zeros_like(laws.inverse), where=laws.inverse > 0)
    rows, alive, total = np.arange(len(z)), np.ones(len(z)), 0.0
    for _ in range(horizon):
        best = values(z * back + laws.centre).argmax(axis=1)
        following, reward, ends, last_reward = _foresee(laws, z)
        p = ends[rows, best]
        total += float((alive * ((1.0 - p) * reward[rows, best] + p * last_reward[rows, best])).sum())
        alive = alive * (1.0 - p)
        z = following[rows, best]
        if alive.max() < 0.01:
            break
    return total / len(z)


@compiled
def count_visit(laws: Laws, vision: Vision, state: FloatArray) -> None:
    """A state was visited: what is near it becomes less novel at once, not only at the next refit. In place."""
    b, d = vision.visited.shape
    near, pull = np.empty(b), np.zeros(b)
    for j in range(b):
        square = 0.0
        for k in range(d):
            difference = (state[k] - laws.centre[k]) * laws.inverse[k] * laws.relevance[k] - vision.visited[j, k]
            square += difference * difference
        near[j] = math.exp(-0.5 * square / vision.visited_length**2)
    below = 1.0
    for i in range(b):
        for j in range(b):
            pull[i] += vision.counted[i, j] * near[j]
        below += near[i] * pull[i]
    for i in range(b):
        for j in range(b):
            change = pull[i] * pull[j] / below
            vision.counted[i, j] -= change
            vision.certainty[i, j] -= _NOVELTY_RIDGE * change


@compiled
def hopeful_values(
    laws: Laws, vision: Vision, older_laws: Laws, older: Vision, both: bool, state: FloatArray, gamma: float,
    n_actions: int,
) -> FloatArray:  # fmt: skip
    """Q (A,) of one raw state: mean over the last visions, drawn to the optimum as far as the next state is novel."""
    q, novelty = np.zeros(n_actions), np.zeros(n_actions)
    z = np.empty(len(state))
    for k in range(len(state)):
        z[k] = min(max((state[k] - laws.centre[k]) * laws.inverse[k], -3.0), 3.0)
    look_ahead(laws, vision, z, gamma, q, novelty, True)
    if both:
        for k in range(len(state)):
            z[k] = min(max((state[k] - older_laws.centre[k]) * older_laws.inverse[k], -3.0), 3.0)
        look_ahead(older_laws, older, z, gamma, q, np.zeros(1), False)
        q *= 0.5
    return (1.0 - novelty) * q + novelty * vision.optimum
