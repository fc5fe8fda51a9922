"""From V to Q: one step ahead through the laws, for acting and for teaching.

`imagination` solves the `Vision` that is looked at here; what it leaves out is how.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from polaug.completion.compiled import compiled
from polaug.exploration.base import FloatArray
from polaug.exploration.dynamics import BEYOND, WAVE_SIZE, Laws, wave_features
from polaug.exploration.geometry import polynomial, polynomial_size, single_bumps
from polaug.exploration.trodden import depth_at
from polaug.state import State, fitting

NOVELTY_RIDGE = 0.1
FEW = 16  # states up to which a compiled loop is faster than matrix products


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
    known: float  # a variance below this counts as known,
    novel: float  # one above this as wholly novel


_VISION = {
    "centres": ("f", "centres", "d"), "weights": ("f", "centres"), "lengths": ("f", 2), "quadratic": ("f", 2, "P"),
    "mean": ("f",), "visited": ("f", "b", "d"), "visited_length": ("f",), "certainty": ("f", "b", "b"),
    "counted": ("f", "b", "b"), "low": ("f",), "optimum": ("f",), "known": ("f",), "novel": ("f",),
}  # fmt: skip


def restored_vision(state: State, dimensions: int) -> Vision:
    """A vision from its arrays, once all of them fit these spaces and each other."""
    arrays = fitting("vision", state, _VISION, d=dimensions, P=polynomial_size(dimensions))
    fields: dict[str, Any] = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    return Vision(**fields)


def foresee(laws: Laws, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Next state (n, A, d), reward, termination probability and reward on it (n, A) of every action at z (n, d)."""
    if len(z) <= FEW:
        return foresee_each(laws, z)
    d = z.shape[1]
    crossed, others = np.split(polynomial(np.ascontiguousarray(z)), [laws.by_action.shape[1]], axis=1)
    change = np.tensordot(crossed, laws.by_action, (1, 1))  # (n, A, d + 1)
    change += (wave_features(z * laws.relevance, laws.frequencies, laws.phases) @ laws.by_wave)[:, None, :]
    if others.shape[1]:
        change += (others @ laws.shared)[:, None, :]
    following = np.clip(z[:, None, :] + change[:, :, :d], -BEYOND, BEYOND)
    reward = change[:, :, d].copy()
    ends, last_reward = np.zeros_like(reward), np.zeros_like(reward)
    if laws.ends:
        flat = np.ascontiguousarray(following.reshape(-1, d))
        logits = np.clip(polynomial(flat) @ laws.ending, -30.0, 30.0)
        ends = (1.0 / (1.0 + np.exp(-logits))).reshape(reward.shape)
        last_reward = (laws.last_reward[0] + flat @ laws.last_reward[1:]).reshape(reward.shape)
    return following, reward, ends, last_reward


@compiled
def foresee_each(laws: Laws, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`foresee` state by state: for a few, calls cost more than numbers."""
    n, d = z.shape
    A, C, P = laws.by_action.shape[0], laws.by_action.shape[1], laws.ending.shape[0]
    following, reward = np.empty((n, A, d)), np.empty((n, A))
    ends, last_reward = np.zeros((n, A)), np.zeros((n, A))
    monomials = polynomial(z)
    there = np.empty((1, d))
    for i in range(n):
        base = np.zeros(d + 1)
        for f in range(laws.frequencies.shape[0]):
            angle = laws.phases[f]
            for k in range(d):
                angle += laws.frequencies[f, k] * z[i, k] * laws.relevance[k]
            wave = math.cos(angle) * WAVE_SIZE
            for k in range(d + 1):
                base[k] += wave * laws.by_wave[f, k]
        for p in range(C, P):
            for k in range(d + 1):
                base[k] += monomials[i, p] * laws.shared[p - C, k]
        for a in range(A):
            reward[i, a] = base[d]
            for p in range(C):
                reward[i, a] += monomials[i, p] * laws.by_action[a, p, d]
            for k in range(d):
                change = base[k]
                for p in range(C):
                    change += monomials[i, p] * laws.by_action[a, p, k]
                there[0, k] = min(max(z[i, k] + change, -BEYOND), BEYOND)
                following[i, a, k] = there[0, k]
            if laws.ends:
                logit = 0.0
                after = polynomial(there)[0]
                for p in range(P):
                    logit += after[p] * laws.ending[p]
                ends[i, a] = 1.0 / (1.0 + math.exp(-min(max(logit, -30.0), 30.0)))
                last_reward[i, a] = laws.last_reward[0]
                for k in range(d):
                    last_reward[i, a] += laws.last_reward[1 + k] * there[0, k]
    return following, reward, ends, last_reward


@compiled
def look_ahead(
    laws: Laws, vision: Vision, z: FloatArray, gamma: float, q: FloatArray, novelty: FloatArray, leads: FloatArray,
    ask: bool,
) -> None:  # fmt: skip
    """Add Q(z, ·) by one step through the laws to q (A,); with `ask` also write where it `leads` (A, d), in relevant
    units, and the novelty (A,) of that.
    """
    d, A, P = z.shape[0], laws.by_action.shape[0], laws.ending.shape[0]
    here = np.empty((1, d))
    here[0] = z
    following, reward, ends, last_reward = foresee_each(laws, here)
    m, b = vision.centres.shape[0] // 2, vision.visited.shape[0]
    narrow = (-0.5 / vision.lengths[0] ** 2, -0.5 / vision.lengths[1] ** 2)
    near = np.empty(b)
    there = np.empty((1, d))
    for a in range(A):
        there[0] = following[0, a]
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
            for k in range(d):
                leads[a, k] = there[0, k] * laws.relevance[k]
            for j in range(b):
                square = 0.0
                for k in range(d):
                    difference = leads[a, k] - vision.visited[j, k]
                    square += difference * difference
                near[j] = math.exp(-0.5 * square / vision.visited_length**2)
            variance = 1.0
            for i in range(b):
                total = 0.0
                for j in range(b):
                    total += vision.certainty[i, j] * near[j]
                variance += near[i] * total
            novelty[a] = min(max((variance - vision.known) / (vision.novel - vision.known), 0.0), 1.0)
        q[a] += (1.0 - ends[0, a]) * (reward[0, a] + gamma * value) + ends[0, a] * last_reward[0, a]


@compiled
def look_ahead_each(laws: Laws, vision: Vision, states: FloatArray, gamma: float, q: FloatArray) -> None:
    """Add Q(s, ·) of raw states (n, d) to q (n, A), novelty left out: for a few of them."""
    z, nothing, nowhere = np.empty(states.shape[1]), np.zeros(1), np.zeros((1, 1))
    for i in range(states.shape[0]):
        for k in range(states.shape[1]):
            z[k] = min(max((states[i, k] - laws.centre[k]) * laws.inverse[k], -3.0), 3.0)
        look_ahead(laws, vision, z, gamma, q[i], nothing, nowhere, False)


def values_of(laws: Laws, vision: Vision, z: FloatArray, gamma: float) -> FloatArray:
    """Q(z, ·) (n, A) of many states z (n, d) at once, novelty left out: `look_ahead` in matrix products."""
    following, reward, ends, last_reward = foresee(laws, z)
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
            vision.certainty[i, j] -= NOVELTY_RIDGE * change


@compiled
def hopeful_values(
    laws: Laws, vision: Vision, older_laws: Laws, older: Vision, both: bool, state: FloatArray, gamma: float,
    n_actions: int, places: FloatArray, depths: FloatArray,
) -> FloatArray:  # fmt: skip
    """Q (A,) of one raw state: mean over the last visions, less the dents of `depths` (n,) at trodden `places` (n, d),
    drawn to the optimum as far as the next state is novel.
    """
    q, novelty, leads = np.zeros(n_actions), np.zeros(n_actions), np.zeros((n_actions, len(state)))
    z = np.empty(len(state))
    for k in range(len(state)):
        z[k] = min(max((state[k] - laws.centre[k]) * laws.inverse[k], -3.0), 3.0)
    look_ahead(laws, vision, z, gamma, q, novelty, leads, True)
    if both:
        for k in range(len(state)):
            z[k] = min(max((state[k] - older_laws.centre[k]) * older_laws.inverse[k], -3.0), 3.0)
        look_ahead(older_laws, older, z, gamma, q, np.zeros(1), np.zeros((1, 1)), False)
        q *= 0.5
    for a in range(n_actions):
        q[a] -= gamma * depth_at(places, depths, leads[a])
    return (1.0 - novelty) * q + novelty * vision.optimum
