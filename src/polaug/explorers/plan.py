"""A solved V as plain arrays, and Q by one step through the model to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polaug.compiled import compiled
from polaug.explorers.base import FloatArray, IntArray
from polaug.explorers.interpolation import interpolated
from polaug.explorers.model_step import BEYOND, Model, look_at, write_monomials
from polaug.explorers.model_step import step as model_step
from polaug.explorers.revisits import penalty_at
from polaug.features.kernels import exponentials
from polaug.snapshot import saved


@saved()
class Plan(NamedTuple):
    """V and the novelty of states, as plain arrays for compiled code; two regressions of m centres each."""

    centre: FloatArray  # (d,)
    inverse: FloatArray  # (d,) units of the plan: z = (s − centre) · inverse
    relevance: FloatArray  # (d,)
    centres: FloatArray  # (d, 2 m) in relevant units
    slopes: FloatArray  # (2 m,) of the exponents in squared distances
    weights: FloatArray  # (2 m,)
    quadratic: FloatArray  # (P,) weights of the monomials of z
    paid: float  # factor of rewards: 1, or 0 in the blind phase
    mean: float
    low: float
    optimum: float
    visited: FloatArray  # (d, b) centres of the novelty
    visited_slope: float
    certainty: FloatArray  # (b, b): variance = 1 + k certainty kᵀ
    known: float  # a variance below this counts as known,
    novel: float  # one above this as wholly novel
    shape: IntArray  # (d,) nodes of the grid along each dimension
    grid: FloatArray  # (n,) V at the nodes; n = 0: radial basis functions


@saved()
class Bounds(NamedTuple):
    """Bounds of V. `optimum` is the value of an unknown state."""

    low: float
    optimum: float


@compiled
def value_at(plan: Plan, z: FloatArray) -> float:
    """V at one state z (d,) in units of the plan."""
    if plan.grid.shape[0] > 0:
        return interpolated(plan.shape, plan.grid, z)
    near = np.zeros(plan.slopes.shape[0])
    for k in range(z.shape[0]):
        x = z[k] * plan.relevance[k]
        for j in range(near.shape[0]):
            near[j] += (plan.centres[k, j] - x) * (plan.centres[k, j] - x)
    near *= plan.slopes
    exponentials(near)
    value = 0.0
    for j in range(near.shape[0]):
        value += plan.weights[j] * near[j]
    if plan.quadratic[0] != 0.0:
        monomials = np.empty(plan.quadratic.shape[0])
        write_monomials(z, monomials)
        for p in range(monomials.shape[0]):
            value += plan.quadratic[p] * monomials[p]
    return min(max(plan.mean + 0.5 * value, plan.low), plan.optimum)


@compiled
def novelty_at(plan: Plan, z: FloatArray) -> float:
    """κ of one state z (d,) in units of the plan: 0 known, 1 novel."""
    near = np.zeros(plan.visited.shape[1])
    for k in range(z.shape[0]):
        x = z[k] * plan.relevance[k]
        for j in range(near.shape[0]):
            near[j] += (plan.visited[k, j] - x) * (plan.visited[k, j] - x)
    near *= plan.visited_slope
    exponentials(near)
    variance = 1.0
    for i in range(near.shape[0]):
        total = 0.0
        for j in range(near.shape[0]):
            total += plan.certainty[i, j] * near[j]
        variance += near[i] * total
    return min(max((variance - plan.known) / (plan.novel - plan.known), 0.0), 1.0)


@compiled
def into_units(plan: Plan, model: Model, z: FloatArray, out: FloatArray) -> None:
    """A state in units of the model, in those of the plan."""
    for k in range(z.shape[0]):
        state = model.centre[k]
        if model.inverse[k] > 0.0:
            state += z[k] / model.inverse[k]
        out[k] = min(max((state - plan.centre[k]) * plan.inverse[k], -BEYOND), BEYOND)


@compiled
def look_ahead(
    model: Model, newest: Plan, older: Plan, z: FloatArray, gamma: float, places: FloatArray, depths: FloatArray,
    length: float,
) -> FloatArray:  # fmt: skip
    """Q(z, ·) (A,) by one step through the model to the mean V of two plans.

    With a `length` above 0 it is optimistic: less the revisit penalty, and drawn to the optimum as far as the next
    state is novel.
    """
    d, A, P = z.shape[0], model.by_action.shape[0], model.ending.shape[0]
    q, monomials, after = np.empty(A), np.empty(P), np.empty(P)
    shared, there, place = np.empty(d + 1), np.empty(d), np.empty(d)
    look_at(model, z, monomials, shared)
    for a in range(A):
        reward, ends, last_reward = model_step(model, z, a, monomials, shared, there, after)
        into_units(older, model, there, place)
        value = value_at(older, place)
        into_units(newest, model, there, place)
        value = 0.5 * (value + value_at(newest, place))
        q[a] = (1.0 - ends) * (newest.paid * reward + gamma * value) + ends * newest.paid * last_reward
        if length > 0.0:
            novelty = novelty_at(newest, place)
            for k in range(d):
                place[k] *= newest.relevance[k]
            q[a] -= gamma * penalty_at(places, depths, length, place)
            q[a] = (1.0 - novelty) * q[a] + novelty * newest.optimum
    return q


@compiled
def q_at(model: Model, newest: Plan, older: Plan, states: FloatArray, gamma: float) -> FloatArray:
    """Q (n, A) of raw states (n, d), without optimism."""
    n, A = states.shape[0], model.by_action.shape[0]
    q = np.empty((n, A))
    nowhere, nothing = np.zeros((0, states.shape[1])), np.zeros(0)
    for i in range(n):
        row = look_ahead(model, newest, older, in_units(model, states[i]), gamma, nowhere, nothing, 0.0)
        for a in range(A):
            q[i, a] = row[a]
    return q


@compiled
def optimistic_q(
    model: Model, newest: Plan, older: Plan, state: FloatArray, gamma: float, places: FloatArray, depths: FloatArray,
    length: float,
) -> FloatArray:  # fmt: skip
    """Q (A,) of a raw state (d,) to act on."""
    return look_ahead(model, newest, older, in_units(model, state), gamma, places, depths, length)


@compiled
def in_units(model: Model, state: FloatArray) -> FloatArray:
    """A raw state (d,) in units of the model."""
    z = np.empty(state.shape[0])
    for k in range(state.shape[0]):
        z[k] = min(max((state[k] - model.centre[k]) * model.inverse[k], -BEYOND), BEYOND)
    return z


@compiled
def values_at(plan: Plan, states: FloatArray) -> FloatArray:
    """V (n,) of raw states (n, d)."""
    values, z = np.empty(states.shape[0]), np.empty(states.shape[1])
    for i in range(states.shape[0]):
        for k in range(states.shape[1]):
            z[k] = min(max((states[i, k] - plan.centre[k]) * plan.inverse[k], -BEYOND), BEYOND)
        values[i] = value_at(plan, z)
    return values
