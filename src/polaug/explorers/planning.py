"""Prioritised sweeping on counted transitions: compiled kernels behind the table, and nothing that learns.

The transitions out of a pair (s, a) are a linked list of edges (where to, ended there or not, how often, total reward),
so that memory follows what was seen. So are the pairs of a state that were tried: with hundreds of actions nearly none
were. States whose value may have changed wait in a queue (Moore & Atkeson, 1993; first in, first out).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polaug.compiled import compiled
from polaug.snapshot import saved

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NEVER = -1e300
"""The value of an untried pair when exploiting: below everything."""

_WALKED = 8  # pairs that an update may walk at the cost of one; more count as several updates


@saved()
class Tables(NamedTuple):
    """What was counted. A is the number of actions, S the capacity for states, E for edges."""

    first: IntArray  # (S, A) first edge of a pair, −1: never tried
    tries: IntArray  # (S, A)
    target: IntArray  # (S, A) predicted next state of a pair, −1: none
    origin: IntArray  # (S, A) the state whose predicted next state under a is this one, −1: none
    latest: IntArray  # (S,) first edge of the pair of a state that was first tried last, −1: none
    entering: IntArray  # (S,) newest edge that leads to a state, −1: none
    final: IntArray  # (S,) how often a state was terminal, 0 as soon as it once was not
    final_reward: FloatArray  # (S,) sum of the rewards on entering it then
    following: IntArray  # (E,) next edge of the same pair, −1: none
    to: IntArray  # (E,) the state it leads to
    ends: BoolArray  # (E,) whether the episode terminates there
    times: IntArray  # (E,)
    reward: FloatArray  # (E,) sum over those times
    source: IntArray  # (E,) state of its pair
    action: IntArray  # (E,) action of its pair
    earlier: IntArray  # (E,) of a pair's first edge: that of the pair of the same state tried before it, −1: none
    sibling: IntArray  # (E,) next older edge that leads to the same state, −1: none
    trust: FloatArray  # (A,) in [0, 1]: how far predicted next states of an action are believed


@compiled
def untried_value(tables: Tables, s: int, a: int, V: FloatArray, gamma: float, optimum: float) -> float:
    """The optimum (R-max), or, as far as predictions for `a` are trusted, the value of the predicted next state."""
    target = tables.target[s, a]
    if target < 0:
        return optimum
    final = tables.final[target]
    guess = tables.final_reward[target] / final if final > 0 else gamma * V[target]
    return float(min(tables.trust[a] * guess + (1.0 - tables.trust[a]) * optimum, optimum))


@compiled
def pair_value(
    tables: Tables, s: int, a: int, V: FloatArray, gamma: float, explores: bool, optimum: float, doubt: float
) -> float:
    """Q(s, a) from its counted transitions, drawn to the optimum as if `doubt` further visits had found it."""
    tries = tables.tries[s, a]
    if tries == 0:
        return untried_value(tables, s, a, V, gamma, optimum) if explores else NEVER
    total = 0.0
    edge = tables.first[s, a]
    while edge >= 0:
        total += tables.reward[edge]
        if not tables.ends[edge]:
            total += tables.times[edge] * gamma * V[tables.to[edge]]
        edge = tables.following[edge]
    return float((total + doubt * optimum) / (tries + doubt))


@compiled
def pair_values(
    tables: Tables, s: int, V: FloatArray, gamma: float, explores: bool, optimum: float, doubt: float
) -> FloatArray:
    """Q(s, ·) (A,)."""
    q = np.empty(tables.tries.shape[1])
    for a in range(q.shape[0]):
        q[a] = pair_value(tables, s, a, V, gamma, explores, optimum, doubt)
    return q


@compiled
def state_value(
    tables: Tables, s: int, V: FloatArray, gamma: float, explores: bool, optimum: float, doubt: float
) -> tuple[float, int]:
    """The best pair's value, and how many pairs that took; 0 for a state without a tried pair when exploiting."""
    best, walked = NEVER, 0
    edge = tables.latest[s]
    while edge >= 0:
        best = max(best, pair_value(tables, s, tables.action[edge], V, gamma, explores, optimum, doubt))
        walked += 1
        edge = tables.earlier[edge]
    if not explores:
        return best if walked > 0 else 0.0, walked
    for a in range(tables.tries.shape[1]):
        if best >= optimum:  # no untried pair is worth more
            break
        if tables.tries[s, a] == 0:
            best = max(best, untried_value(tables, s, a, V, gamma, optimum))
            walked += 1
    return best, walked


@compiled
def sweep(
    tables: Tables, V: FloatArray, gamma: float, explores: bool, optimum: float, doubt: float,
    queue: IntArray, waiting: BoolArray, start: int, length: int, budget: int, tolerance: float,
) -> tuple[int, int]:  # fmt: skip
    """Update V of the states in the ring `queue` (S,), at most `budget` of them; fewer where many pairs are walked.

    Where a value changes by more than `tolerance`, the states that lead there join the queue. Gives the queue's new
    start and length.
    """
    size = queue.shape[0]
    while budget > 0 and length > 0:
        s = queue[start]
        start, length, waiting[s] = (start + 1) % size, length - 1, False
        value, walked = state_value(tables, s, V, gamma, explores, optimum, doubt)
        budget -= max(1, walked // _WALKED)
        change, V[s] = abs(value - V[s]), value
        if change <= tolerance:
            continue
        edge = tables.entering[s]
        while edge >= 0:
            length = _join(queue, waiting, start, length, tables.source[edge])
            edge = tables.sibling[edge]
        if explores:
            for a in range(tables.origin.shape[1]):
                if tables.origin[s, a] >= 0:
                    length = _join(queue, waiting, start, length, tables.origin[s, a])
    return start, length


@compiled
def _join(queue: IntArray, waiting: BoolArray, start: int, length: int, s: int) -> int:
    if waiting[s]:
        return length
    waiting[s] = True
    queue[(start + length) % queue.shape[0]] = s
    return length + 1
