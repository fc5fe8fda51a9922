"""Imagined episodes of linear policies inside the learned dynamics: one compiled loop, nothing else."""

from __future__ import annotations

import math

import numpy as np

from polaug.completion.compiled import compiled
from polaug.exploration.base import FloatArray
from polaug.exploration.dynamics import BEYOND, WAVE_SIZE, Laws
from polaug.exploration.geometry import MAX_QUADRATIC


@compiled
def play_in_model(
    laws: Laws, weights: FloatArray, starts: FloatArray, noise: FloatArray, known: FloatArray, reach: float,
    usual: float, totals: FloatArray,
) -> int:  # fmt: skip
    """Add the undiscounted returns of policies (K, A, 1 + d) from `starts` (B, d) to `totals` (K,); gives the steps.

    Termination enters as a weight of survival, so that totals change smoothly with Θ. `noise` (B, T, d) is added to the
    states. Beyond a squared distance `reach` from all `known` (d, b) the model knows nothing.
    """
    K, A, d, P = weights.shape[0], weights.shape[1], starts.shape[1], laws.ending.shape[0]
    C, F, horizon, points = laws.by_action.shape[1], laws.frequencies.shape[0], noise.shape[1], known.shape[1]
    frequencies, by_wave = np.ascontiguousarray(laws.frequencies.T), np.ascontiguousarray(laws.by_wave.T)
    monomials, waves, distances = np.empty(P), np.empty(F), np.empty(points)
    z, there = np.empty(d), np.empty(d)
    steps = 0
    for k in range(K):
        for b in range(starts.shape[0]):
            for i in range(d):
                z[i] = starts[b, i]
            alive, total = 1.0, 0.0
            for t in range(horizon):
                steps += 1
                best, a = -np.inf, 0
                for j in range(A):
                    score = weights[k, j, 0]
                    for i in range(d):
                        score += weights[k, j, 1 + i] * z[i]
                    if score > best:
                        best, a = score, j
                monomials[0] = 1.0
                m = 1
                for i in range(d):
                    monomials[m] = z[i]
                    m += 1
                if d <= MAX_QUADRATIC:
                    for i in range(d):
                        for j in range(i, d):
                            monomials[m] = z[i] * z[j]
                            m += 1
                for f in range(F):
                    waves[f] = laws.phases[f]
                for i in range(d):
                    x = z[i] * laws.relevance[i]
                    for f in range(F):
                        waves[f] += frequencies[i, f] * x
                for f in range(F):  # a cosine that vectorises: range reduction and a polynomial, right to 1e-4
                    x = waves[f]
                    x -= 6.283185307179586 * math.floor(x * 0.15915494309189535 + 0.5)
                    x *= x
                    waves[f] = 1 + x * (-0.5 + x * (1 / 24 + x * (-1 / 720 + x * (
                        1 / 40320 + x * (-1 / 3628800 + x / 479001600)))))  # fmt: skip
                reward = 0.0
                for i in range(d + 1):
                    change = 0.0
                    for f in range(F):
                        change += waves[f] * by_wave[i, f]
                    change *= WAVE_SIZE
                    for m in range(C):
                        change += monomials[m] * laws.by_action[a, m, i]
                    for m in range(C, P):
                        change += monomials[m] * laws.shared[m - C, i]
                    if i < d:
                        there[i] = min(max(z[i] + change + noise[b, t, i], -BEYOND), BEYOND)
                    else:
                        reward = change
                for j in range(points):
                    distances[j] = 0.0
                for i in range(d):
                    x = there[i] * laws.relevance[i]
                    for j in range(points):
                        distances[j] += (known[i, j] - x) * (known[i, j] - x)
                nearest = np.inf
                for j in range(points):
                    nearest = min(nearest, distances[j])
                if nearest > reach:
                    total += alive * (reward + min(0.0, (horizon - t - 1) * usual))
                    break
                ends, last_reward = 0.0, 0.0
                if laws.ends:
                    logit = laws.ending[0]
                    m = 1
                    for i in range(d):
                        logit += laws.ending[m] * there[i]
                        m += 1
                    if d <= MAX_QUADRATIC:
                        for i in range(d):
                            for j in range(i, d):
                                logit += laws.ending[m] * there[i] * there[j]
                                m += 1
                    ends = 1.0 / (1.0 + math.exp(-min(max(logit, -30.0), 30.0)))
                    last_reward = laws.last_reward[0]
                    for i in range(d):
                        last_reward += laws.last_reward[1 + i] * there[i]
                total += alive * ((1.0 - ends) * reward + ends * last_reward)
                alive *= 1.0 - ends
                if alive < 0.01:
                    break
                for i in range(d):
                    z[i] = there[i]
            totals[k] += total
    return steps
