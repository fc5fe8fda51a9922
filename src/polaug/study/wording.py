"""What a study found, in words: one formatter for every kind of number, and a sentence for each comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby

from polaug.study.levels import KEEP_TOLERANCE
from polaug.study.statistics import LEAST_RUNS, Estimate
from polaug.study.summary import Headline, reference

UNCLEAR = "too few runs to tell"
"""A speed-up whose interval reaches 1, or that has none, where one of the medians lies beyond the budget."""
LINES = 6
"""Most sentences of a summary."""
_SURE = {"better": "better", "worse": "worse", "not worse": "not worse", "unclear": "not clearly different"}

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


def tolerance(threshold: float | None, watched: tuple[int, int], kept: bool = True) -> str:
    """Whether the level was kept, and what that means; `watched`: the fewest and the most steps it was checked for."""
    steps = " to ".join(dict.fromkeys(map(number, watched)))
    within = f"{KEEP_TOLERANCE:.0%} of the {'threshold' if threshold else 'distance from the first evaluation'}"
    return f"{'kept: within' if kept else 'not kept: not within'} {within}, on average over the next {steps} steps"


# -- sentences --------------------------------------------------------------------------------------------------------


def seen(rows: Iterable[Headline], per_task: int | None = None) -> list[str]:
    """A sentence for each augmented method against the strongest plain agent, then a note on reliability.

    The first LINES of them, every task before any task's second; with `per_task` the first so many of each task.
    """
    told: list[tuple[int, Headline, Headline | None]] = []
    for _, each in groupby(rows, key=lambda row: row.task):
        mine = {row.method: row for row in each}
        helped = [row for row in mine.values() if reference(row) is not None] or list(mine.values())
        told += [(place, row, mine.get(reference(row) or "")) for place, row in enumerate(helped[:per_task])]
    chosen = told if per_task else sorted(told, key=lambda entry: entry[0])[:LINES]
    lines = [_sentence(*entry[1:]) for entry in told if entry in chosen]
    if len(told) > len(chosen):
        lines.append(f"And {len(told) - len(chosen)} more in the report.")
    return lines + _caveat([min(row.seeds, base.seeds) for _, row, base in chosen if base is not None])


def _sentence(row: Headline, base: Headline | None) -> str:
    if math.isnan(row.final.value):
        first = f"{number(row.first_100)} over the first {counted(row.first_episodes, 'training episode')}"
        return f"{row.task}, {row.method}: mean return {first} ({counted(row.seeds, 'seed')})."
    parts = [] if row.reached is None else [_record(row)]
    if base is None:
        parts.append(f"final return {number(row.final.value)} ({counted(row.seeds, 'seed')})")
    else:
        if row.reached is not None:
            gain = ratio(row.speed_ups[base.method])
            parts += [f"{base.method} {_record(base)}", *([] if gain in ("–", UNCLEAR) else [f"speed-up {gain}"])]
        verdict = f" ({_SURE[row.verdicts[base.method]]})" if min(row.seeds, base.seeds) >= LEAST_RUNS else ""
        parts.append(f"final return {number(row.final.value)} against {number(base.final.value)}{verdict}")
    return f"{row.task}, {row.method}: {'; '.join(parts)}."


def _record(row: Headline) -> str:
    """How often the task was solved, when, and how often the level was kept."""
    text = f"solved in {row.reached} of {counted(row.seeds, 'run')}"
    if not row.reached:
        return f"{text} within {number(row.budget)} steps"
    median = row.steps_to_threshold.value
    text += f" (median {number(median)} steps)" if math.isfinite(median) else ""
    return f"{text}, kept by {keeping(row)}" if row.judged else text


def _caveat(seeds: Sequence[int]) -> list[str]:
    """A note on the reliability of comparisons with this number of runs."""
    fewest = min(seeds, default=0)
    if fewest == 0:
        return []
    if fewest == 1:
        return ["One run per method shows no spread. Use at least --seeds 5 before you trust a difference."]
    if fewest < LEAST_RUNS:
        return [f"{fewest} runs are too few for intervals and comparisons. Use {LEAST_RUNS} or more."]
    return ["Brackets are 95% intervals over the runs. ≥ and ≤ are their ends."]
