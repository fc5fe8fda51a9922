"""A step in the completed dynamics, compiled: what plans, searches and rollouts do in the model. `dynamics` fits it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polaug.compiled import compiled
from polaug.explorers.base import FloatArray
from polaug.features.kernels import cosines
from polaug.snapshot import saved

BEYOND = 1.2
"""How far, in units of the range seen, predicted states may leave it."""


@saved()
class Model(NamedTuple):
    """The dynamics as plain arrays for compiled code. d dimensions, A actions, P monomials, F Fourier features.

    The first C monomials have weights for each action, the others the same for all.
    """

    centre: FloatArray  # (d,)
    inverse: FloatArray  # (d,) z = (s − centre) · inverse
    relevance: FloatArray  # (d,) in [0, 1]
    frequencies: FloatArray  # (d, F), relevance included
    phases: FloatArray  # (F,)
    amplitude: float  # of the Fourier features
    by_action: FloatArray  # (A, d + 1, C) weights of the first monomials for z' − z and the reward
    shared: FloatArray  # (d + 1, P − C) weights of the others
    by_fourier: FloatArray  # (d + 1, F) weights of the Fourier features, the same for all actions
    ends: bool  # whether any episode ever terminated
    ending: FloatArray  # (P,) logistic weights of termination in z'
    last_reward: FloatArray  # (1 + d,) reward on termination, linear in z'
    error: FloatArray  # (d,) standard deviation of z' − z on transitions not yet learnt
    low: FloatArray  # (d,) least and
    high: FloatArray  # (d,) largest z' in the observation space


@compiled
def look(
    frequencies: FloatArray, phases: FloatArray, amplitude: float, by_fourier: FloatArray, others: FloatArray,
    z: FloatArray, waves: FloatArray, monomials: FloatArray, shared: FloatArray,
) -> None:  # fmt: skip
    """What all actions have in common at z (d,): `monomials` (P,) and the `shared` part (d + 1,) of the change.

    It takes a model's arrays one by one, and `waves` (F,) as scratch: in a loop, counting the references to the arrays
    of a tuple would take longer than the computation.
    """
    d, F, P = z.shape[0], phases.shape[0], monomials.shape[0]
    C = P - others.shape[1]
    write_monomials(z, monomials)
    for f in range(F):
        waves[f] = phases[f]
    for k in range(d):
        for f in range(F):
            waves[f] += frequencies[k, f] * z[k]
    cosines(waves)
    for k in range(d + 1):
        total = 0.0
        for f in range(F):
            total += waves[f] * by_fourier[k, f]
        total *= amplitude
        for c in range(C, P):
            total += monomials[c] * others[k, c - C]
        shared[k] = total


@compiled
def move(
    by_action: FloatArray, low: FloatArray, high: FloatArray, ends: bool, ending: FloatArray, last_rewards: FloatArray,
    z: FloatArray, action: int, monomials: FloatArray, shared: FloatArray, there: FloatArray, after: FloatArray,
) -> tuple[float, float, float]:  # fmt: skip
    """The model's step: writes where the action leads to `there` (d,); gives the reward, the probability that the
    episode terminates there, and the reward if it does. `look` comes before; `after` (P,) is scratch.
    """
    d, C = z.shape[0], by_action.shape[2]
    for k in range(d):
        change = shared[k]
        for c in range(C):
            change += monomials[c] * by_action[action, k, c]
        there[k] = min(max(z[k] + change, low[k]), high[k])
    reward = float(shared[d])
    for c in range(C):
        reward += monomials[c] * by_action[action, d, c]
    if not ends:
        return reward, 0.0, 0.0
    write_monomials(there, after)
    logit, last_reward = 0.0, float(last_rewards[0])
    for p in range(after.shape[0]):
        logit += after[p] * ending[p]
    for k in range(d):
        last_reward += last_rewards[1 + k] * there[k]
    return reward, 1.0 / (1.0 + math.exp(-min(max(logit, -30.0), 30.0))), last_reward


@compiled
def look_at(model: Model, z: FloatArray, monomials: FloatArray, shared: FloatArray) -> None:
    """`look` in a model."""
    look(
        model.frequencies, model.phases, model.amplitude, model.by_fourier, model.shared, z,
        np.empty(model.phases.shape[0]), monomials, shared,
    )  # fmt: skip


@compiled
def step(
    model: Model, z: FloatArray, action: int, monomials: FloatArray, shared: FloatArray, there: FloatArray,
    after: FloatArray,
) -> tuple[float, float, float]:  # fmt: skip
    """`move` in a model."""
    reward, chance, last_reward = move(
        model.by_action, model.low, model.high, model.ends, model.ending, model.last_reward, z, action, monomials,
        shared, there, after,
    )  # fmt: skip
    return reward, chance, last_reward


@compiled
def write_monomials(z: FloatArray, monomials: FloatArray) -> None:
    """`polynomial` of one state, in place."""
    d = z.shape[0]
    monomials[0] = 1.0
    at = 1
    for i in range(d):
        monomials[at] = z[i]
        at += 1
    if monomials.shape[0] > at:
        for i in range(d):
            for j in range(i, d):
                monomials[at] = z[i] * z[j]
                at += 1


@compiled
def predict(model: Model, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Next state (n, A, d), reward, probability of termination and reward on it (n, A) of all actions at z (n, d)."""
    frequencies, phases, by_fourier, others = model.frequencies, model.phases, model.by_fourier, model.shared
    by_action, low, high, ending, last = model.by_action, model.low, model.high, model.ending, model.last_reward
    n, d = z.shape
    A, P = by_action.shape[0], ending.shape[0]
    following, reward = np.empty((n, A, d)), np.empty((n, A))
    chances, last_reward = np.empty((n, A)), np.empty((n, A))
    waves, monomials, after, shared = np.empty(phases.shape[0]), np.empty(P), np.empty(P), np.empty(d + 1)
    for i in range(n):
        look(frequencies, phases, model.amplitude, by_fourier, others, z[i], waves, monomials, shared)
        for a in range(A):
            reward[i, a], chances[i, a], last_reward[i, a] = move(
                by_action, low, high, model.ends, ending, last, z[i], a, monomials, shared, following[i, a], after
            )
    return following, reward, chances, last_reward
