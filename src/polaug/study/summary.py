"""What a study found: one headline per task and method, compared at the budget that all runs of a task share.

The first number is the honest one: environment steps until the agent's own deterministic policy reaches the threshold,
runs that never do counted as censored. The paper's number, the training return of the first episodes, stands beside it.
Explorers without an agent have only the latter. Words and tables are in wording.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from polaug.errors import invalid
from polaug.study.levels import final_level, shared_budget
from polaug.study.overall import TAUS, overall
from polaug.study.results import FORMAT, Run
from polaug.study.statistics import (
    LEAST_RUNS,
    LEVEL,
    Estimate,
    difference,
    estimate,
    probability_of_improvement,
    verdict,
)
from polaug.study.survival import area_under_first, censored_median, kept, speed_up, steps_to_threshold, watched

FIRST_EPISODES = 100
"""The paper shows these."""
UNKNOWN = Estimate(np.nan, np.nan, np.nan)
NOT_WORSE_MARGIN = 0.05
"""Of the threshold: a final level at most this much lower counts as not worse."""


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
    """The share of the `judged` that stayed near it for 20,000 steps, as far as was seen; see `survival.kept`."""
    judged: int
    """Of those seeds the ones that were evaluated again after they had reached it."""
    watched: tuple[int, int]
    """The fewest and the most steps that one of the `judged` was seen for after it had reached it; (0, 0) if none."""
    first_100: float
    """Interquartile mean over seeds of the mean training return of the first `first_episodes`, whoever drove."""
    first_interval: tuple[float, float]
    first_episodes: int
    """100, or fewer if a run of the task has no more; 0, and nothing known of them, if one has no whole episode."""
    final: Estimate
    """Interquartile mean over seeds of the agent's level at the end of the budget."""
    explorer_share: float | None
    """Mean share of the training steps that the explorer took."""
    speed_ups: Mapping[str, Estimate] = field(default_factory=dict)
    """How many times as many steps a baseline needs; see `polaug.study.survival.speed_up`."""
    improvement: Mapping[str, Estimate] = field(default_factory=dict)
    """The probability that its final level beats that of a baseline's run."""
    gaps: Mapping[str, Estimate] = field(default_factory=dict)
    """Its final level minus a baseline's."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """`better`, `worse`, `not worse` or `unclear` than a baseline at the end; see `statistics.verdict`."""

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


def headline(runs: Iterable[Run], baselines: Sequence[str] | None = None) -> list[Headline]:
    """One per task and method, in that order. `baselines`: whom to compare with; None is every plain agent (no `+`)."""
    ordered = sorted(runs, key=lambda run: (run.task, run.method, run.seed))
    _check_distinct(ordered)
    check_finite(ordered)
    rows = []
    for _, mine in groupby(ordered, key=lambda run: run.task):
        rows += _task(list(mine), baselines)
    return rows


def plain(method: str) -> bool:
    """Whether a method is an agent without any help."""
    return "+" not in method


def own_baseline(row: Headline) -> str | None:
    """The baseline that a method is most naturally compared with: what stands before its `+`, if that was run."""
    base = row.method.split("+")[0]
    return base if base != row.method and base in row.gaps else None


def summary_json(runs: Iterable[Run], baselines: Sequence[str] | None = None) -> dict[str, Any]:
    """The headlines as plain data for a JSON file: unknown is null, beyond the budget the string "inf".

    `overall` is all tasks at once, null where there are too few tasks with a threshold or methods that ran on them all.
    """
    given, rows = list(runs), []
    for row in headline(given, baselines):
        content = asdict(row) | {"share_never": row.share_never, "keepers": row.keepers, "spread": row.spread}
        rows.append({name: _plain(value) for name, value in content.items()})
    return {"format": FORMAT, "level": LEVEL, "rows": rows, "overall": _overall(given)}


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
    """The runs of one method on one task, reduced to a number per seed."""

    runs: list[Run]
    times: list[int]
    reached: list[bool]
    keeps: list[bool]
    watched: list[int]
    finals: list[float]


def _task(runs: list[Run], baselines: Sequence[str] | None) -> list[Headline]:
    threshold, budget = _threshold(runs), shared_budget(runs)
    episodes = min(FIRST_EPISODES, *(len(run.returns) for run in runs))
    cells = {method: _cell(list(mine), threshold, budget) for method, mine in groupby(runs, key=lambda run: run.method)}
    names = [name for name in cells if plain(name)] if baselines is None else [n for n in baselines if n in cells]
    return [
        _headline(method, cells, [n for n in names if n != method], threshold, budget, episodes) for method in cells
    ]


def _headline(
    method: str, cells: Mapping[str, _Cell], names: list[str], threshold: float | None, budget: int, episodes: int
) -> Headline:
    cell = cells[method]
    firsts = [area_under_first(run.returns, episodes) for run in cell.runs] if episodes else []
    first = _with_range(estimate(firsts), firsts) if firsts else UNKNOWN
    times = [time if reached else np.inf for time, reached in zip(cell.times, cell.reached, strict=True)]
    median = censored_median(cell.times, np.array(cell.reached)) if times else UNKNOWN
    shares = [_explored(run) for run in cell.runs]

    def against(compare: Callable[[_Cell, _Cell], Estimate], has: Callable[[_Cell], list[Any]]) -> dict[str, Estimate]:
        return {name: compare(cell, cells[name]) for name in names if has(cell) and has(cells[name])}

    gaps = against(lambda a, b: difference(a.finals, b.finals), lambda each: each.finals)
    return Headline(
        cell.runs[0].task, method, cell.runs[0].kind, len(cell.runs), threshold, budget,
        reached=sum(cell.reached) if cell.times else None,
        steps_to_threshold=_with_range(median, times),
        kept=float(np.mean(cell.keeps)) if cell.keeps else None, judged=len(cell.keeps),
        watched=(min(cell.watched, default=0), max(cell.watched, default=0)),
        first_100=float(first.value), first_interval=(first.low, first.high), first_episodes=episodes,
        final=_with_range(estimate(cell.finals), cell.finals) if cell.finals else UNKNOWN,
        explorer_share=float(np.mean(shares)),
        speed_ups=against(
            lambda a, b: speed_up(a.times, np.array(a.reached), b.times, np.array(b.reached)), lambda each: each.times
        ),
        improvement=against(lambda a, b: probability_of_improvement(a.finals, b.finals), lambda each: each.finals),
        gaps=gaps,
        verdicts={
            name: verdict(gap, (len(cell.finals), len(cells[name].finals)), NOT_WORSE_MARGIN * abs(threshold or 0.0))
            for name, gap in gaps.items()
        },
    )  # fmt: skip


def _with_range(found: Estimate, values: Sequence[float]) -> Estimate:
    """Runs too few for an interval have a range."""
    return Estimate(found.value, min(values), max(values)) if 1 < len(values) < LEAST_RUNS else found


def _cell(runs: list[Run], threshold: float | None, budget: int) -> _Cell:
    cell = _Cell(runs, [], [], [], [], [])
    for run in runs:
        if run.evaluations is None:
            continue
        cell.finals.append(final_level(run, budget))
        inside = run.evaluations.steps <= budget
        steps, levels = run.evaluations.steps[inside], run.evaluations.means[inside]
        if threshold is None:
            continue
        time, reached = steps_to_threshold(steps, levels, threshold)
        cell.times.append(time if reached else budget)
        cell.reached.append(reached)
        keeps = kept(steps, levels, threshold)
        if keeps is not None:
            cell.keeps.append(keeps)
            cell.watched.append(watched(steps, levels, threshold))
    return cell


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


def check_finite(runs: Iterable[Run]) -> None:
    """Refuse NaN and infinity by the run's name: runs of today have none, those of before may."""
    for run in runs:
        levels = np.empty(0) if run.evaluations is None else run.evaluations.means
        for name, values in (("episodes.csv", run.returns), ("evaluations.csv", levels)):
            if not np.isfinite(values).all():
                bad = float(values[~np.isfinite(values)][0])
                remedy = "Mend the environment, or leave the run out and say so."
                raise invalid("runs", f"returns must be finite in {run.path / name}", bad, remedy)


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
