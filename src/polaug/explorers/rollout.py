"""Model rollouts: in the completed dynamics, of linear policies, of plans, and of actions that are held."""

from __future__ import annotations

import numpy as np

from polaug.compiled import compiled
from polaug.explorers.base import FloatArray, IntArray
from polaug.explorers.model_step import BEYOND, Model, look, look_at, move
from polaug.explorers.model_step import step as model_step
from polaug.explorers.plan import Plan, in_units, look_ahead

_FARTHEST = 3.0  # units of the range seen, in which states enter a policy
_OVER = 0.01  # chance to be alive below which an episode is over


@compiled
def linear_returns(
    model: Model, weights: FloatArray, starts: FloatArray, noise: FloatArray, known: FloatArray, reach: float,
    usual: float, totals: FloatArray,
) -> int:  # fmt: skip
    """Add the undiscounted returns of policies (K, A, 1 + d) from `starts` (B, d) to `totals` (K,); gives the steps.

    Termination enters as a weight of survival, so that totals change smoothly with the policy. `noise` (B, T, d) is
    added to the states. Beyond a squared distance `reach` from all `known` (d, b) the model has no data: the rest of
    the episode counts as the worse of ending and going on as `usual`.
    """
    frequencies, phases, by_fourier, others = model.frequencies, model.phases, model.by_fourier, model.shared
    by_action, low, high, ending, last = model.by_action, model.low, model.high, model.ending, model.last_reward
    relevance, amplitude, may_end = model.relevance, model.amplitude, model.ends
    K, A, d, P = weights.shape[0], weights.shape[1], starts.shape[1], ending.shape[0]
    horizon = noise.shape[1]
    waves, monomials, after, shared = np.empty(phases.shape[0]), np.empty(P), np.empty(P), np.empty(d + 1)
    z, there = np.empty(d), np.empty(d)
    steps, near = 0, 0
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
                look(frequencies, phases, amplitude, by_fourier, others, z, waves, monomials, shared)
                reward, ends, last_reward = move(
                    by_action, low, high, may_end, ending, last, z, a, monomials, shared, there, after
                )
                for i in range(d):
                    there[i] = min(max(there[i] + noise[b, t, i], -BEYOND), BEYOND)
                near = within_reach(known, reach, relevance, there, near)
                if near < 0:
                    near = 0
                    total += alive * (reward + min(0.0, (horizon - t - 1) * usual))
                    break
                total += alive * ((1.0 - ends) * reward + ends * last_reward)
                alive *= 1.0 - ends
                if alive < _OVER:
                    break
                for i in range(d):
                    z[i] = there[i]
            totals[k] += total
    return steps


@compiled
def linear_scores(
    theta: FloatArray, Y: FloatArray, centre: FloatArray, inverse: FloatArray, states: FloatArray
) -> FloatArray:
    """(1, z)ᵀ Θ y (n, A) of raw states (n, d), with Θ (1 + d, m) and the features Y (A, m) of the actions."""
    scores, mixed = np.zeros((states.shape[0], Y.shape[0])), np.empty(Y.shape[1])
    for i in range(states.shape[0]):
        for j in range(mixed.shape[0]):
            mixed[j] = theta[0, j]
        for k in range(states.shape[1]):
            z = min(max((states[i, k] - centre[k]) * inverse[k], -_FARTHEST), _FARTHEST)
            for j in range(mixed.shape[0]):
                mixed[j] += z * theta[1 + k, j]
        for a in range(Y.shape[0]):
            for j in range(mixed.shape[0]):
                scores[i, a] += mixed[j] * Y[a, j]
    return scores


@compiled
def within_reach(known: FloatArray, reach: float, relevance: FloatArray, z: FloatArray, first: int) -> int:
    """A column of `known` (d, b) within the squared distance `reach` of z (d,), looking at `first` first; −1: none."""
    for at in range(-1, known.shape[1]):
        j = at if at >= 0 else first
        square = 0.0
        for i in range(z.shape[0]):
            square += (known[i, j] - z[i] * relevance[i]) ** 2
        if square <= reach:
            return int(j)
    return -1


@compiled
def plan_return(model: Model, newest: Plan, older: Plan, states: FloatArray, gamma: float, horizon: int) -> float:
    """Mean undiscounted return of the policy greedy in the two plans, from raw `states` (n, d)."""
    n, d = states.shape
    P = model.ending.shape[0]
    monomials, after, shared, there = np.empty(P), np.empty(P), np.empty(d + 1), np.empty(d)
    nowhere, nothing = np.zeros((0, d)), np.zeros(0)
    total = 0.0
    for i in range(n):
        z, alive = in_units(model, states[i]), 1.0
        for _ in range(horizon):
            a = int(np.argmax(look_ahead(model, newest, older, z, gamma, nowhere, nothing, 0.0)))
            look_at(model, z, monomials, shared)
            reward, ends, last_reward = model_step(model, z, a, monomials, shared, there, after)
            total += alive * ((1.0 - ends) * reward + ends * last_reward)
            alive *= 1.0 - ends
            if alive < _OVER:
                break
            for k in range(d):
                z[k] = there[k]
    return float(total / n)


@compiled
def held(
    model: Model, states: FloatArray, shape: IntArray, gamma: float, most: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where each action leads from states z (n, d) if it is held until the state has left its cell of a grid of `shape`
    nodes, at most for `most` steps: (n, A, d). Also the discounted reward (n, A) on the way, and the weight (n, A) of
    the value there: γᵏ times the chance to be alive.
    """
    frequencies, phases, by_fourier, others = model.frequencies, model.phases, model.by_fourier, model.shared
    by_action, low, high, ending, last = model.by_action, model.low, model.high, model.ending, model.last_reward
    n, d = states.shape
    A, P = by_action.shape[0], ending.shape[0]
    following, paid, onward = np.empty((n, A, d)), np.zeros((n, A)), np.ones((n, A))
    waves, monomials, after, shared = np.empty(phases.shape[0]), np.empty(P), np.empty(P), np.empty(d + 1)
    there = np.empty(d)
    for i in range(n):
        for a in range(A):
            z = following[i, a]
            for k in range(d):
                z[k] = states[i, k]
            for _ in range(most):
                look(frequencies, phases, model.amplitude, by_fourier, others, z, waves, monomials, shared)
                reward, ends, last_reward = move(
                    by_action, low, high, model.ends, ending, last, z, a, monomials, shared, there, after
                )
                paid[i, a] += onward[i, a] * ((1.0 - ends) * reward + ends * last_reward)
                onward[i, a] *= gamma * (1.0 - ends)
                moved = 0.0
                for k in range(d):
                    z[k] = there[k]
                    moved = max(moved, abs(z[k] - states[i, k]) * 0.5 * (shape[k] - 1))
                if moved >= 1.0:
                    break
    return following, paid, onward
