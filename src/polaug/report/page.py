"""The report page: HTML, style, script and data in one file. It asks no network for anything, and may not."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import polaug
from polaug.errors import invalid
from polaug.report.data import embedded, films, page_data
from polaug.report.tables import explored_table, headline_table, headlines
from polaug.report.tables import settings_table as settings
from polaug.state import safe_write
from polaug.study.folder import check_inside, check_written_by_polaug
from polaug.study.levels import KEEP_STEPS, KEEP_TOLERANCE
from polaug.study.results import Run, find_runs
from polaug.study.statistics import LEAST_RUNS
from polaug.study.summary import Headline
from polaug.study.wording import comparisons, counted, number

SCRIPTS = ("core.js", "curves.js", "overall.js", "spectrum.js", "heat.js", "wire.js", "main.js")
_LISTED = 6  # sentences at the top; more would hide the charts
_NAMED = 4  # methods that the title names


def write_report(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    figures: bool = False,
    title: str | None = None,
) -> Path:
    """Write one page from all finished runs in `folder`, at any depth, and give its path.

    The page is `out`, by default `folder`/report.html. Films (.gif, .mp4) in the folder and in its run folders are
    embedded. `figures` also draws `folder`/figures/*.png and *.pdf, for papers. `title` is by default the methods and
    tasks.
    """
    runs = [run for run in find_runs(folder) if len(run.returns)]
    if not runs:
        rule = "must hold at least one finished run with a whole episode"
        remedy = "Name a folder that `polaug train`, `compare` or `explore` wrote; if it is one, train for longer."
        raise invalid("folder", rule, str(folder), remedy)
    path = Path(folder) / "report.html" if out is None else Path(out)
    drawings = Path(folder) / "figures"
    check_written_by_polaug(path)
    if figures:
        from polaug.report.figures import check_figure_files, write_figures  # matplotlib is slow to load

        check_inside(drawings, Path(folder))
        check_figure_files(runs, drawings)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page(runs, title, films(Path(folder), runs))
    safe_write(path, text.encode())  # a page that is open stays whole
    if figures:
        write_figures(runs, drawings)
    return path


def page(runs: Sequence[Run], title: str | None = None, shown: Sequence[Mapping[str, str]] = ()) -> str:
    """The HTML of the report."""
    rows = headlines(runs)
    data = page_data(runs, rows)
    order = [method["name"] for method in data["methods"]]
    tasks = [
        _task(task, order, [run for run in runs if run.task == task["name"]],
              [row for row in rows if row.task == task["name"]])
        for task in data["tasks"]
    ]  # fmt: skip
    plotly, script = asset("vendor/plotly-cartesian.min.js"), Markup("\n").join(asset(f"assets/{n}") for n in SCRIPTS)
    return render(
        "report.html", title=title or _title(runs, order), subtitle=_subtitle(runs, data), data=data, tasks=tasks,
        words=[*comparisons(rows), *(fault for run in runs for fault in run.faults)], listed=_LISTED,
        keep_steps=f"{KEEP_STEPS:,}", tolerance=f"{100 * KEEP_TOLERANCE:.0f} %", fewest=LEAST_RUNS,
        films=shown, trained=bool(rows),
        axes={name: "time" if name == "seconds" else name for name in data["axes"]},
        several=any(task["seeds"] > 1 for task in data["tasks"]), policy=_policy(plotly, script),
        style=asset("assets/page.css") + swatches(data["methods"]), plotly=plotly, script=script,
        embedded=Markup(embedded(data)),
    )  # fmt: skip


def _task(task: dict[str, Any], order: Sequence[str], runs: Sequence[Run], rows: list[Headline]) -> dict[str, Any]:
    """What the template says of one task."""
    drawn, chosen = task["heat"], task["choices"]
    methods = sorted({*drawn, *chosen})
    explored = [run for run in runs if run.kind != "train"]
    tables: tuple[Any, ...] = ((headline_table, rows), (explored_table, explored))
    completed = {m for m in drawn if "completed" in drawn[m]["layers"]}
    return task | {
        "tables": [make(found, order) for make, found in tables if found],
        "kinds": {kind for found in task["curves"].values() for kind in found},
        "drawn": methods,
        "richest": max(methods, key=lambda m: (m in chosen, m in completed, -m), default=None),
        "layers": {layer for found in drawn.values() for layer in found["layers"]},
        "snapshots": max((len(found["steps"]) for found in drawn.values()), default=1) - 1,
        "completed": bool(completed),
        "settings": settings(runs, order),
    }


def _title(runs: Sequence[Run], order: Sequence[str]) -> str:
    tasks = sorted({run.task for run in runs})
    noun = "method" if any(run.kind == "train" for run in runs) else "explorer"
    who = ", ".join(order) if len(order) <= _NAMED else counted(len(order), noun)
    return f"{who} on {tasks[0] if len(tasks) == 1 else counted(len(tasks), 'task')}"


def _subtitle(runs: Sequence[Run], data: dict[str, Any]) -> str:
    steps = sum(int(run.done.get("steps", run.steps[-1])) for run in runs)
    parts = [counted(len(data[name]), name[:-1]) for name in ("tasks", "methods")] + [counted(len(runs), "run")]
    what = f"One run, seed {runs[0].seed}" if len(runs) == 1 else ", ".join(parts)
    return f"{_days(runs)}. {what}; {steps:,} environment steps, all of them counted. polaug {polaug.__version__}."


def _days(runs: Sequence[Run]) -> str:
    """The day or days on which the runs ended, by the times of their files."""
    times = [(run.path / "done.json").stat().st_mtime for run in runs]
    days = sorted({datetime.fromtimestamp(time, timezone.utc).date() for time in times})
    first, last = (f"{day.day} {day:%B %Y}" for day in (days[0], days[-1]))
    return first if first == last else f"{first} to {last}"


# -- shared with the studio's page -----------------------------------------------------------------------------------


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("polaug.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters["number"] = number
    return made


def render(template: str, **values: Any) -> str:
    """Fill a template; every value is escaped unless it is Markup."""
    return _templates().get_template(template).render(**values)


@cache
def asset(name: str) -> Markup:
    """One of the package's own files, as it is."""
    return Markup(files("polaug.report").joinpath(name).read_text(encoding="utf-8"))


def swatches(methods: Sequence[Mapping[str, str]]) -> Markup:
    """The line of each method beside its name, with its dashes, as CSS."""
    ends = {"solid": (9,), "dash": (6, 9), "dot": (3, 6), "dashdot": (7, 9, 11, 13)}  # pixels: ink, gap, ink, gap
    rules = []
    for k, method in enumerate(methods):
        places = (0, *ends[method["dash"]])
        parts = [
            f"{'transparent' if at % 2 else method['colour']} {start}px {end}px"
            for at, (start, end) in enumerate(pairwise(places))
        ]
        rules.append(f".m{k}{{background:repeating-linear-gradient(90deg,{','.join(parts)})}}\n")
    return Markup("".join(rules))


def _policy(*scripts: str) -> str:
    """Only these very scripts run, and nothing is loaded from anywhere."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; media-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
