"""What a study found: one headline per task and method, compared at the budget that all runs of a task share.

The main number: environment steps until the agent's own deterministic policy reaches the threshold,
runs that never do counted as censored. The paper's number, the training return of the first episodes, stands beside it.
Explorers without an agent have only the latter. Words and tables are in wording.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import polaug
from polaug.errors import invalid
from polaug.study.levels import Reached, final_level, reached, shared_budget
from polaug.study.results import FORMAT, Run
from polaug.study.statistics import (
    LEAST_RUNS,
    LEVEL,
    Estimate,
    FloatArray,
    censored_median,
    estimate,
    interquartile_mean,
    median_time,
    performance_profile,
    probability_of_improvement,
    speed_up,
)

FIRST_EPISODES = 100
"""The paper shows these."""
UNKNOWN = Estimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Headline:
    """One method on one task; `inf` is beyond the budget, `nan` unknown.

    What stands around a number is its 95% interval, or the range of fewer than LEAST_RUNS runs; `spread` says which.
    Comparisons of so few runs have nothing around them.
    """

    task: str
    method: str
    kind: str
    seeds: int
    threshold: float | None
    budget: int
    """Steps that all runs of the task have; what came later is left out."""
    reached: int | None
    """Seeds whose agent reached the threshold within the budget; None without an agent or a threshold."""
    steps_to_threshold: Estimate
    """Kaplan–Meier median."""
    kept: float | None
    """The share of the `judged` that stayed near it for 20,000 steps, as far as was seen; see `levels.Reached`."""
    judged: int
    """Of those seeds the ones that were evaluated again after they had reached it."""
    watched: tuple[int, int]
    """The fewest and the most steps that one of the `judged` was seen for after it had reached it; (0, 0) if none."""
    first_100: float
    """Interquartile mean over seeds of the mean return of the first `first_episodes`, of agent and explorer alike."""
    first_interval: tuple[float, float]
    first_episodes: int
    """100, or fewer if a run of the task has no more; 0, and nothing known of them, if one has no whole episode."""
    final: Estimate
    """Interquartile mean over seeds of the agent's level at the end of the budget."""
    explorer_share: float | None
    """Mean share of the training steps that the explorer took."""
    speed_ups: Mapping[str, Estimate] = field(default_factory=dict)
    """How many times as many steps a baseline needs; see `polaug.study.statistics.speed_up`."""
    improvement: Mapping[str, Estimate] = field(default_factory=dict)
    """The probability that its final level beats that of a baseline's run."""
    reference: str = ""
    """The strongest plain agent that was run on the task: speed-ups are quoted against it. Empty: there was none."""

    @property
    def spread(self) -> str:
        """What stands around the numbers: `interval`, `range`, or of one run `none`."""
        return "none" if self.seeds < 2 else "range" if self.seeds < LEAST_RUNS else "interval"

    @property
    def share_never(self) -> float | None:
        """The share of seeds that did not reach the threshold."""
        return None if self.reached is None else 1.0 - self.reached / self.seeds

    @property
    def keepers(self) -> int:
        """Seeds of the `judged` that kept the level."""
        return round((self.kept or 0.0) * self.judged)


def headline(runs: Iterable[Run]) -> list[Headline]:
    """One per task and method, in that order, each compared with every plain agent of the task."""
    ordered = sorted(runs, key=lambda run: (run.task, run.method, run.seed))
    _check_distinct(ordered)
    rows = []
    for _, mine in groupby(ordered, key=lambda run: run.task):
        rows += _task(list(mine))
    return rows


def plain(method: str) -> bool:
    """Whether a method is an agent without any help."""
    return "+" not in method


def reference(row: Headline) -> str | None:
    """The plain agent that an augmented method is quoted against: the task's strongest one, if there is any."""
    return row.reference or None if not plain(row.method) else None


def _strongest(method: str, cells: Mapping[str, _Cell], names: Iterable[str]) -> str:
    """Of these methods the one that solves the task first; then that solves it oftener; then that ends higher.

    Of several equal ones it is the plain agent of `method` itself.
    """

    def weakness(name: str) -> tuple[float, float, float]:
        times, reached = cells[name].times
        return (
            median_time(times, reached),
            -sum(reached) / len(cells[name].runs),
            -interquartile_mean(cells[name].finals),
        )

    own = sorted(names, key=lambda name: name != method.split("+")[0])
    return min((name for name in own if cells[name].found), key=weakness, default="")


def summary_json(runs: Iterable[Run]) -> dict[str, Any]:
    """The headlines as plain data for a JSON file: unknown is null, beyond the budget the string "inf".

    `overall` is all tasks at once, null where there are too few tasks with a threshold or methods that ran on them all.
    """
    given = list(runs)
    rows = plain_rows(headline(given))
    return {"format": FORMAT, "polaug": polaug.__version__, "level": LEVEL, "rows": rows, "overall": _overall(given)}


def plain_rows(rows: Iterable[Headline]) -> list[dict[str, Any]]:
    """Headlines as JSON has them."""
    derived = ("share_never", "keepers", "spread")
    return [_plain(asdict(row) | {name: getattr(row, name) for name in derived}) for row in rows]


def _overall(runs: list[Run]) -> dict[str, Any] | None:
    found = overall(runs)
    if found is None:
        return None
    methods = [
        {"method": name, "iqm": _plain(score), "profile": {part: _plain(values.tolist()) for part, values in
                                                           zip(Estimate._fields, found.profiles[name], strict=True)}}
        for name, score in found.scores.items()
    ]  # fmt: skip
    return {"tasks": list(found.tasks), "taus": TAUS.round(6).tolist(), "methods": methods}


@dataclass(frozen=True)
class _Cell:
    """The runs of one method on one task, and what those that trained an agent reached."""

    runs: list[Run]
    found: list[Reached]

    @property
    def finals(self) -> list[float]:
        return [each.final for each in self.found]

    @property
    def times(self) -> tuple[list[int], NDArray[np.bool_]]:
        """Steps to the threshold, and which of the runs got there."""
        return [each.steps for each in self.found], np.array([each.solved for each in self.found], dtype=bool)


def _task(runs: list[Run]) -> list[Headline]:
    threshold, budget = _threshold(runs), shared_budget(runs)
    episodes = min(FIRST_EPISODES, *(len(run.returns) for run in runs))
    cells = {}
    for method, each in groupby(runs, key=lambda run: run.method):
        mine = list(each)
        cells[method] = _Cell(mine, [reached(run, budget) for run in mine if run.evaluations is not None])
    return [_headline(method, cells, threshold, budget, episodes) for method in cells]


def _headline(method: str, cells: Mapping[str, _Cell], threshold: float | None, budget: int, episodes: int) -> Headline:
    cell = cells[method]
    firsts = [float(run.returns[:episodes].mean()) for run in cell.runs] if episodes else []
    first = _with_range(estimate(firsts), firsts) if firsts else UNKNOWN
    solvable = threshold is not None and bool(cell.found)
    kept = [each for each in cell.found if each.kept is not None]
    times = [each.steps if each.solved else np.inf for each in cell.found]
    names = [name for name in cells if plain(name)]
    others = {name: cells[name] for name in names if name != method and cell.found and cells[name].found}
    return Headline(
        cell.runs[0].task, method, cell.runs[0].kind, len(cell.runs), threshold, budget,
        reached=sum(each.solved for each in cell.found) if solvable else None,
        steps_to_threshold=_with_range(censored_median(*cell.times), times) if solvable else UNKNOWN,
        kept=float(np.mean([each.kept for each in kept])) if kept else None, judged=len(kept),
        watched=(min((each.watched for each in kept), default=0), max((each.watched for each in kept), default=0)),
        first_100=float(first.value), first_interval=(first.low, first.high), first_episodes=episodes,
        final=_with_range(estimate(cell.finals), cell.finals) if cell.found else UNKNOWN,
        explorer_share=float(np.mean([_explored(run) for run in cell.runs])),
        speed_ups={name: speed_up(*cell.times, *other.times) for name, other in others.items() if solvable},
        improvement={name: probability_of_improvement(cell.finals, other.finals) for name, other in others.items()},
        reference=_strongest(method, cells, names),
    )  # fmt: skip


def _with_range(found: Estimate, values: Sequence[float]) -> Estimate:
    """Runs too few for an interval have a range."""
    return Estimate(found.value, min(values), max(values)) if 1 < len(values) < LEAST_RUNS else found


def _explored(run: Run) -> float:
    lengths = run.episodes.lengths
    return float(lengths[[actor == "explorer" for actor in run.episodes.actors]].sum() / max(1, lengths.sum()))


def _threshold(runs: list[Run]) -> float | None:
    found = {run.threshold for run in runs}
    if len(found) > 1:
        raise invalid("runs", f"all runs of {runs[0].task} must have one threshold", sorted(map(str, found)),
                      "Summarise the folders one by one.")  # fmt: skip
    return found.pop()


def _check_distinct(ordered: list[Run]) -> None:
    for one, other in pairwise(ordered):
        if (one.task, one.method, one.seed) == (other.task, other.method, other.seed):
            rule = f"{one.task}, {one.method}, seed {one.seed} must be there once; it is in {one.path} too"
            raise invalid("runs", rule, str(other.path), "Summarise the folders one by one.")


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Estimate):
        return {name: _plain(number) for name, number in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


TAUS: FloatArray = np.linspace(0.0, 1.2, 61)
"""Scores at which profiles are drawn."""


@dataclass(frozen=True)
class Overall:
    """What several methods did on all tasks that have a threshold."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Estimate]
    """By method the interquartile mean over all runs."""
    profiles: Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]
    """By method the share of all runs that score above each of TAUS: value, low and high (taus,)."""


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
    scores: dict[tuple[str, str], list[float]] = {}
    for task in {run.task for run in runs}:
        mine = [run for run in runs if run.task == task and run.evaluations is not None and len(run.evaluations.means)]
        levels = [run.evaluations.means.min() for run in mine if run.evaluations is not None]
        high = mine[0].threshold if mine else None
        if high is None or not high > min(levels):
            continue
        low, budget = float(min(levels)), shared_budget(mine)
        for run in mine:
            scores.setdefault((task, run.method), []).append((final_level(run, budget) - low) / (high - low))
    return {key: np.array(values) for key, values in scores.items()}
