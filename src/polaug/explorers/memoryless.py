"""The best path that chooses by the observation alone: what an agent without memory can do.

Branch and bound over paths that take the same action wherever the observation is the same (Littman, 1994, "Memoryless
policies"), best first. The value without that restriction is the bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from polaug.explorers.table import Table
from polaug.snapshot import saved

_MOST = 1000  # partial paths that are extended


@saved()
class Choice(NamedTuple):
    """What is done in an observation, and the first state of the path that has it."""

    state: int
    action: int


def memoryless_path(table: Table, start: int, views: Sequence[int], gamma: float) -> dict[int, Choice]:
    """The choice for each observation on the best path from `start` to an end; empty if none was found.

    Parameters
    ----------
    table : Table
        The transitions; those of a pair are taken to be its most frequent one.
    start : int
        The state where episodes begin.
    views : sequence of int
        The observation of each state.
    gamma : float
        Discount.
    """
    chosen: list[tuple[int, int, Choice]] = []  # of each partial path: its predecessor, observation and choice
    waiting = [(-table.value(start), 0, 0, start, -1, 0.0)]
    met: set[tuple[int, int]] = set()
    pushed = extended = 0
    while waiting and extended < _MOST:
        _, depth, _, s, last, gain = heapq.heappop(waiting)
        if s < 0:
            return {view: choice for _, view, choice in _back(chosen, last)}
        extended += 1
        fixed = next((choice.action for _, view, choice in _back(chosen, last) if view == views[s]), None)
        for action, to, ends, reward in table.usual(s):
            if fixed is not None and action != fixed:
                continue
            path = last
            if fixed is None:
                path = len(chosen)
                chosen.append((last, views[s], Choice(s, action)))
            if not ends and (to, path) in met:
                continue  # a circle
            met.add((to, path))
            pushed += 1
            total = gain + gamma**-depth * reward
            ahead = 0.0 if ends else gamma ** (1 - depth) * table.value(to)
            heapq.heappush(waiting, (-(total + ahead), depth - 1, pushed, -1 if ends else to, path, total))
    return {}


def _back(chosen: list[tuple[int, int, Choice]], last: int) -> list[tuple[int, int, Choice]]:
    path = []
    while last >= 0:
        path.append(chosen[last])
        last = chosen[last][0]
    return path
