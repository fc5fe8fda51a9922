"""Runs as the plain data that the page shows: names, numbers and lists, nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from polaug.report.curves import SAMPLES, choices, curves
from polaug.report.grids import AXES
from polaug.report.heat import pack
from polaug.report.labels import COLOURS, dimension_name, in_order, line_style, short
from polaug.state import State
from polaug.study.results import Run
from polaug.study.summary import TAUS, Headline, plain_rows
from polaug.study.summary import overall as compared
from polaug.study.wording import number

FILM_BYTES = 6_000_000
"""Films are embedded up to this size together: a page of more than 10 MB opens slowly."""
_MAP_SNAPSHOTS = 240  # of all maps of a page: some 3 MB
_FILMS = {".gif": ("image/gif", b"GIF8", 0), ".mp4": ("video/mp4", b"ftyp", 4)}


def page_data(runs: Sequence[Run], headlines: Sequence[Headline] = ()) -> dict[str, Any]:
    """Everything that the page's script draws."""
    data = chart_data(runs)
    order = [method["name"] for method in data["methods"]]
    return data | {"overall": overall(runs, order), "headline": plain_rows(headlines)}


def chart_data(runs: Sequence[Run]) -> dict[str, Any]:
    """Curves and maps by task, also of active runs; methods are numbered by their place in `methods`."""
    ordered = sorted((run for run in runs if len(run.returns)), key=lambda run: (run.task, run.method, run.seed))
    order = in_order(run.method for run in ordered)
    mapped = len({(run.task, run.method) for run in ordered if run.maps})
    snapshots = max(2, min(12, _MAP_SNAPSHOTS // max(1, mapped)))
    tasks = [_task(name, list(mine), order, snapshots) for name, mine in groupby(ordered, key=lambda run: run.task)]
    known = {axis for task in tasks for kinds in task["curves"].values() for axes in kinds.values() for axis in axes}
    looks = [dict(zip(("name", "colour", "dash"), (name, *line_style(k)), strict=True)) for k, name in enumerate(order)]
    return {
        "methods": looks, "colours": COLOURS, "axes": [axis for axis in AXES if axis in known], "tasks": tasks,
    }  # fmt: skip


def embedded(data: Any) -> str:
    """JSON that can stand inside <script>: nothing in it can end the element, whatever runs are called."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def overall(runs: Sequence[Run], order: Sequence[str]) -> dict[str, Any] | None:
    """Scores and profiles by method (its place in `order`); None for fewer than two tasks or methods."""
    found = compared(runs)
    if found is None:
        return None
    methods = [name for name in order if name in found.scores]
    rows = [{"method": order.index(name), "value": short(found.scores[name], 4)} for name in methods]
    lines = {str(order.index(name)): short(np.stack(found.profiles[name]), 4) for name in methods}
    return {"tasks": list(found.tasks), "scores": rows, "profile": {"taus": short(TAUS), "curves": lines}}


def films(folder: Path, runs: Sequence[Run]) -> list[dict[str, str]]:
    """Films in `folder` and in its run folders as data URIs, up to FILM_BYTES in total."""
    home, left, found = folder.resolve(), FILM_BYTES, []
    for place in dict.fromkeys([folder, *(run.path for run in runs)]):
        for file in sorted(place.iterdir()):
            kind, mark, at = _FILMS.get(file.suffix.lower(), ("", b"", 0))
            if not kind or not file.is_file() or not file.resolve().is_relative_to(home):
                continue
            if file.stat().st_size > left or (content := file.read_bytes())[at : at + len(mark)] != mark:
                continue
            left -= len(content)
            uri = f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
            found.append({"name": str(file.relative_to(folder)), "kind": kind, "uri": uri})
    return found


def _task(name: str, mine: list[Run], order: list[str], snapshots: int) -> dict[str, Any]:
    by_method = {order.index(method): list(same) for method, same in groupby(mine, key=lambda run: run.method)}
    drawn = {k: next((run for run in same if run.maps), None) for k, same in by_method.items()}
    actors = {actor for run in mine for actor in run.episodes.actors}
    return {
        "name": name,
        "threshold": mine[0].threshold,
        "methods": sorted(by_method),
        "explored": "agent" in actors and len(actors) > 1,
        "samples": SAMPLES,
        "seeds": max(map(len, by_method.values())),
        "fewest": min(map(len, by_method.values())),
        "curves": {k: curves(same) for k, same in by_method.items()},
        "choices": {k: found for k, same in by_method.items() if (found := choices(same))},
        "heat": {k: _heat(run, run.maps, snapshots) for k, run in drawn.items() if run is not None and run.maps},
    }


def _heat(run: Run, maps: State, snapshots: int) -> dict[str, Any]:
    """A run's maps, the names of their axes, and a sentence on which part of the observations is drawn."""
    packed = pack(maps, snapshots)
    names = [dimension_name(run, place) for place in packed["dimensions"]]
    median, words = packed["median"], f"Seed {run.seed}. Horizontal: {names[0]}; vertical: {names[1]}"
    if len(median) <= 2:
        return packed | {"names": names, "words": f"{words}. Blank cells were not visited."}
    others = ", ".join(
        f"{dimension_name(run, d)} {number(value)}"
        for d, value in enumerate(median)
        if d not in packed["dimensions"] and value is not None
    )
    slice_ = ""
    if "singular" in packed:
        slice_ = f" Q̂ and its uncertainty are a slice at the median of the others ({others})."
    words += f": of {len(median)} numbers the two that correlate most with the return."
    words += f" Visits and observed returns count all states.{slice_}"
    return packed | {"names": names, "words": words}
