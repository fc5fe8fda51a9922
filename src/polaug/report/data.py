"""Runs as the plain data that the page shows: names, numbers and lists, nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from polaug.report.curves import bootstrap_samples, choices, curves
from polaug.report.digits import shown
from polaug.report.dimensions import dimension_name
from polaug.report.grids import AXES
from polaug.report.heat import packed_within
from polaug.report.overall import overall
from polaug.report.palette import COLOURS, in_order, look
from polaug.report.tables import headline_rows
from polaug.state import State
from polaug.study.results import Run
from polaug.study.summary import Headline


def page_data(runs: Sequence[Run], headlines: Sequence[Headline] = ()) -> dict[str, Any]:
    """Everything that the page's script draws; methods are known by their place in `methods`."""
    ordered = sorted((run for run in runs if len(run.returns)), key=lambda run: (run.task, run.method, run.seed))
    order = in_order(run.method for run in ordered)
    samples = bootstrap_samples(len({(run.task, run.method) for run in ordered}))
    tasks = [_task(name, list(mine), order, samples) for name, mine in groupby(ordered, key=lambda run: run.task)]
    _pack_heat(tasks)
    known = {axis for task in tasks for kinds in task["curves"].values() for axes in kinds.values() for axis in axes}
    looks = [dict(zip(("name", "colour", "dash"), (name, *look(k)), strict=True)) for k, name in enumerate(order)]
    return {
        "methods": looks, "colours": COLOURS, "axes": [axis for axis in AXES if axis in known], "tasks": tasks,
        "overall": overall(ordered, order), "headline": headline_rows(headlines),
    }  # fmt: skip


def embedded(data: dict[str, Any]) -> str:
    """JSON that can stand inside <script>: nothing in it can end the element, whatever runs are called."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _task(name: str, mine: list[Run], order: list[str], samples: int) -> dict[str, Any]:
    by_method = {order.index(method): list(same) for method, same in groupby(mine, key=lambda run: run.method)}
    drawn = {k: next((run for run in same if run.maps), None) for k, same in by_method.items()}
    led = any("explorer" in run.episodes.actors for run in mine)
    return {
        "name": name,
        "threshold": mine[0].threshold,
        "methods": sorted(by_method),
        "explored": led and any("agent" in run.episodes.actors for run in mine),
        "samples": samples,
        "seeds": max(map(len, by_method.values())),
        "fewest": min(map(len, by_method.values())),
        "curves": {k: curves(same, samples) for k, same in by_method.items()},
        "choices": {k: found for k, same in by_method.items() if (found := choices(same))},
        "heat": {k: run for k, run in drawn.items() if run is not None},
    }


def _pack_heat(tasks: list[dict[str, Any]]) -> None:
    """Replace the runs under `heat` by what the page draws of them."""
    places = [(task, k) for task in tasks for k in task["heat"]]
    runs: list[Run] = [task["heat"][k] for task, k in places]
    maps: list[State] = [run.maps for run in runs if run.maps is not None]
    for (task, k), run, packed in zip(places, runs, packed_within(maps), strict=True):
        names = [dimension_name(run, place) for place in packed["dimensions"]]
        task["heat"][k] = packed | {"seed": run.seed, "names": names, "words": _slice(packed, run, names)}


def _slice(packed: dict[str, Any], run: Run, names: list[str]) -> str:
    """Which part of the observations is drawn, in words."""
    median, seed = packed["median"], run.seed
    if len(median) <= 2:
        return f"Seed {seed}. To the right {names[0]}, upwards {names[1]}; bare: not seen."
    others = ", ".join(
        f"{dimension_name(run, d)} {shown(value)}"
        for d, value in enumerate(median)
        if d not in packed["dimensions"] and value is not None
    )
    why = "which move Q̂ most" if "singular" in packed else "which tell most about the return"
    return (
        f"Seed {seed}. To the right {names[0]}, upwards {names[1]}: of {len(median)} those {why}. Visits and Q̃ count "
        f"all states; Q̂ and its uncertainty are a slice through the median of the states seen ({others})."
    )
