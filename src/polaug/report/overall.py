"""All tasks at once, for studies of several: interquartile means and performance profiles of normalised scores.

A run's score is its level at the end of the budget, as in the headline; 0 is the worst evaluation of any run on that
task, 1 its threshold. Only methods that ran on every task with a threshold are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.report.digits import short
from polaug.study.results import Run
from polaug.study.statistics import estimate, performance_profile
from polaug.study.summary import final_level, shared_budget


def overall(runs: Sequence[Run], order: Sequence[str]) -> dict[str, Any] | None:
    """Scores and profiles by method (its place in `order`); None for fewer than two tasks or methods."""
    scores = normalised(runs)
    tasks = sorted({task for task, _ in scores})
    methods = [name for name in order if all((task, name) in scores for task in tasks)]
    if len(tasks) < 2 or len(methods) < 2:
        return None
    taus = np.linspace(0.0, 1.2, 61)
    rows, curves = [], {}
    for name in methods:
        mine = [scores[task, name] for task in tasks]
        rows.append({"method": order.index(name), "value": short(estimate(mine), 4)})
        curves[str(order.index(name))] = short(np.stack(performance_profile(mine, taus)), 4)
    return {"tasks": tasks, "scores": rows, "profile": {"taus": short(taus), "curves": curves}}


def normalised(runs: Sequence[Run]) -> dict[tuple[str, str], NDArray[np.float64]]:
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
