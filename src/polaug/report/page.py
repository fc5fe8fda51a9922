"""The report page: HTML, style, script and data in one file. It asks no network for anything, and may not."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import polaug
from polaug.errors import invalid
from polaug.report.data import embedded, page_data
from polaug.report.figures import check_figure_files, write_figures
from polaug.report.sections import controls, downloads, overall_section, task_section
from polaug.report.summary import Group, groups, sentence
from polaug.report.tables import headlines, settings_table
from polaug.study.ours import bears, check_inside, check_ours, write_whole
from polaug.study.results import Run, find_runs
from polaug.study.wording import seen, seen_by_task

SCRIPTS = ("core.js", "curves.js", "overall.js", "spectrum.js", "heat.js", "main.js")
_MARK = b"polaugReport"  # in the script of every page of ours
_LISTED = 6  # sentences at the top; more would hide the charts

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the results</a>
<header class="top">
<div><h1>{title}</h1><p class="soft">{subtitle}</p></div>
<p><button type="button" class="button theme">Dark page</button></p>
</header>
<main id="content">
{body}
</main>
<noscript><p class="top">The charts need JavaScript, which is part of this file; the tables do not.</p></noscript>
<script type="application/json" id="data">{data}</script>
<script>{plotly}</script>
<script>{script}</script>
</body>
</html>
"""


def write_report(
    folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, figures: bool = False
) -> Path:
    """One page from all finished runs in `folder`; by default `folder`/report.html. Gives its path.

    With `figures` also `folder`/figures/*.png and *.pdf, for papers. Files of others are refused, not replaced.
    """
    runs = [run for run in find_runs(folder) if len(run.returns)]
    if not runs:
        rule = "must hold at least one finished run with a whole episode"
        remedy = "Name a folder that `polaug train`, `compare` or `explore` wrote; if it is one, train for longer."
        raise invalid("folder", rule, str(folder), remedy)
    path = Path(folder) / "report.html" if out is None else Path(out)
    drawings = Path(folder) / "figures"
    check_ours(path, bears(_MARK))
    if figures:
        check_inside(drawings, Path(folder))
        check_figure_files(runs, drawings)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page(runs)
    write_whole(path, lambda file: file.write(text.encode()))  # somebody may be looking at the page before
    if figures:
        write_figures(runs, drawings)
    return path


def page(runs: Sequence[Run]) -> str:
    """The HTML of the report."""
    rows, explored = headlines(runs), groups(runs)
    data = page_data(runs, rows)
    order = [method["name"] for method in data["methods"]]
    trained = any(run.kind == "train" for run in runs)
    tasks = [
        task_section(k, task, order, [row for row in rows if row.task == task["name"]],
                     [group for group in explored if group.task == task["name"] and group.runs[0].kind != "train"])
        for k, task in enumerate(data["tasks"])
    ]  # fmt: skip
    words = _listed(_words(runs, explored))
    body = [words, _nav(data["tasks"]), controls(data), overall_section(data), *tasks, _provenance(runs)]
    plotly = _asset("vendor/plotly-cartesian.min.js")
    script = "\n".join(_asset(f"assets/{name}") for name in SCRIPTS)
    return _PAGE.format(
        title=_title(runs, trained),
        subtitle=_subtitle(runs, data), policy=_policy(plotly, script),
        style=_asset("assets/page.css") + _swatches(data),
        body="\n".join(part for part in body if part), data=embedded(data), plotly=plotly, script=script,
    )  # fmt: skip


def _words(runs: Sequence[Run], explored: Sequence[Group]) -> list[str]:
    """What was seen: a few sentences on one task, the clearest on each of several; on explorers alone one for each."""
    told = [run for run in runs if run.evaluations is None or len(run.evaluations.means)]
    trained = sorted({run.task for run in told if run.evaluations is not None})
    if not trained:
        return [f"{group.task}, {sentence(group)}" for group in explored]
    return seen(told) if len(trained) == 1 else seen_by_task(told)


def _listed(words: Sequence[str]) -> str:
    """The first few; the others can be unfolded."""
    if not words:
        return ""
    items = [f"<li>{escape(each)}</li>" for each in words]
    first, others = "".join(items[:_LISTED]), items[_LISTED:]
    more = f"<details><summary>{len(others)} more</summary><ul>{''.join(others)}</ul></details>" if others else ""
    return f'<div class="seen"><ul>{first}</ul>{more}</div>'


def _title(runs: Sequence[Run], trained: bool) -> str:
    """A single run has a name; several have a question."""
    if len(runs) == 1:
        return escape(f"{runs[0].method} on {runs[0].task}")
    return "Policy Augmentation: what was learnt" if trained else "Exploration: what was found"


def _subtitle(runs: Sequence[Run], data: dict[str, Any]) -> str:
    steps = sum(int(run.done.get("steps", run.steps[-1])) for run in runs)
    parts = (_counted(len(data["tasks"]), "task"), _counted(len(data["methods"]), "method"), _counted(len(runs), "run"))
    what = f"One run, seed {runs[0].seed}" if len(runs) == 1 else ", ".join(parts)
    return f"{what}; {steps:,} environment steps, all of them counted. polaug {polaug.__version__}."


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _nav(tasks: Sequence[dict[str, Any]]) -> str:
    if len(tasks) < 2:
        return ""
    links = "".join(f'<li><a href="#task{k}">{escape(task["name"])}</a></li>' for k, task in enumerate(tasks))
    return f'<nav aria-label="Tasks"><ul>{links}</ul></nav>'


def _provenance(runs: Sequence[Run]) -> str:
    return f"""<section class="plain" aria-labelledby="made">
<div class="heading"><h2 id="made">Settings, versions and data</h2></div>
<div class="card long">{downloads(any(run.kind == "train" for run in runs))}
<details><summary>Settings and versions that made this page</summary>{settings_table(runs)}</details></div>
</section>"""


def _swatches(data: dict[str, Any]) -> str:
    """The line of each method beside its name, with its dashes."""
    ends = {"solid": (9,), "dash": (6, 9), "dot": (3, 6), "dashdot": (7, 9, 11, 13)}  # pixels: ink, gap, ink, gap
    rules = []
    for k, method in enumerate(data["methods"]):
        places = (0, *ends[method["dash"]])
        parts = [
            f"{'transparent' if at % 2 else method['colour']} {start}px {end}px"
            for at, (start, end) in enumerate(pairwise(places))
        ]
        rules.append(f".m{k}{{background:repeating-linear-gradient(90deg,{','.join(parts)})}}\n")
    return "".join(rules)


def _policy(*scripts: str) -> str:
    """Only these very scripts run, and nothing is loaded from anywhere."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
        "form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("polaug.report").joinpath(name).read_text(encoding="utf-8")
