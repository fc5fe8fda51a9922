"""What a study found, in words: one formatter for every kind of number, and a sentence for each comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable

from polaug.study.statistics import Estimate
from polaug.study.summary import UNKNOWN, Headline, reference

UNCLEAR = "too few runs to tell"
"""A speed-up whose interval reaches 1, or that has none, where one of the medians lies beyond the budget."""

# -- numbers ----------------------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Three or four digits, a real minus sign; a dash for what is unknown."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "−∞" if value < 0 else "∞"
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2
    text = f"{value:,.{digits}f}" if size < 1e7 else f"{value:.2e}"
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")


def counted(many: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def interval(found: Estimate, beyond: float = math.inf, spread: str = "interval") -> str:
    """`value [low, high]`, or `value (low to high)` if that is the range of the runs.

    What lies beyond the budget is `> budget`; an unknown interval is left out.
    """
    if math.isnan(found.value):
        return "–"
    value, low, high = (f"> {number(beyond)}" if each == math.inf else number(each) for each in found)
    if math.isnan(found.low) or found.low == math.inf:
        return value
    low, high = (each.replace("> ", ">") for each in (low, high))
    return f"{value} ({low} to {high})" if spread == "range" else f"{value} [{low}, {high}]"


def ratio(found: Estimate) -> str:
    """A speed-up; `≥` where the baseline's median run never got there, `≤` where the method's did not."""
    if math.isnan(found.value):
        return "–"
    if found.value in (0.0, math.inf) and not (found.low > 1.0 or found.high < 1.0):
        return UNCLEAR  # no interval, or "at least 1", which is no information
    if found.value == math.inf:
        return f"≥ {number(found.low)}×"
    if found.value == 0.0:
        return f"≤ {number(found.high)}×"
    if math.isnan(found.low):
        return f"{number(found.value)}×"
    return f"{number(found.value)}× [{number(found.low)}, {number(found.high)}]"


def keeping(row: Headline) -> str:
    """How many of the runs that reached the threshold kept it, as `2 of 3`; a dash if none ran longer."""
    return f"{row.keepers} of {row.judged}" if row.judged else "–"


# -- sentences --------------------------------------------------------------------------------------------------------


def comparisons(rows: Iterable[Headline]) -> list[str]:
    """A sentence for each augmented method: it against the strongest plain agent of its task."""
    known = {(row.task, row.method): row for row in rows}
    told = []
    for row in known.values():
        base = known.get((row.task, reference(row) or ""))
        if base is None:
            continue
        parts = [] if row.reached is None else [_record(row), f"{base.method} {_record(base)}"]
        gain = ratio(row.speed_ups.get(base.method, UNKNOWN))
        parts += [] if gain in ("–", UNCLEAR) else [f"speed-up {gain}"]
        parts.append(f"final return {number(row.final.value)} against {number(base.final.value)}")
        told.append(f"{row.task}, {row.method}: {'; '.join(parts)}.")
    return told


def _record(row: Headline) -> str:
    """How often the task was solved, when, and how often the level was kept."""
    text = f"solved in {row.reached} of {counted(row.seeds, 'run')}"
    if not row.reached:
        return f"{text} within {number(row.budget)} steps"
    median = row.steps_to_threshold.value
    text += f" (median {number(median)} steps)" if math.isfinite(median) else ""
    return f"{text}, kept by {keeping(row)}" if row.judged else text
