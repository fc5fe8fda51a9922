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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polaug.completion.compiled import compiled
from polaug.exploration.base import FloatArray, IntArray
from polaug.exploration.dynamics import Laws, Sample
from polaug.exploration.geometry import bumps, farthest_points, polynomial, single_bumps
from polaug.exploration.look_ahead import NOVELTY_RIDGE, Vision, foresee

_SHORTEST = 0.1  # length of a head
_NOVELTY_CENTRES, _NOVELTY_LENGTH, _NOVELTY_SHORTEST = 60, 2.0, 0.15
_KNOWN = 0.1  # a variance below this counts as known,
_LITTLE = 0.05  # but if none exceeds this, what is above a third of the highest is where to go on
_QUADRATIC_RIDGE = 1e-2
_SWEEPS = 150  # at most: half-solved values play badly, and sweeps are cheap beside their matrices


class Hopes(NamedTuple):
    """The range in which values are looked for: `optimum` is what an unknown state is worth."""

    low: float
    optimum: float


class Style(NamedTuple):
    """How V is fitted: centres per head, lengths of both in units of the covering radius, ridge, quadratics or not.

    One that `searches` does not take everything for known: small steps only lead to near neighbours of what was seen.
    """

    centres: int
    lengths: tuple[float, float]
    ridge: float
    quadratic: bool
    searches: bool


SEARCHING = Style(100, (2.0, 4.0), 0.02, True, False)
"""While nothing good was ever seen: smooth, and it extrapolates, which finds goals."""

LOST = SEARCHING._replace(searches=True)
"""While all rewards were alike as well: there is nothing to do but search."""

FOUND = Style(150, (2.0, 2.0), 0.01, False, False)
"""Afterwards: local, so that cliffs and switching lines stay where they are."""


def imagine(
    laws: Laws, sample: Sample, before: tuple[Laws, Vision] | None, hopes: Hopes, style: Style,
    gamma: float, n_actions: int, rng: np.random.Generator,
) -> Vision:  # fmt: skip
    """Solve V on anchors drawn from the sample, starting from the V of `before`."""
    relevant = sample.z * laws.relevance
    anchors, order, radius, candidates = _anchors(relevant, n_actions, rng)
    m = max(1, min(style.centres, len(order) // 2))
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
    variance = 1.0 + np.einsum("ij,ij->i", kernel @ certainty, kernel)
    least, full = thresholds(variance, style)
    novelty = np.clip((variance - least) / (full - least), 0.0, 1.0).reshape(len(anchors), n_actions)

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
        visited, visited_length, certainty, counted, hopes.low, hopes.optimum, least, full,
    )  # fmt: skip


def thresholds(variance: FloatArray, style: Style) -> tuple[float, float]:
    """The variances below which a state counts as known, and above which as wholly novel."""
    most = float(variance.max())
    return (most / 3.0, most) if style.searches and 1e-6 < most < _LITTLE else (_KNOWN, 1.0)


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


def _complete(laws: Laws, sample: Sample, anchors: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`foresee` at the anchors; what was observed needs no imagination."""
    following, reward, ends, last_reward = foresee(laws, sample.z[anchors])
    real = np.flatnonzero(sample.listed[anchors])
    at, action = anchors[real], sample.actions[anchors[real]]
    following[real, action], reward[real, action] = sample.following[at], sample.rewards[at]
    ends[real, action], last_reward[real, action] = sample.terminated[at], sample.rewards[at]
    return following, reward, ends, last_reward


def _novelty(relevant: FloatArray, visited: FloatArray, length: float) -> tuple[FloatArray, FloatArray]:
    prior = bumps(visited, visited, length)
    prior[np.diag_indices_from(prior)] += 1e-6
    seen = single_bumps(relevant, visited, length).astype(np.float64)
    counted = np.asarray(np.linalg.inv(seen.T @ seen + NOVELTY_RIDGE * prior), dtype=np.float64)
    certainty: FloatArray = NOVELTY_RIDGE * counted - np.linalg.inv(prior)
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
    project = np.concatenate([project.astype(np.float32) for project, _ in heads])
    ahead = np.concatenate([ahead for _, ahead in heads], axis=1)
    values = start.copy()
    for _ in range(_SWEEPS):
        mean = float(values.mean())
        both = ahead @ (project @ ((values - mean) / unit).astype(np.float32))
        if back_up(values, both, mean, unit, known, onward, hopes.low, hopes.optimum) < 1e-4 * unit:
            break
    return values


@compiled
def back_up(
    values: FloatArray, both: NDArray[np.float32], mean: float, unit: float, known: FloatArray, onward: FloatArray,
    low: float, optimum: float,
) -> float:  # fmt: skip
    """New `values` (N,), in place, from the sum of both regressions (N A,) at the next states; gives the most that any
    has changed.
    """
    n, n_actions = known.shape
    largest = 0.0
    for i in range(n):
        best = -np.inf
        for a in range(n_actions):
            following = min(max(mean + unit * 0.5 * both[i * n_actions + a], low), optimum)
            best = max(best, known[i, a] + onward[i, a] * following)
        best = min(max(best, low), optimum)
        largest = max(largest, abs(best - values[i]))
        values[i] = best
    return largest
