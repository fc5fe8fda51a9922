"""The tables of the page as rows of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polaug.study.results import Run
from polaug.study.summary import Headline, headline, reference
from polaug.study.wording import UNCLEAR, keeping, number, ratio

Line = list[tuple[str, str]]
"""Text in pieces: how each looks ("", "b" for bold or "range" for small) and what it says."""


class Cell(NamedTuple):
    """What is read, and what it is sorted by (None: comes last)."""

    lines: list[Line]
    sort: Any


class Row(NamedTuple):
    """A method's number and its cells."""

    method: int
    cells: list[Cell]


class Table(NamedTuple):
    """Heads and rows; the first cell of a row is the method's name."""

    heads: list[str]
    rows: list[Row]


# -- agents -----------------------------------------------------------------------------------------------------------


def headlines(runs: Sequence[Run]) -> list[Headline]:
    """Rows of the runs that trained an agent."""
    trained = [run for run in runs if run.evaluations is not None and len(run.evaluations.means)]
    return headline(trained) if trained else []


def headline_table(rows: Sequence[Headline], order: Sequence[str]) -> Table:
    """One task's methods, without empty columns."""
    lone, goal = all(row.seeds == 1 for row in rows), rows[0].threshold is not None
    compared = any(_baselines(row) for row in rows)
    heads = ["method"]
    if goal:
        heads += ["steps to threshold", *([] if lone else ["never solved"]), "kept"]
    if compared:
        heads.append(f"against: {'speed-up · ' if goal else ''}chance to be better")
    heads += ["final return", f"first {rows[0].first_episodes} episodes", "seeds"]
    body = []
    for row in sorted(rows, key=lambda row: order.index(row.method)):
        cells = [_text(row.method, row.method)]
        if goal:
            never = row.share_never
            cells.append(_interval(row.steps_to_threshold, beyond="not reached"))
            cells += [] if lone else [_text("–" if never is None else f"{100 * never:.0f} %", never)]
            cells.append(Cell([_kept(row)], row.kept))
        if compared:
            cells.append(_comparisons(row))
        cells += [_interval(row.final), _interval((row.first_100, *row.first_interval)), _text(str(row.seeds))]
        body.append(Row(order.index(row.method), cells))
    return Table(heads, body)


def _kept(row: Headline) -> Line:
    if row.kept is None:
        return [("", "–")]
    return [("", keeping(row)), ("range", f"over {' to '.join(dict.fromkeys(map(number, row.watched)))} steps")]


def _baselines(row: Headline) -> list[str]:
    """The methods that the row is compared with, its reference first."""
    own = reference(row)
    return sorted({**row.speed_ups, **row.improvement}, key=lambda name: (name != own, name))


def _comparisons(row: Headline) -> Cell:
    """A line for each baseline; sorted by the first speed-up."""
    names = _baselines(row)
    faster = row.speed_ups.get(names[0]) if names else None
    lines: list[Line] = [[("", f"{name}:"), *_against(row, name)] for name in names]
    return Cell(lines or [[("", "–")]], None if faster is None else _finite(faster[0]))


def _against(row: Headline, name: str) -> Line:
    """Speed-up, and where there are enough runs the chance to be better."""
    parts: list[Line] = []
    if (faster := row.speed_ups.get(name)) is not None:
        bounded = 0.0 < faster.value < math.inf  # otherwise the ratio itself is the bound
        parts.append([("b", ratio(faster).split(" [")[0]), *(_range(faster.low, faster.high) if bounded else [])])
    if (better := row.improvement.get(name)) is not None and not math.isnan(better.low):
        value, low, high = (round(100 * each, 0) for each in better)
        parts.append([("b", f"{value:.0f} %"), *_range(low, high)])
    between: Line = [("", "·")]
    return [piece for k, part in enumerate(parts) for piece in (between if k else []) + part] or [("", UNCLEAR)]


# -- explorers alone --------------------------------------------------------------------------------------------------


def explored_table(runs: Sequence[Run], order: Sequence[str]) -> Table:
    """Explorers alone, one row each."""
    heads = ["explorer", "seeds", "first success", "mean return, first quarter", "last quarter", "steps", "µs per step"]
    rows = []
    for k, name in enumerate(order):
        mine = [run for run in runs if run.method == name]
        if not mine:
            continue
        returns = np.stack([run.returns[: min(len(run.returns) for run in mine)] for run in mine])
        quarter = max(1, returns.shape[1] // 4)
        costs = [run.done["explorer_us_per_step"] for run in mine if "explorer_us_per_step" in run.done]
        early, late = float(returns[:, :quarter].mean()), float(returns[:, -quarter:].mean())
        steps, cost = float(np.mean([run.steps[-1] for run in mine])), sum(costs) / len(costs) if costs else math.nan
        cells = [_text(name, name), _text(str(len(mine))), _first_success(mine)]
        rows.append(Row(k, cells + [_text(number(each), each) for each in (early, late, steps, cost)]))
    return Table(heads, rows)


def _first_success(runs: Sequence[Run]) -> Cell:
    """The episode in which the goal was first reached, the median over the seeds."""
    goal = runs[0].config.get("success")
    if not isinstance(goal, (int, float)):
        return _text("no threshold", None)
    found = [np.flatnonzero(run.returns >= goal) for run in runs]
    firsts = sorted(float(at[0]) + 1 if len(at) else math.inf for at in found)
    reached = sum(map(math.isfinite, firsts))
    words = (
        f"episode {number(float(np.median(firsts)))}" if reached == len(firsts) else f"{reached} of {len(firsts)} seeds"
    )
    return _text(words if reached else "never", firsts[(len(firsts) - 1) // 2])


# -- settings ---------------------------------------------------------------------------------------------------------

_TASK = ("env_id", "package", "kwargs", "episode_limit", "threshold", "success", "steps", "episodes", "every")
_HIDDEN = ("seed", "versions", "settings", "options", "task", "method", "format", "kind")


def settings_table(runs: Sequence[Run], order: Sequence[str]) -> tuple[list[str], list[tuple[str, list[Any]]]]:
    """One task's methods, and by group a row for each setting: its name, and its value by method."""
    methods = [name for name in order if any(run.method == name for run in runs)]
    columns = [[_settings(run) for run in runs if run.method == name] for name in methods]
    keys = dict.fromkeys(key for found in columns for each in found for key in each)
    parts: dict[str, list[Any]] = {
        "task": [("seeds", [", ".join(str(run.seed) for run in runs if run.method == name) for name in methods])]
    }
    for group, name in keys:
        values = [dict.fromkeys(each.get((group, name), "") for each in found) for found in columns]
        if any(map(any, values)):
            parts.setdefault(group, []).append((name, [" / ".join(filter(None, each)) for each in values]))
    return methods, list(parts.items())


def _settings(run: Run) -> dict[tuple[str, str], str]:
    """All settings of a run by group and name, those of the agent as it was built."""
    config, given = run.config, dict(run.config.get("settings") or {})
    augmentation = given.pop("augmentation", None) or {}
    others = {key: value for key, value in config.items() if key not in (*_HIDDEN, *_TASK)}
    parts: list[tuple[str, Mapping[str, Any]]] = [
        ("task", {key: config[key] for key in _TASK if key in config} | others),
        ("agent", dict(run.done.get("agent") or {}) | given),
        ("augmentation", augmentation),
        ("explorer", config.get("options") or {}),
        ("versions", config.get("versions") or {}),
    ]
    return {(group, key): _said(value) for group, part in parts for key, value in sorted(part.items())}


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return "" if value is None else str(value)


# -- cells ------------------------------------------------------------------------------------------------------------


def _text(words: str, sort: Any = ...) -> Cell:
    key = float(words) if sort is ... else sort
    return Cell([[("", words)]], _finite(key) if isinstance(key, float) else key)


def _interval(found: Sequence[float], beyond: str = "–") -> Cell:
    value, low, high = found
    if math.isnan(value):
        return Cell([[("", "–")]], None)
    return Cell([[("b", beyond if value == math.inf else number(value)), *_range(low, high)]], _finite(value))


def _range(low: float, high: float) -> Line:
    """An interval in words; one seed has none, and one that ends beyond the budget is open."""
    if math.isnan(low) or math.isnan(high) or low == math.inf:
        return []
    return [("range", f"{number(low)} or more" if high == math.inf else f"{number(low)} to {number(high)}")]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
