"""What a study found, in words: the short table of the command line, and a few lines for who has just run a demo."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from polaug.study.results import Run
from polaug.study.statistics import Estimate
from polaug.study.summary import Headline, headline, own_baseline

WIDTH = 80
"""Columns of a terminal that nobody has widened."""
_NAME = 16


def table(rows: Sequence[Headline]) -> str:
    """For each task a line on it and one per method; at most 80 columns."""
    return "\n\n".join("\n".join(_task(list(mine))) for _, mine in groupby(rows, key=lambda row: row.task))


def seen(runs: Iterable[Run]) -> list[str]:
    """At most three lines on the task whose difference is clearest: who solved it, how much sooner, how it ended."""
    rows = headline(runs)
    told = [row for row in rows if own_baseline(row) is not None and row.reached is not None]
    if not told:
        return [_alone(row) for row in rows[:3]]
    row = max(told, key=lambda each: (each.reached or 0) / each.seeds)
    name = own_baseline(row)
    assert name is not None
    base = next(each for each in rows if (each.task, each.method) == (row.task, name))
    lines = [f"{row.task}: {_solved(row)}; {_solved(base)}.",
             f"{row.method} needs {faster(row.speed_ups[name], name)}."]  # fmt: skip
    lines.append(f"In the end {row.method} is at {number(row.final.value)}, {name} at {number(base.final.value)} "
                 f"({row.verdicts[name]}, {_seeds(row)}).")  # fmt: skip
    return lines


def number(value: float) -> str:
    """Three or four digits, a real minus sign."""
    if not math.isfinite(value):
        return "?" if math.isnan(value) else "−∞" if value < 0 else "∞"
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2
    text = f"{value:,.{digits}f}" if size < 1e7 else f"{value:.2e}"
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def interval(found: Estimate, beyond: float = math.inf) -> str:
    """`value [low, high]`; what lies beyond the budget is `> budget`, an unknown interval is left out."""
    if math.isnan(found.value):
        return "–"
    value, low, high = (f"> {number(beyond)}" if each == math.inf else number(each) for each in found)
    if math.isnan(found.low) or found.low == math.inf:
        return value
    return f"{value} [{low}, {high}]".replace("[> ", "[>").replace(", > ", ", >")


def ratio(found: Estimate) -> str:
    """A speed-up; `≥` where the baseline never got there, `≤` where the method did not."""
    if math.isnan(found.value) or (found.value in (0.0, math.inf) and math.isnan(found.low)):
        return "?"
    if found.value == math.inf:
        return f"≥ {number(found.low)}×" if found.low > 0 else "?"
    if found.value == 0.0:
        return f"≤ {number(found.high)}×" if found.high < math.inf else "?"
    if math.isnan(found.low):
        return f"{number(found.value)}×"
    return f"{number(found.value)}× [{number(found.low)}, {number(found.high)}]"


def faster(found: Estimate, baseline: str) -> str:
    """A speed-up as part of a sentence."""
    text = ratio(found)
    if text == "?":
        return f"an unknown share of the steps of {baseline}: too few runs reached the threshold"
    if text.startswith("≥") and found.low <= 1.0:
        return f"fewer steps than {baseline}, which did not get there; how many fewer the budget does not show"
    if text.startswith("≥"):
        return f"at least {text[2:-1]} times fewer steps than {baseline}, which did not get there"
    if text.startswith("≤"):
        return f"more steps than {baseline}: it did not get there"
    if found.value < 1.0:
        low, high = (math.inf if limit == 0.0 else 1.0 / limit for limit in (found.high, found.low))
        found, words = Estimate(1.0 / found.value, low, high), "times as many steps as"
    else:
        words = "times fewer steps than"
    bounds = "" if math.isnan(found.low) else f" [{number(found.low)}, {number(found.high)}]"
    return f"{number(found.value)} {words} {baseline}{bounds}"


def _task(mine: list[Headline]) -> list[str]:
    first = mine[0]
    goal = "no threshold" if first.threshold is None else f"threshold {number(first.threshold)}"
    counts = sorted({row.seeds for row in mine})
    seeds = "1 seed" if counts == [1] else f"{' to '.join(map(str, {counts[0]: 0, counts[-1]: 0}))} seeds"
    title = f"{first.task}: {goal}, {seeds}, {number(first.budget)} steps"
    if all(math.isnan(row.final.value) for row in mine):
        heads = f"{'method':{_NAME}} mean return of the first {first.first_episodes} episodes"
        return [_cut(title), heads, *(_cut(f"{_name(row)} {interval(_first(row))}") for row in mine)]
    heads = f"{'method':{_NAME}} {'steps to threshold':21} {'never':>5}  {'final return':21} speed-up"
    return [_cut(title), heads, *(_cut(_row(row)) for row in mine)]


def _row(row: Headline) -> str:
    never = "–" if row.reached is None else f"{row.seeds - row.reached}/{row.seeds}"
    base = own_baseline(row)
    gain = "" if base is None or base not in row.speed_ups else ratio(row.speed_ups[base]).split(" [")[0]
    steps = interval(row.steps_to_threshold, row.budget)
    return f"{_name(row)} {steps:21} {never:>5}  {interval(row.final):21} {gain}".rstrip()


def _solved(row: Headline) -> str:
    steps = row.steps_to_threshold
    if not row.reached:
        return f"{row.method} did not solve it in {number(row.budget)} steps"
    how_many = f"on {row.reached} of {_seeds(row)}"
    when = f", after {number(steps.value)} steps" if math.isfinite(steps.value) else ""
    return f"{row.method} solved it {how_many}{when}"


def _alone(row: Headline) -> str:
    level = f"{number(row.first_100)} over the first {row.first_episodes} training episodes"
    return f"{row.task}: {row.method} has a mean return of {level} ({_seeds(row)})."


def _first(row: Headline) -> Estimate:
    return Estimate(row.first_100, *row.first_interval)


def _seeds(row: Headline) -> str:
    return "1 seed" if row.seeds == 1 else f"{row.seeds} seeds"


def _name(row: Headline) -> str:
    name = row.method if len(row.method) <= _NAME else row.method[: _NAME - 1] + "…"
    return f"{name:{_NAME}}"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
