"""The tables of the page, and their rows as plain data for the download; every name is escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from polaug.report.digits import shown
from polaug.report.summary import Group, first_success
from polaug.study.results import Run
from polaug.study.summary import Headline, headline, own_baseline
from polaug.study.wording import UNCLEAR, keeping, ratio

_UNKNOWN = (math.nan, math.nan, math.nan)

Cell = tuple[str, Any]
"""What is read, and what it is sorted by (None: comes last)."""


def headline_rows(headlines: Sequence[Headline]) -> list[list[Any]]:
    """The headline as a table for machines, one row for each comparison with a baseline."""
    head = [
        "task", "method", "seeds", "steps_to_threshold", "low", "high", "share_never", "kept", "judged",
        "watched_least", "watched_most", "spread", "final_iqm", "final_low", "final_high", "first_episodes",
        "first_iqm", "first_low", "first_high", "baseline", "speed_up", "speed_up_low", "speed_up_high",
        "improvement", "improvement_low", "improvement_high",
    ]  # fmt: skip
    rows: list[list[Any]] = [head]
    for row in headlines:
        start = [row.task, row.method, row.seeds, *row.steps_to_threshold, row.share_never, row.kept, row.judged,
                 *row.watched, row.spread, *row.final, row.first_episodes, row.first_100,
                 *row.first_interval]  # fmt: skip
        for baseline in _baselines(row) or [""]:
            compared = [table.get(baseline) or _UNKNOWN for table in (row.speed_ups, row.improvement)]
            rows.append([_written(value) for value in (*start, baseline, *compared[0], *compared[1])])
    return rows


def headlines(runs: Sequence[Run]) -> list[Headline]:
    """Rows of the runs that trained an agent."""
    trained = [run for run in runs if run.evaluations is not None and len(run.evaluations.means)]
    return headline(trained) if trained else []


def headline_table(rows: Sequence[Headline], order: Sequence[str]) -> str:
    """One task's methods; columns that would say nothing are left out."""
    episodes, lone = rows[0].first_episodes, all(row.seeds == 1 for row in rows)
    goal, compared = rows[0].threshold is not None, any(_baselines(row) for row in rows)
    heads = ["method", *(_goal_heads(lone) if goal else []), *([_against_head(rows, goal)] if compared else []),
             "final return", f"first {episodes} episodes", "seeds"]  # fmt: skip
    body = []
    for row in sorted(rows, key=lambda row: order.index(row.method)):
        cells: list[Cell] = [
            (_name(row.method, order), row.method),
            *(_goal_cells(row, lone) if goal else []),
            *([_comparisons(row, estimated(rows))] if compared else []),
            (_interval(row.final), _finite(row.final[0])),
            (_interval((row.first_100, *row.first_interval)), _finite(row.first_100)),
            (str(row.seeds), row.seeds),
        ]
        body.append((order.index(row.method), cells))
    return _table(heads, body)


def _goal_heads(lone: bool) -> list[str]:
    return ["steps to threshold", *([] if lone else ["never got there"]), "kept it"]


def _goal_cells(row: Headline, lone: bool) -> list[Cell]:
    """When the threshold was reached, by whom never, and what became of it."""
    times, never = row.steps_to_threshold, row.share_never
    share: list[Cell] = [] if lone else [("–" if never is None else f"{100 * never:.0f} %", never)]
    return [(_interval(times, beyond="not reached"), _finite(times[0])), *share, (_kept(row, lone), row.kept)]


def _kept(row: Headline, lone: bool) -> str:
    if row.kept is None:
        return keeping(row)
    steps = " to ".join(dict.fromkeys(map(shown, row.watched)))
    over = f' <span class="range">over {steps} steps</span>'
    if lone:
        return {0.0: "no", 1.0: "yes"}.get(row.kept, "–") + over
    if row.judged != row.reached:  # beside "3 of 3 got there" a bare "2 of 2" reads as a slip
        return f"{row.keepers} of the {row.judged} that ran on{over}"
    return keeping(row) + over


def estimated(rows: Sequence[Headline]) -> bool:
    """Whether a chance to be better can be told of any of these, or only what was seen of all."""
    return any(not math.isnan(found.low) for row in rows for found in row.improvement.values())


def _against_head(rows: Sequence[Headline], goal: bool) -> str:
    better = "chance to be better" if estimated(rows) else "pairs that end higher"
    return f"against: {'speed-up · ' if goal else ''}{better}"


def explored_table(mine: Sequence[Group], order: Sequence[str]) -> str:
    """Explorers alone, one row each."""
    heads = ("explorer", "seeds", "first success", "mean return, early", "late", "steps", "µs per step")
    body = []
    for group in mine:
        costs = [run.done["explorer_us_per_step"] for run in group.runs if "explorer_us_per_step" in run.done]
        cost = sum(costs) / len(costs) if costs else math.nan
        firsts = sorted(group.first_successes)
        cells: list[Cell] = [
            (_name(group.method, order), group.method),
            (str(len(group.runs)), len(group.runs)),
            (escape(first_success(group)), _finite(firsts[(len(firsts) - 1) // 2]) if firsts else None),
            *((_known(value), _finite(value)) for value in (group.early, group.late, group.steps, cost)),
        ]
        body.append((order.index(group.method), cells))
    return _table(heads, body)


def settings_table(runs: Sequence[Run]) -> str:
    """Settings and versions, each different one once."""
    rows: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        settings = {key: value for key, value in run.config.items() if key not in ("seed", "versions")}
        rows.setdefault((_listed(settings), _listed(run.config.get("versions"))), []).append(run)
    body = "".join(
        f'<tr><th scope="row">{escape(same[0].task)}<br>{escape(same[0].method)}</th><td>{escape(settings)}</td>'
        f"<td>{', '.join(str(run.seed) for run in same)}</td><td>{escape(versions)}</td></tr>"
        for (settings, versions), same in rows.items()
    )
    head = "".join(f'<th scope="col">{each}</th>' for each in ("run", "settings", "seeds", "versions"))
    return _framed("settings", head, body)


def _table(heads: Sequence[str], body: Sequence[tuple[int, Sequence[Cell]]]) -> str:
    """Sortable, with the method's number at each row."""
    head = "".join(f'<th scope="col"><button type="button">{each}</button></th>' for each in heads)
    rows = []
    for method, cells in body:
        first, *rest = (f' data-sort="{escape("" if key is None else str(key))}">{text}' for text, key in cells)
        labels = (f' data-label="{escape(head)}"' for head in heads[1:])  # what a phone shows instead of the head
        others = "".join(f"<td{label}{each}</td>" for label, each in zip(labels, rest, strict=True))
        rows.append(f'<tr data-method="{method}"><th scope="row"{first}</th>{others}</tr>')
    return _framed("sortable", head, "".join(rows))


def _framed(kind: str, head: str, body: str) -> str:
    table = f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _name(method: str, order: Sequence[str]) -> str:
    return f'<span class="name"><i class="swatch m{order.index(method)}"></i>{escape(method)}</span>'


def _baselines(row: Headline) -> list[str]:
    """Whom the row is compared with, its own plain agent first."""
    own = own_baseline(row)
    return sorted({**row.speed_ups, **row.improvement}, key=lambda name: (name != own, name))


def _comparisons(row: Headline, chances: bool) -> Cell:
    """A line for each baseline, those beyond the second folded away; sorted by the first speed-up."""
    names = _baselines(row)
    lines = [f"<div>{escape(name)}: {_against(row, name, chances)}</div>" for name in names]
    rest = f"<details><summary>{len(lines) - 2} more</summary>{''.join(lines[2:])}</details>" if len(lines) > 2 else ""
    faster = row.speed_ups.get(names[0]) if names else None
    return "".join(lines[:2]) + rest or "–", None if faster is None else _finite(faster[0])


def _against(row: Headline, name: str, chances: bool) -> str:
    """In words; if the column is of `chances`, what is none is called by its name."""
    parts = []
    if (faster := row.speed_ups.get(name)) is not None:
        words = ratio(faster)
        if row.seeds > 1 and faster.value in (0.0, math.inf) and math.isnan(faster.low):
            parts.append(UNCLEAR)
        elif words == "?":
            never = {math.inf: "it never got there", 0.0: "never got there"}
            parts.append(never.get(faster.value, "neither in time"))
        elif words == UNCLEAR:
            parts.append(UNCLEAR)
        else:
            bounded = 0.0 < faster.value < math.inf  # otherwise the ratio itself is the bound
            parts.append(f"<b>{words.split(' [')[0]}</b> {_range(faster.low, faster.high) if bounded else ''}".rstrip())
    if (better := row.improvement.get(name)) is not None:
        value, low, high = (round(100 * number, 0) for number in better)
        few = math.isnan(low)  # what was seen is then no chance
        seen = f"{value:.0f} %{' of pairs' if chances else ''}"
        parts.append(seen if few else f"<b>{value:.0f} %</b> {_range(low, high)}".rstrip())
    return " · ".join(parts)


def _interval(found: Sequence[float], beyond: str = "–") -> str:
    value, low, high = found
    if math.isnan(value):
        return "–"
    return f"<b>{beyond if value == math.inf else shown(value)}</b> {_range(low, high)}"


def _range(low: float, high: float) -> str:
    """An interval in words; one seed has none, and what lies beyond the budget has no end."""
    if math.isnan(low) or math.isnan(high) or low == math.inf:
        return ""
    words = f"{shown(low)} or more" if high == math.inf else f"{shown(low)} to {shown(high)}"
    return f'<span class="range">{words}</span>'


def _known(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else shown(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _written(value: Any) -> Any:
    """As the download has it: unknown is empty, beyond the budget "inf"."""
    return value if not isinstance(value, float) or math.isfinite(value) else None if math.isnan(value) else str(value)


def _listed(items: Any) -> str:
    pairs = sorted((items or {}).items())
    return ", ".join(f"{key} {value}" for key, value in pairs if value not in (None, {}, ""))
