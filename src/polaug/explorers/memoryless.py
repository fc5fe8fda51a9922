"""The best path that chooses by the observation alone: what an agent without memory can do.

Branch and bound over paths that take the same action wherever the observation is the same (Littman, 1994, "Memoryless
policies"), best first. The value without that restriction is the bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polaug.explorers.table import Outcome, Table
from polaug.snapshot import saved

_MOST = 1000  # partial paths that are extended
_SWEEPS = 1000  # of the values, at most


@saved()
class Choice(NamedTuple):
    """What is done in an observation, and the first state of the path that has it."""

    state: int
    action: int


def memoryless_path(table: Table, start: int, views: Sequence[int], gamma: float) -> dict[int, Choice]:
    """The choice for each observation on the best path from state `start` to an end; empty if none was found.

    `views` are the observations of the states. A transition of `table` that is a share of those of its pair counts as
    much less as that.
    """
    outcomes = [[each for each in table.outcomes(s) if each.to != s or each.ends] for s in range(len(views))]
    value = _values(outcomes, gamma)
    paths: list[dict[int, Choice]] = [{}]  # the choices of each partial path
    waiting = [(-value[start], 0, start, 0.0, 1.0, 0)] if np.isfinite(value[start]) else []
    met: set[tuple[int, int]] = set()
    pushed = 0
    for _ in range(_MOST):
        if not waiting:
            break
        _, _, s, gain, weight, path = heapq.heappop(waiting)
        if s < 0:
            return paths[path]
        fixed = paths[path].get(views[s])
        for action, to, ends, reward, share in outcomes[s]:
            ahead = 0.0 if ends else value[to]
            if (fixed is not None and action != fixed.action) or not np.isfinite(ahead):
                continue
            then = path
            if fixed is None:
                then = len(paths)
                paths.append({**paths[path], views[s]: Choice(s, action)})
            if (to, then) in met:
                continue  # a circle
            met.add((to, then))
            pushed += 1
            total = gain + weight * share * reward
            left = weight * share * gamma
            heapq.heappush(waiting, (-total - left * ahead, -pushed, -1 if ends else to, total, left, then))
    return {}


def _values(outcomes: list[list[Outcome]], gamma: float) -> list[float]:
    """The best return of each state on a path to an end; −∞ without one."""
    rows = [(s, each.to, each.ends, each.reward, each.share) for s, found in enumerate(outcomes) for each in found]
    value = np.full(len(outcomes), -np.inf)
    if rows:
        source, to, ends, reward, share = (np.array(column) for column in zip(*rows, strict=True))
        states, first = np.unique(source, return_index=True)
        for _ in range(_SWEEPS):
            best = np.maximum.reduceat(share * (reward + np.where(ends, 0.0, gamma * value[to])), first)
            if np.array_equal(best, value[states]):
                break
            value[states] = best
    result: list[float] = value.tolist()
    return result
