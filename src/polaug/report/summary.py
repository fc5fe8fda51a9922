"""The numbers of the report, and the sentences that say what was seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from polaug.report.digits import shown
from polaug.study.results import Run
from polaug.study.wording import counted


@dataclass(frozen=True)
class Group:
    """The seeds of one method on one task."""

    task: str
    method: str
    runs: tuple[Run, ...]

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        """Returns (seeds, episodes), as far as all seeds go."""
        shared = min(len(run.returns) for run in self.runs)
        return np.stack([run.returns[:shared] for run in self.runs])

    @property
    def episodes(self) -> int:
        """Episodes that all seeds have."""
        return int(self.returns.shape[1])

    @property
    def quarter(self) -> int:
        """How many episodes "early" and "late" mean: a quarter of them."""
        return max(1, self.episodes // 4)

    @property
    def early(self) -> float:
        """Mean return of the first quarter."""
        return float(self.returns[:, : self.quarter].mean())

    @property
    def late(self) -> float:
        """Mean return of the last quarter."""
        return float(self.returns[:, -self.quarter :].mean())

    @property
    def steps(self) -> float:
        """Environment steps of a run, on average."""
        return float(np.mean([run.steps[-1] for run in self.runs]))

    @cached_property
    def first_successes(self) -> tuple[float, ...]:
        """First episode of each seed that counts as a success; infinity where there was none."""
        goal = self.number("success")
        if goal is None:
            return ()
        found = [np.flatnonzero(run.returns >= goal) for run in self.runs]
        return tuple(float(at[0]) + 1 if len(at) else math.inf for at in found)

    def number(self, key: str) -> float | None:
        """A number from the settings, such as the task's threshold; None if there is none."""
        value = self.runs[0].config.get(key)
        return float(value) if isinstance(value, (int, float)) else None


def groups(runs: Iterable[Run]) -> list[Group]:
    """Runs by task and method."""
    ordered = sorted((run for run in runs if len(run.returns)), key=lambda run: (run.task, run.method, run.seed))
    parts = groupby(ordered, key=lambda run: (run.task, run.method))
    return [Group(task, method, tuple(found)) for (task, method), found in parts]


def first_success(group: Group) -> str:
    """When the goal was first reached, over the seeds."""
    firsts = group.first_successes
    if not firsts:
        return "no threshold"
    reached = sum(math.isfinite(first) for first in firsts)
    if not reached:
        return "never"
    if reached < len(firsts):
        return f"{reached} of {len(firsts)} seeds"
    return f"episode {shown(float(np.median(firsts)))}"


def sentence(group: Group) -> str:
    """What was seen, in one line that begins with the method."""
    seeds = counted(len(group.runs), "seed")
    firsts = group.first_successes
    reached = sum(math.isfinite(first) for first in firsts)
    if not firsts:
        when = ""
    elif not reached:
        when = f"no success in {counted(group.episodes, 'episode')}, "
    elif reached < len(firsts):
        when = f"success on {reached} of {len(firsts)} seeds, "
    else:
        when = f"first success in {first_success(group)}, "
    many, first = group.episodes, group.episodes - group.quarter + 1
    last = f"episode {many}, the last" if group.quarter == 1 else f"episodes {first} to {many}, the last quarter"
    late = f"mean return {shown(group.late)} in {'1 episode' if many == 1 else last}"
    return f"{group.method}: {when}{late} ({seeds})"
