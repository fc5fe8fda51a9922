"""The definition of the solved step, of whether the level was kept, and of the final level.

Cheap evaluations (a few episodes from fixed starts, often) only nominate a step. A task counts as solved at a step
when the mean of 100 episodes from fresh starts reaches the threshold there. From the first such step on these 100 are
repeated every CHECK_EVERY steps, and once more at the end of every run. The study, the report, the exports, the
progress line and the benchmarks use the functions of this file, and nothing else decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from polaug.errors import invalid
from polaug.study.results import Evaluations, Run

CONFIRM_EPISODES = 100
"""Episodes from fresh starts that confirm a nominated step; a study may set fewer, see config.json."""
EARLY_STEPS = 5_000
"""Steps in which evaluations are closer together: a task that is solved after 1,000 needs a scale finer than 1,000."""
EARLY_EVERY = 250
"""Steps between evaluations until then."""
CHECK_EVERY = 2_500
"""Steps between two checks by as many episodes after a run has been solved: eight checks in KEEP_STEPS."""
KEEP_STEPS = 20_000
"""Steps after the solved step over which the level must be kept."""
KEEP_TOLERANCE = 0.1
"""Kept means at most this share of the threshold below it, or of the distance from the first evaluation if it is 0."""
FINAL_SHARE = 0.1
"""Last part of a shared budget over which cheap evaluations are averaged where a run is longer than that budget."""


@dataclass(frozen=True)
class Reached:
    """What one run reached within a budget of steps."""

    steps: int
    """The solved step; of a run that was not solved the steps that were observed."""
    solved: bool
    kept: bool | None
    """Whether the checks over the next KEEP_STEPS are within KEEP_TOLERANCE on average; None: there was none."""
    watched: int
    """Steps after the solved step in which there were checks, at most KEEP_STEPS."""
    final: float
    """Mean return at the end."""


def reached(run: Run, budget: int | None = None) -> Reached:
    """What `run` reached within `budget` steps, by default all of its own."""
    checks, evaluations = _checks(run)
    budget = int(evaluations.steps[-1]) if budget is None else budget
    inside = checks.steps <= budget
    levels, first, final = checks.means[inside], float(evaluations.means[0]), final_level(run, budget)
    return judged(checks.steps[inside], levels, run.threshold, first=first, final=final, budget=budget)


def judged(
    steps: ArrayLike, levels: ArrayLike, threshold: float | None, *, first: float, final: float, budget: int
) -> Reached:
    """Solved step, kept and final level, from `levels`: the mean returns of 100 episodes after each of `steps`.

    `first` is the run's first evaluation: if the threshold is 0, the margin of *kept* is a tenth of the distance from
    it. `final` is the run's final level, `budget` the number of observed steps.
    """
    steps, levels = np.asarray(steps, dtype=np.int64), np.asarray(levels, dtype=np.float64)
    good = np.zeros(0, np.int64) if threshold is None else np.flatnonzero(levels >= threshold)
    if threshold is None or not len(good):
        return Reached(budget, False, None, 0, final)
    solved = int(steps[good[0]])
    later = (steps > solved) & (steps <= solved + KEEP_STEPS)
    if not later.any():
        return Reached(solved, True, None, 0, final)
    kept = float(levels[later].mean()) >= threshold - KEEP_TOLERANCE * abs(threshold or first)
    return Reached(solved, True, kept, int(steps[later][-1]) - solved, final)


def final_level(run: Run, budget: int) -> float:
    """Mean return of the 100 episodes at the end of the run.

    A run that goes on beyond `budget`, as far as its evaluations are apart or more, has no such episodes at the budget:
    there the mean of its cheap evaluations in the last tenth stands in.
    """
    checks, evaluations = _checks(run)
    if checks.steps[-1] < budget + max(1, int(run.config.get("every") or 0)):
        return float(checks.means[-1])
    inside = evaluations.steps <= budget
    steps, levels = evaluations.steps[inside], evaluations.means[inside]
    if not len(steps):
        rule = f"must have an evaluation within the {budget} steps that all runs of {run.task} have"
        raise invalid("runs", rule, str(run.path), "Evaluate all of them at the same steps.")
    return float(levels[steps > min((1.0 - FINAL_SHARE) * budget, steps[-1] - 1)].mean())


def shared_budget(runs: Sequence[Run]) -> int:
    """Steps up to which every run of a task was evaluated, or, without agents, ran."""
    evaluated = [_checks(run)[0].steps for run in runs if run.evaluations is not None]
    if evaluated:
        return min(int(steps[-1]) for steps in evaluated)
    return min((int(run.steps[-1]) for run in runs if len(run.steps)), default=0)


def next_check(step: int, threshold: float | None, cheap_mean: float, solved_at: int | None, last_check: int) -> bool:
    """Whether the 100 episodes are due at `step`: it is nominated, or the run is solved and CHECK_EVERY have passed."""
    if threshold is None:
        return False
    if solved_at is None:
        return cheap_mean >= threshold
    return step >= last_check + CHECK_EVERY


def _checks(run: Run) -> tuple[Evaluations, Evaluations]:
    """The evaluations of a run by 100 episodes, and the cheap ones."""
    checks, evaluations = run.confirmations, run.evaluations
    if checks is None or not len(checks.steps) or evaluations is None or not len(evaluations.steps):
        raise invalid("runs", "an agent must have been evaluated", str(run.path), "Train it again, or for longer.")
    return checks, evaluations
