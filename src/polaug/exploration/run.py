"""An episode of the committee under way, or a spell of a very long one: who plays it, and how it goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import within

CALM = 30  # steps between two actions that are held for long
_COLUMNS = 13  # of a run in a state


@dataclass(slots=True)
class Run:
    """An episode, or a spell of one, under way."""

    member: str  # empty: nobody of ours was asked to play it
    total: float = 0.0
    low: float = 0.0  # lowest point of the total so far
    length: int = 0
    handed: bool = False  # whether another member has given it up
    settled: bool = False  # whether nobody better was found when it was lost
    followed: int = 0  # steps on which the member's choice was what was done
    fallen: int = 0  # length at which the model fell back on its proven visions, if it did
    held: int = 0  # an action held until a length, when nothing else helps
    held_until: int = -CALM
    before: int = 0  # steps of the episode's earlier spells,
    earned: float = 0.0  # and their return

    @property
    def own(self) -> bool:
        """Whether the member, and not somebody else, has driven."""
        return 2 * self.followed >= self.length and bool(self.member)


def runs_state(runs: Mapping[int, Run], members: Sequence[str]) -> NDArray[Any]:
    """The runs of all environments as rows, members by their number."""
    names = [*members, ""]
    rows = [[env, names.index(run.member), *dataclasses.astuple(run)[1:]] for env, run in runs.items()]
    return np.array(rows).reshape(-1, _COLUMNS)


def runs_from(rows: NDArray[Any], members: Sequence[str]) -> dict[int, Run]:
    """What `runs_state` gave."""
    if rows.ndim != 2 or rows.shape[1] != _COLUMNS:
        raise StateError(f"runs: must have {_COLUMNS} columns, got the shape {rows.shape}. The state is damaged.")
    names = [*members, ""]
    within("runs, member", rows[:, 1], 0, len(members))
    kinds = (float, float, int, bool, bool, int, int, int, int, int, float)  # of the fields after the member
    runs = {}
    for row in rows:
        values: list[Any] = [kind(number) for kind, number in zip(kinds, row[2:], strict=True)]
        runs[int(row[0])] = Run(names[int(row[1])], *values)
    return runs
