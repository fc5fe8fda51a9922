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
UNCLEAR = "no clear difference"
_NAME, _SHORTEST = 16, 8  # columns of a method's name
_NEAR = 1.1  # a ratio up to this is "about as many"
_OPEN = ", but not clearly so"


def table(rows: Sequence[Headline]) -> str:
    """For each task a line on it and one per method; at most 80 columns."""
    return "\n\n".join("\n".join(_task(list(mine))) for _, mine in groupby(rows, key=lambda row: row.task))


def seen(runs: Iterable[Run]) -> list[str]:
    """At most three lines on the clearest difference: who solved it and kept it, how much sooner, how it ended."""
    rows = headline(runs)
    told = [row for row in rows if own_baseline(row) is not None and row.reached is not None]
    if not told:
        return [_alone(row) for row in rows[:3]]
    row = max(told, key=_clarity)
    name = own_baseline(row)
    assert name is not None
    base = next(each for each in rows if (each.task, each.method) == (row.task, name))
    lines = [f"{row.task}: {_solved(row)}; {_solved(base)}."]
    if row.reached or base.reached:
        lines.append(f"{row.method} needs {faster(row.speed_ups[name], name)}.")
    verdict = row.verdicts[name]
    sure = f"not clear from {_seeds(row)}" if verdict == "unclear" else f"{verdict}, {_seeds(row)}"
    ends = (f"{each.method} is at {number(each.final.value)}" for each in (row, base))
    lines.append(f"In the end {', '.join(ends)} ({sure}).")
    return lines


def _clarity(row: Headline) -> tuple[float, ...]:
    """How clearly a method differs from its own plain agent, for better or worse: what comes first counts most."""
    name = own_baseline(row) or ""
    found = row.speed_ups[name]
    ends = [found.low, 1.0 / found.high if found.high else math.inf]  # the end of the interval that is nearer to 1
    apart = max(math.log(end) for end in (1.0, *ends) if end >= 1.0)  # nan compares false
    decided = row.verdicts[name] in ("better", "worse")
    return apart, float(decided), (row.reached or 0) / row.seeds, abs(row.gaps[name].value)


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
    """A speed-up; `≥` where the baseline's median run never got there, `≤` where the method's did not."""
    if math.isnan(found.value) or (found.value in (0.0, math.inf) and math.isnan(found.low)):
        return "?"
    if found.value in (0.0, math.inf) and found.low <= 1.0 <= found.high:
        return UNCLEAR  # "at least 1" says nothing
    if found.value == math.inf:
        return f"≥ {number(found.low)}×"
    if found.value == 0.0:
        return f"≤ {number(found.high)}×"
    if math.isnan(found.low):
        return f"{number(found.value)}×"
    return f"{number(found.value)}× [{number(found.low)}, {number(found.high)}]"


def faster(found: Estimate, baseline: str) -> str:
    """A speed-up as part of a sentence."""
    text, open_ = ratio(found), found.low <= 1.0 <= found.high
    if text == "?":
        return f"an unknown share of the steps of {baseline}: too few runs reached the threshold"
    if found.value == math.inf:
        many = "fewer" if open_ else f"at least {text[2:-1]} times fewer"
        return f"{many} steps than {baseline}, whose median run did not get there{_OPEN if open_ else ''}"
    if found.value == 0.0:
        return f"more steps than {baseline}: its median run did not get there{_OPEN if open_ else ''}"
    if 1.0 / _NEAR <= found.value <= _NEAR:
        bounds = "" if math.isnan(found.low) else f" [{number(found.low)}, {number(found.high)}]"
        return f"about as many steps as {baseline}{bounds and f' (ratio{bounds})'}"
    if found.value < 1.0:
        low, high = (math.inf if limit == 0.0 else 1.0 / limit for limit in (found.high, found.low))
        found, words = Estimate(1.0 / found.value, low, high), "times as many steps as"
    else:
        words = "times fewer steps than"
    bounds = "" if math.isnan(found.low) else f" [{number(found.low)}, {number(found.high)}]"
    return f"{number(found.value)} {words} {baseline}{bounds}{_OPEN if open_ else ''}"


def keeping(row: Headline) -> str:
    """How many of those that reached the threshold kept it, as `2 of 3`; a dash if nobody can tell."""
    return f"{row.keepers} of {row.judged}" if row.judged else "–"


def _task(mine: list[Headline]) -> list[str]:
    first = mine[0]
    goal = "no threshold" if first.threshold is None else f"threshold {number(first.threshold)}"
    counts = sorted({row.seeds for row in mine})
    seeds = "1 seed" if counts == [1] else f"{' to '.join(map(str, {counts[0]: 0, counts[-1]: 0}))} seeds"
    title = f"{first.task}: {goal}, {seeds}, {number(first.budget)} steps"
    if all(math.isnan(row.final.value) for row in mine):
        heads = f"{'method':{_NAME}} mean return of the first {first.first_episodes} episodes"
        levels = (f"{_fit(row.method, _NAME)} {interval(_first(row))}" for row in mine)
        return [_cut(title), heads, *map(_cut, levels)]
    cells = [("method", "steps to threshold", "never", "kept", "final return", "speed-up"), *map(_row, mine)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rest = sum(widths[1:]) + len(widths) - 1
    gap = "  " if rest + len(widths) - 1 + widths[0] <= WIDTH else " "  # names give way before numbers do
    widths[0] = max(_SHORTEST, min(widths[0], WIDTH - rest))
    lines = (gap.join(map(_fit, row, widths)).rstrip() for row in cells)
    return [_cut(title), *map(_cut, lines)]


def _row(row: Headline) -> tuple[str, ...]:
    never = "–" if row.reached is None else f"{row.seeds - row.reached}/{row.seeds}"
    base = own_baseline(row)
    gain = "" if base is None or base not in row.speed_ups else ratio(row.speed_ups[base]).split(" [")[0]
    steps, kept = interval(row.steps_to_threshold, row.budget), keeping(row).replace(" of ", "/")
    return row.method, steps, never, kept, interval(row.final), gain.replace(UNCLEAR, "unclear").replace("?", "–")


def _solved(row: Headline) -> str:
    steps = row.steps_to_threshold
    if not row.reached:
        return f"{row.method} did not solve it in {number(row.budget)} steps"
    how_many = "" if row.seeds == 1 else f" on {row.reached} of {_seeds(row)}"
    when = f" after {number(steps.value)} steps" if math.isfinite(steps.value) else ""
    return f"{row.method} solved it{how_many}{',' if how_many and when else ''}{when}{_then(row)}"


def _then(row: Headline) -> str:
    """What became of the level once it was reached."""
    if not row.judged:
        return ""
    if row.seeds == 1:
        return " and kept it" if row.keepers else " but lost it again"
    if row.keepers == row.judged:
        return ", and kept it"
    seen_after = "" if row.judged == row.reached else f" of the {row.judged} seen afterwards"
    return f", but {f'only {row.keepers}' if row.keepers else 'none'}{seen_after} kept it"


def _alone(row: Headline) -> str:
    """A method that is compared with none."""
    if math.isnan(row.final.value):
        level = f"{number(row.first_100)} over the first {row.first_episodes} training episodes"
        return f"{row.task}: {row.method} has a mean return of {level} ({_seeds(row)})."
    goal = "" if row.reached is None else f"{_solved(row)}; "
    end = f"in the end {'the agent' if goal else row.method} alone is at {number(row.final.value)}"
    return f"{row.task}: {goal}{end} ({_seeds(row)})."


def _first(row: Headline) -> Estimate:
    return Estimate(row.first_100, *row.first_interval)


def _seeds(row: Headline) -> str:
    return "1 seed" if row.seeds == 1 else f"{row.seeds} seeds"


def _fit(word: str, width: int) -> str:
    return f"{word:{width}}" if len(word) <= width else word[: width - 1] + "…"


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"
