"""How good an agent is after so many steps, and how many steps all runs of a task have in common."""

from __future__ import annotations

from collections.abc import Sequence

from polaug.errors import invalid
from polaug.study.results import Run

FINAL_SHARE = 0.1
"""The final level is the mean of the evaluations in this last part of the budget: one evaluation alone is noisy."""


def final_level(run: Run, budget: int) -> float:
    """How good a run's agent is after `budget` steps: the mean of its evaluations in the last tenth of them."""
    assert run.evaluations is not None  # explorers alone have no level
    inside = run.evaluations.steps <= budget
    steps, levels = run.evaluations.steps[inside], run.evaluations.means[inside]
    if not len(steps):
        rule = f"must have an evaluation within the {budget} steps that all runs of {run.task} have"
        raise invalid("runs", rule, str(run.path), "Evaluate all of them at the same steps.")
    return float(levels[steps > min((1.0 - FINAL_SHARE) * budget, steps[-1] - 1)].mean())


def shared_budget(runs: Sequence[Run]) -> int:
    """Steps up to which every run of a task was evaluated, or, without agents, ran."""
    evaluated = [run for run in runs if run.evaluations is not None]
    for run in evaluated:
        assert run.evaluations is not None
        if not len(run.evaluations.steps):
            raise invalid("runs", "an agent must have been evaluated", str(run.path), "Run it for longer.")
    if evaluated:
        return min(int(run.evaluations.steps[-1]) for run in evaluated if run.evaluations is not None)
    return min((int(run.steps[-1]) for run in runs if len(run.steps)), default=0)
