"""What a study found, in words: the short table of the command line, and a few lines for who has just run a demo."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from polaug.study.results import Run
from polaug.study.statistics import LEAST_RUNS, Estimate
from polaug.study.summary import UNKNOWN, Headline, headline, own_baseline
from polaug.study.survival import KEEP_TOLERANCE

WIDTH = 80
"""Columns of a terminal that nobody has widened."""
UNCLEAR = "too few runs to tell"
"""A speed-up whose interval reaches 1, or that has none, where one of the medians lies beyond the budget."""
LINES = 6
"""Most sentences of a summary."""
_NAME, _SHORTEST = 16, 8  # columns of a method's name
_NEAR = 1.1  # a ratio up to this is "about as many"
_OPEN = ", but not clearly so"
_SHOWN_ALONE = 3  # methods of a task that are compared with none


def table(rows: Sequence[Headline], width: float = WIDTH) -> str:
    """For each task a line on it and one per method, in a narrow terminal several; then how to read them.

    At most `width` columns, which may be infinite.
    """
    tasks = ["\n".join(_task(list(mine), width)) for _, mine in groupby(rows, key=lambda row: row.task)]
    signs = {"interval": "[low, high]: 95% interval over the runs",
             "range": f"(low to high): range of the runs, fewer than {LEAST_RUNS}"}  # fmt: skip
    legend = "; ".join(words for spread, words in signs.items() if any(row.spread == spread for row in rows))
    return "\n\n".join([*tasks, *(["\n".join(_wrapped(legend, width))] if legend else [])])


_Told = tuple[int, Headline, Headline | None]  # its place in its task, a method, whom it is compared with


def seen(runs: Iterable[Run]) -> list[str]:
    """A sentence for each augmented method and its plain agent on each task, then how far to trust them.

    Every task comes before any task's second sentence; of what is too much the clearest differences are told.
    """
    told = _told(runs)
    best = sorted(told, key=lambda entry: (entry[0], [-part for part in _clarity(entry[1])]))[:LINES]
    chosen = [entry for entry in told if entry in best]
    lines = [_sentence(entry) for entry in chosen]
    more = [f"And {len(told) - len(chosen)} more in the report."] if len(told) > len(chosen) else []
    return [*lines, *more, *_caveat(chosen, lines)]


def seen_by_task(runs: Iterable[Run]) -> list[str]:
    """The clearest difference on each task, and how far to trust it."""
    told = [entry for entry in _told(runs) if entry[0] == 0]
    lines = [_sentence(entry) for entry in told]
    return [*lines, *_caveat(told, lines)]


def _told(runs: Iterable[Run]) -> list[_Told]:
    told: list[_Told] = []
    for _, each in groupby(headline(runs), key=lambda row: row.task):
        mine = {row.method: row for row in each}
        pairs = [(row, mine[base]) for row in mine.values() if (base := own_baseline(row)) is not None]
        pairs.sort(key=lambda pair: _clarity(pair[0]), reverse=True)
        alone = [] if pairs else list(mine.values())[:_SHOWN_ALONE]
        told += [(k, *pair) for k, pair in enumerate([*pairs, *((row, None) for row in alone)])]
    return told


def _sentence(entry: _Told) -> str:
    _, row, base = entry
    return _alone(row) if base is None else _pair(row, base)


def _pair(row: Headline, base: Headline) -> str:
    """An augmented method beside its plain agent."""
    name, verdict = base.method, row.verdicts[base.method]
    ends = f"{number(row.final.value)} against {number(base.final.value)}"
    if row.reached is None:
        return f"{row.method} ends {row.task} at {ends} of {name} ({_SURE[verdict]})."
    if not row.reached and not base.reached:
        return f"{_solved(row)}, {_short(base)}; final return {ends} ({_SURE[verdict]})."
    several, few = min(row.seeds, base.seeds) > 1, min(row.seeds, base.seeds) < LEAST_RUNS
    steps = (guessed if few else faster)(row.speed_ups[name], name) if several else ""
    final = f"final return {_SURE[verdict]}, {ends}" if verdict in ("better", "worse") else ""
    return "; ".join(part for part in (f"{_solved(row)}; {_short(base)}", steps, final) if part) + "."


_SURE = {"better": "better", "worse": "worse", "not worse": "not worse", "unclear": "not clearly different"}


def _caveat(told: Sequence[_Told], lines: Sequence[str]) -> list[str]:
    """How far to trust the `lines` that tell this."""
    fewest = min((min(row.seeds, base.seeds) for _, row, base in told if base is not None), default=0)
    if fewest == 0:
        return []
    if fewest == 1:
        return ["One run of a method shows no spread: take --seeds 5 before you trust a difference."]
    signs = {"brackets": any("[" in line for line in lines), "“at least”": any("at least" in line for line in lines)}
    there = " and ".join(name for name, used in signs.items() if used)
    is_ = "is the end of a 95% interval" if there == "“at least”" else "are 95% intervals"
    words = [f"{there} {is_} over the runs"] if there else []
    if fewest < LEAST_RUNS:
        words.append(
            f"{fewest} runs are too few for intervals, or to call anything better or worse, {LEAST_RUNS} may do"
        )
    text = "; ".join(words)
    first = 2 if text.startswith("“") else 1
    return [f"{text[:first].upper()}{text[first:]}."] if text else []


def _clarity(row: Headline) -> tuple[float, ...]:
    """How clearly a method differs from its own plain agent, for better or worse: what comes first counts most."""
    name = own_baseline(row)
    if name is None:
        return 0.0, 0.0, 0.0, 0.0
    found = row.speed_ups.get(name, UNKNOWN)
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
        return "too few runs got there to compare the steps"
    if text == UNCLEAR:
        return "the interval of the speed-up still reaches 1"
    if found.value == math.inf:
        return f"at least {text[2:-1]} times fewer steps than {baseline}"
    if found.value == 0.0:
        return f"at least {number(1.0 / found.high)} times as many steps as {baseline}"  # ratio's high is above 0
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


def guessed(found: Estimate, baseline: str) -> str:
    """The speed-up of too few runs: the ratio of their medians, which is no more than that."""
    if math.isnan(found.value):
        return faster(found, baseline)
    if found.value in (0.0, math.inf):
        return f"too few runs to tell how many times {'faster' if found.value else 'slower'}"
    return faster(Estimate(found.value, math.nan, math.nan), baseline).replace(" steps", " steps in the median", 1)


def tolerance(threshold: float | None, watched: tuple[int, int], kept: bool = True) -> str:
    """What it means to keep a level, or to lose it, that was then seen for so many steps, at least and at most."""
    steps = " to ".join(dict.fromkeys(map(number, watched)))
    within = f"{'' if kept else 'not '}within {KEEP_TOLERANCE:.0%}{'' if threshold else ' of the way up to it'}"
    return f"that is {within} on average over the next {steps} steps"


def keeping(row: Headline) -> str:
    """How many of those that reached the threshold kept it, as `2 of 3`; a dash if nobody can tell."""
    return f"{row.keepers} of {row.judged}" if row.judged else "–"


def _task(mine: list[Headline], width: float) -> list[str]:
    first = mine[0]
    goal = "no threshold" if first.threshold is None else f"threshold {number(first.threshold)}"
    counts = sorted({row.seeds for row in mine})
    seeds = "1 seed" if counts == [1] else f"{' to '.join(map(str, {counts[0]: 0, counts[-1]: 0}))} seeds"
    title = f"{first.task}: {goal}, {seeds}, {number(first.budget)} steps"
    if all(math.isnan(row.final.value) for row in mine):
        cells: list[tuple[str, ...]] = [("method", f"mean return of the first {first.first_episodes} episodes")]
        cells += [(row.method, interval(_first(row), spread=row.spread)) for row in mine]
    else:
        cells = [("method", "steps to threshold", "never", "kept", "final return", "speed-up"), *map(_row, mine)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rest = sum(widths[1:]) + len(widths) - 1
    if rest + min(_SHORTEST, widths[0]) > width:
        return [*_wrapped(title, width), *_blocks(cells, width)]
    gap = "  " if rest + len(widths) - 1 + widths[0] <= width else " "  # names give way before numbers do
    widths[0] = int(max(_SHORTEST, min(widths[0], width - rest)))
    lines = (gap.join(map(_fit, row, widths)).rstrip() for row in cells)
    return [_cut(line, width) for line in (title, *lines)]


def _blocks(cells: Sequence[Sequence[str]], width: float) -> list[str]:
    """What does not fit into the lines of a table: below each method's name its facts, each with its column's name."""
    heads, *rows = cells
    lines = []
    for name, *facts in rows:
        lines.append(_cut(name, width))
        for head, fact in zip(heads[1:], facts, strict=True):
            lines += _wrapped(f"  {head}: {fact}", width, "    ") if fact else []
    return lines


def _wrapped(line: str, width: float, indent: str = "") -> list[str]:
    return [line] if width == math.inf else textwrap.wrap(line, int(width), subsequent_indent=indent)


def _row(row: Headline) -> tuple[str, ...]:
    never = "–" if row.reached is None else f"{row.seeds - row.reached}/{row.seeds}"
    base = own_baseline(row)
    found = UNKNOWN if base is None else row.speed_ups.get(base, UNKNOWN)
    gain = UNCLEAR if found.value in (0.0, math.inf) and math.isnan(found.low) else ratio(found).split(" [")[0]
    gain = "" if base is None else gain.replace(UNCLEAR, "too few runs").replace("?", "–")
    steps, kept = interval(row.steps_to_threshold, row.budget, row.spread), keeping(row).replace(" of ", "/")
    return row.method, steps, never, kept, interval(row.final, spread=row.spread), gain


def _solved(row: Headline) -> str:
    """How often a method solved its task, when, and what became of it."""
    if row.seeds == 1:
        if not row.reached:
            return f"{row.method} did not solve {row.task} within {number(row.budget)} steps"
        return f"{row.method} solved {row.task} after {number(row.steps_to_threshold.value)} steps{_then(row)}"
    within = "" if row.reached else f" within {number(row.budget)} steps"
    return f"{row.method} solved {row.task} in {row.reached} of {row.seeds} runs{within}{_when(row)}"


def _short(row: Headline) -> str:
    """The same of the method that another is compared with."""
    if row.seeds == 1:
        after = f"after {number(row.steps_to_threshold.value)}{_then(row)}"
        return f"{row.method} {after if row.reached else f'did not within {number(row.budget)}'}"
    within = "" if row.reached == row.seeds else f" within {number(row.budget)}"
    return f"{row.method} in {row.reached} of {row.seeds}{within}{_when(row)}"


def _when(row: Headline) -> str:
    """In brackets: when the threshold was reached, and what became of the level."""
    median = row.steps_to_threshold.value
    when = [f"median {number(median)} steps"] if row.reached and math.isfinite(median) else []
    if row.judged:
        if row.judged != row.reached:
            kept = f"kept by {row.keepers} of the {row.judged} that ran on"
        elif row.judged == 1:
            kept = "kept" if row.keepers else "lost again"
        else:
            kept = f"kept by {'all' if row.keepers == row.judged else row.keepers or 'none'}"
        when.append(f"{kept}, {tolerance(row.threshold, row.watched, kept != 'lost again')}")
    return f" ({'; '.join(when)})" if when else ""


def _then(row: Headline) -> str:
    """What became of the level that a single run reached."""
    if not row.judged:
        return ""
    means = tolerance(row.threshold, row.watched, row.keepers > 0)
    return f"{' and kept it' if row.keepers else ' but lost it again'} ({means})"


def _alone(row: Headline) -> str:
    """A method that is compared with none."""
    if math.isnan(row.final.value):
        level = f"{number(row.first_100)} over the first {counted(row.first_episodes, 'training episode')}"
        return f"{row.task}: {row.method} has a mean return of {level} ({_seeds(row)})."
    end = f"final return {number(row.final.value)} ({_seeds(row)})."
    return f"{row.method} on {row.task}: {end}" if row.reached is None else f"{_solved(row)}; {end}"


def counted(many: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def _first(row: Headline) -> Estimate:
    return Estimate(row.first_100, *row.first_interval)


def _seeds(row: Headline) -> str:
    return counted(row.seeds, "seed")


def _fit(word: str, width: int) -> str:
    return f"{word:{width}}" if len(word) <= width else word[: width - 1] + "…"


def _cut(line: str, width: float) -> str:
    return line if len(line) <= width else line[: int(width) - 1] + "…"
