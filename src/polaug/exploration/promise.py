"""What the model promises: mean undiscounted return of a greedy policy from given starts, in imagined episodes.

Whoever has values can be judged by `imagined_return`; the model's visions and the linear policies, which are judged
often, have compiled loops that do the same. That of the visions goes by `Sketch`es of them, laid out for vector
instructions, with cosines and exponentials that are right to six digits: enough to judge by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polaug.completion.compiled import compiled
from polaug.exploration.base import FloatArray, IntArray
from polaug.exploration.dynamics import BEYOND, WAVE_SIZE, Laws
from polaug.exploration.geometry import cosines, exponentials, polynomial
from polaug.exploration.look_ahead import Vision, foresee, foresee_each
from polaug.exploration.threads import one_thread

_OVER = 0.01  # chance to be alive below which an episode is over


@one_thread
def imagined_return(laws: Laws, values: Callable[[FloatArray], FloatArray], starts: FloatArray, horizon: int) -> float:
    """Of the policy greedy in `values` (of raw states), from `starts` (n, d)."""
    z, back = in_units(laws, starts)
    alive, total = np.ones(len(z)), 0.0
    for _ in range(horizon):
        best = values(z * back + laws.centre).argmax(axis=1)
        total += take_step(foresee(laws, z), best, alive, z)
        if alive.max() < _OVER:
            break
    return total / len(z)


def in_units(laws: Laws, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Starts (n, d) in the units of the laws, and the factor (d,) that leads back."""
    z = np.clip((starts - laws.centre) * laws.inverse, -BEYOND, BEYOND)
    return z, np.divide(1.0, laws.inverse, out=np.zeros_like(laws.inverse), where=laws.inverse > 0)


@compiled
def take_step(
    foreseen: tuple[FloatArray, FloatArray, FloatArray, FloatArray], best: IntArray, alive: FloatArray, z: FloatArray
) -> float:
    """Move `alive` (n,) and `z` (n, d) along the actions `best` (n,), in place; gives the reward of all together."""
    following, reward, ends, last_reward = foreseen
    total = 0.0
    for i in range(z.shape[0]):
        a = best[i]
        p = ends[i, a]
        total += alive[i] * ((1.0 - p) * reward[i, a] + p * last_reward[i, a])
        alive[i] *= 1.0 - p
        for k in range(z.shape[1]):
            z[i, k] = following[i, a, k]
    return total


class Sketch(NamedTuple):
    """Laws and a vision solved on them, as far as values need them. d dimensions, A actions, F waves, m centres."""

    laws: Laws
    frequencies: FloatArray  # (d, F)
    by_wave: FloatArray  # (d + 1, F)
    centres: FloatArray  # (d, 2 m)
    slopes: FloatArray  # (2 m,) of the exponents in squared distances
    weights: FloatArray  # (2 m,)
    quadratic: FloatArray  # (P,) of both heads together
    mean: float
    low: float
    optimum: float


def sketched(laws: Laws, vision: Vision) -> Sketch:
    """The sketch of a vision."""
    m = len(vision.centres) // 2
    return Sketch(
        laws, np.ascontiguousarray(laws.frequencies.T), np.ascontiguousarray(WAVE_SIZE * laws.by_wave.T),
        np.ascontiguousarray(vision.centres.T), np.repeat(-0.5 / vision.lengths**2, m), vision.weights,
        vision.quadratic.sum(axis=0), float(vision.mean), float(vision.low), float(vision.optimum),
    )  # fmt: skip


@compiled
def glance(sketch: Sketch, z: FloatArray, gamma: float, q: FloatArray) -> None:
    """Add Q(z, ·) by one step through the laws to q (A,), as `look_ahead` does, faster and to six digits."""
    laws = sketch.laws
    d, A, C = z.shape[0], q.shape[0], laws.by_action.shape[1]
    here, there = np.empty((1, d)), np.empty((1, d))
    here[0] = z
    monomials, waves = polynomial(here)[0], laws.phases.copy()
    for k in range(d):
        waves += sketch.frequencies[k] * (z[k] * laws.relevance[k])
    cosines(waves)
    for a in range(A):
        reward = 0.0
        for k in range(d + 1):
            change = 0.0
            for f in range(waves.shape[0]):
                change += waves[f] * sketch.by_wave[k, f]
            for p in range(C):
                change += monomials[p] * laws.by_action[a, p, k]
            for p in range(C, monomials.shape[0]):
                change += monomials[p] * laws.shared[p - C, k]
            if k < d:
                there[0, k] = min(max(z[k] + change, -BEYOND), BEYOND)
            else:
                reward = change
        after = polynomial(there)[0]
        near = np.zeros(sketch.weights.shape[0])
        for k in range(d):
            x = there[0, k] * laws.relevance[k]
            for j in range(near.shape[0]):
                near[j] += (sketch.centres[k, j] - x) * (sketch.centres[k, j] - x)
        near *= sketch.slopes
        exponentials(near)
        value = 0.0
        for j in range(near.shape[0]):
            value += sketch.weights[j] * near[j]
        for p in range(after.shape[0]):
            value += sketch.quadratic[p] * after[p]
        value = min(max(sketch.mean + 0.5 * value, sketch.low), sketch.optimum)
        ends, last_reward = 0.0, 0.0
        if laws.ends:
            logit = 0.0
            for p in range(after.shape[0]):
                logit += after[p] * laws.ending[p]
            ends = 1.0 / (1.0 + math.exp(-min(max(logit, -30.0), 30.0)))
            last_reward = laws.last_reward[0]
            for k in range(d):
                last_reward += laws.last_reward[1 + k] * there[0, k]
        q[a] += (1.0 - ends) * (reward + gamma * value) + ends * last_reward


@compiled
def promised_by_visions(
    laws: Laws, sketches: tuple[Sketch, ...], used: int, starts: FloatArray, back: FloatArray, gamma: float,
    horizon: int,
) -> float:  # fmt: skip
    """`imagined_return` of the policy greedy in the sum of the first `used` visions, from `starts` (n, d) in units of
    the laws. Always the same number of sketches: for each another this would be compiled again.
    """
    n, d = starts.shape
    z, alive, total = starts.copy(), np.ones(n), 0.0
    there, best = np.empty(d), np.zeros(n, dtype=np.int64)
    for _ in range(horizon):
        for i in range(n):
            q, left = np.zeros(laws.by_action.shape[0]), used
            for sketch in sketches:
                if left == 0:
                    break
                left -= 1
                own = sketch.laws
                for k in range(d):
                    state = z[i, k] * back[k] + laws.centre[k]
                    there[k] = min(max((state - own.centre[k]) * own.inverse[k], -3.0), 3.0)
                glance(sketch, there, gamma, q)
            best[i] = np.argmax(q)
        total += take_step(foresee_each(laws, z), best, alive, z)
        if alive.max() < _OVER:
            break
    return float(total / n)


@compiled
def promised_by_policy(
    laws: Laws, weights: FloatArray, centre: FloatArray, inverse: FloatArray, starts: FloatArray, back: FloatArray,
    horizon: int,
) -> float:  # fmt: skip
    """`imagined_return` of a linear policy (1 + d, A) in its own units, from `starts` (n, d) in those of the laws."""
    n, d = starts.shape
    z, alive, total, best = starts.copy(), np.ones(n), 0.0, np.zeros(n, dtype=np.int64)
    for _ in range(horizon):
        for i in range(n):
            q = weights[0].copy()
            for k in range(d):
                state = z[i, k] * back[k] + laws.centre[k]
                q += min(max((state - centre[k]) * inverse[k], -3.0), 3.0) * weights[1 + k]
            best[i] = np.argmax(q)
        total += take_step(foresee_each(laws, z), best, alive, z)
        if alive.max() < _OVER:
            break
    return float(total / n)
