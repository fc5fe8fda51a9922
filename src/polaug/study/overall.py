"""All tasks at once, for studies of several: interquartile means and performance profiles of normalised scores.

A run's score is its level at the end of the budget, as in the headline; 0 is the worst evaluation of any run on that
task, 1 its threshold. Only methods that ran on every task with a threshold are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polaug.study.levels import final_level, shared_budget
from polaug.study.results import Run
from polaug.study.statistics import Estimate, FloatArray, estimate, performance_profile

TAUS: FloatArray = np.linspace(0.0, 1.2, 61)
"""Scores at which profiles are drawn."""


@dataclass(frozen=True)
class Overall:
    """What several methods did on all tasks that have a threshold."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Estimate]
    """By method the interquartile mean over all runs."""
    profiles: Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]
    """By method the share of runs that score above each of TAUS, averaged over tasks: value, low and high (taus,)."""


def overall(runs: Sequence[Run]) -> Overall | None:
    """None for fewer than two tasks or methods."""
    scores = normalised(runs)
    tasks = sorted({task for task, _ in scores})
    methods = sorted({method for _, method in scores})
    chosen = {name: [scores[task, name] for task in tasks] for name in methods
              if all((task, name) in scores for task in tasks)}  # fmt: skip
    if len(tasks) < 2 or len(chosen) < 2:
        return None
    return Overall(
        tuple(tasks),
        {name: estimate(mine) for name, mine in chosen.items()},
        {name: performance_profile(mine, TAUS) for name, mine in chosen.items()},
    )


def normalised(runs: Sequence[Run]) -> dict[tuple[str, str], FloatArray]:
    """Scores (seeds,) by task and method."""
    told = [
        run for run in runs if run.evaluations is not None and len(run.evaluations.means) and run.threshold is not None
    ]
    scores: dict[tuple[str, str], list[float]] = {}
    for task in {run.task for run in told}:
        mine = [run for run in told if run.task == task]
        low = min(float(run.evaluations.means.min()) for run in mine if run.evaluations is not None)
        high, budget = mine[0].threshold, shared_budget(mine)
        if high is None or not high > low:
            continue
        for run in mine:
            scores.setdefault((task, run.method), []).append((final_level(run, budget) - low) / (high - low))
    return {key: np.array(values) for key, values in scores.items()}
