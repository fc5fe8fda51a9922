"""Optimistic value iteration on counted transitions: the kernels behind `tabular`, and nothing that learns.

States are numbered in the order of their first visit. The transitions out of a pair (s, a) are a linked list of edges
(where to, ended there or not, how often, total reward), so that memory follows what was seen. So are the pairs of a
state that were tried, by their first edges: with hundreds of actions nearly none of them were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polaug.completion.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NEVER = -1e300
"""The value of a pair that an exploiting head has never tried: below everything."""


_WALKED = 8  # pairs that an update may walk for its price; with more it costs more


class Tables(NamedTuple):
    """What was counted. A is the number of actions, S of states visited (capacity), E of edges (capacity)."""

    first: IntArray  # (S, A) first edge of a pair, −1: never tried
    tries: IntArray  # (S, A)
    following: IntArray  # (E,) next edge of the same pair, −1: none
    to: IntArray  # (E,) number of the state it leads to
    ends: BoolArray  # (E,) whether the episode terminates there
    times: IntArray  # (E,)
    reward: FloatArray  # (E,) sum over those times
    action: IntArray  # (E,) of its pair
    latest: IntArray  # (S,) first edge of the pair of a state that was tried last, −1: none
    earlier: IntArray  # (E,) of the first edge of a pair, that of the pair of the same state tried before it, −1: none
    row: IntArray  # (S,) row of Q of each state
    number: IntArray  # (rows,) number of the state at each row, −1: not visited; empty if rows are too many
    final: IntArray  # (S,) how often a state was terminal, 0 as soon as it once was not
    final_reward: FloatArray  # (S,) sum of the rewards on entering it then
    shift: IntArray  # (A,) by how many rows each action usually moves
    trust: FloatArray  # (A,) in [0, 1]: how usually


@compiled
def untried_value(tables: Tables, s: int, a: int, V: FloatArray, gamma: float, optimum: float) -> float:
    """The optimum, or, as far as actions shift rows regularly, the value of where this one should lead."""
    row = tables.row[s] + tables.shift[a]
    if tables.trust[a] <= 0.0 or row < 0 or row >= tables.number.shape[0]:
        return optimum
    target = tables.number[row]
    if target < 0:
        return optimum
    final = tables.final[target]
    guess = tables.final_reward[target] / final if final > 0 else gamma * V[target]
    return float(tables.trust[a] * guess + (1.0 - tables.trust[a]) * optimum)


@compiled
def pair_value(
    tables: Tables, s: int, a: int, V: FloatArray, gamma: float, curious: bool, optimum: float, doubt: float
) -> float:
    """Q(s, a) from its counted transitions, drawn to the optimum as if `doubt` further visits had found it."""
    tries = tables.tries[s, a]
    if tries == 0:
        return untried_value(tables, s, a, V, gamma, optimum) if curious else NEVER
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
    tables: Tables, s: int, V: FloatArray, gamma: float, curious: bool, optimum: float, doubt: float
) -> FloatArray:
    """Q(s, ·) (A,)."""
    q = np.empty(tables.tries.shape[1])
    for a in range(q.shape[0]):
        q[a] = pair_value(tables, s, a, V, gamma, curious, optimum, doubt)
    return q


@compiled
def state_value(
    tables: Tables, s: int, V: FloatArray, gamma: float, curious: bool, optimum: float, doubt: float,
    trusted: IntArray,
) -> tuple[float, int]:  # fmt: skip
    """The best pair's value; of a state whose actions are all untried, the optimum (curious) or 0.

    Also how many pairs that took: those tried, and for a curious head the `trusted` actions. All others are alike.
    """
    best, others, walked = NEVER, tables.tries.shape[1] - trusted.shape[0], 0
    edge = tables.latest[s]
    while edge >= 0:
        a = tables.action[edge]
        best = max(best, pair_value(tables, s, a, V, gamma, curious, optimum, doubt))
        if tables.trust[a] <= 0.0:
            others -= 1
        walked += 1
        edge = tables.earlier[edge]
    if not curious:
        return best if walked > 0 else 0.0, walked
    if others > 0:
        best = max(best, optimum)
    for a in trusted:
        if tables.tries[s, a] == 0:
            best = max(best, untried_value(tables, s, a, V, gamma, optimum))
    return best, walked + trusted.shape[0]


@compiled
def sweep(
    tables: Tables, states: int, V: FloatArray, gamma: float, curious: bool, optimum: float, doubt: float,
    start: int, budget: int, tolerance: float,
) -> tuple[int, bool]:  # fmt: skip
    """At most `budget` Gauss–Seidel updates of V, from the latest state backwards, going on at `start`; fewer where
    many pairs make an update dear.

    Gives where to go on, and whether a whole round changed nothing by more than `tolerance`.
    """
    at, quiet, trusted = start, 0, np.flatnonzero(tables.trust > 0.0)
    while budget > 0:
        if at <= 0 or at > states:
            at = states
        at -= 1
        value, walked = state_value(tables, at, V, gamma, curious, optimum, doubt, trusted)
        budget -= max(1, walked // _WALKED)
        quiet = quiet + 1 if abs(value - V[at]) <= tolerance else 0
        V[at] = value
        if quiet >= states:
            return at, True
    return at, False
