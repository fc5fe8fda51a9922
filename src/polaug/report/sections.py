"""The parts of the page that hold charts and switches: every chart has words and a table for those who don't see it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from polaug.report.digits import shown
from polaug.report.summary import Group
from polaug.report.tables import estimated, explored_table, headline_table
from polaug.study.statistics import LEAST_RUNS
from polaug.study.summary import Headline
from polaug.study.survival import KEEP_STEPS, KEEP_TOLERANCE

_AXES = {"default": "default", "steps": "steps", "episodes": "episodes", "seconds": "time"}
_STATISTICS = {"iqm": "interquartile mean", "mean": "mean ± std"}
_MAPS = {
    "visits": ("Visits", "Steps in each cell."),
    "observed": ("Observed Q̃", "The best action’s mean return from there."),
    "completed": ("Completed Q̂", "The same, completed everywhere."),
    "choice": ("Greedy action", "The action that Q̂ holds for the best, by its number."),
    "uncertainty": (
        "Uncertainty of Q̂",
        "From 0, near what was seen or between it: known, as far as the explorer can tell; to 1, far from all of it.",
    ),
}


def controls(data: dict[str, Any]) -> str:
    """Switches for all charts of the page, and its legend."""
    axes = {name: _AXES[name] for name in ("default", *data["axes"])}
    legend = "".join(
        f'<button type="button" aria-pressed="true" data-method="{k}"><i class="swatch m{k}"></i>'
        f"{escape(method['name'])}</button>"
        for k, method in enumerate(data["methods"])
    )
    everyone = '<button type="button" data-all="show">all</button><button type="button" data-all="hide">none</button>'
    many = len(data["methods"])
    methods = (
        f'<div class="legend" role="group" aria-label="Methods shown">{legend}{everyone if many > 4 else ""}</div>'
    )
    several = any(task["seeds"] > 1 for task in data["tasks"])  # one run is its own mean
    statistic = _switch("statistic", "Curves", _STATISTICS) if several else ""
    return f"""<div class="controls" role="region" aria-label="Switches for all charts">
<div class="row">{statistic}{_switch("axis", "by" if several else "Curves by", axes)}</div>
{methods if many > 1 else ""}</div>"""


def task_section(
    k: int, task: dict[str, Any], order: Sequence[str], rows: Sequence[Headline], explored: Sequence[Group]
) -> str:
    """One task: the headline, the curves, and Q̂ at work."""
    kinds = {kind for curves in task["curves"].values() for kind in curves}
    goal = "no threshold" if task["threshold"] is None else f"solved from {shown(task['threshold'])} on"
    tables = (headline_table(rows, order) + _read(rows) if rows else "") + (
        explored_table(explored, order) if explored else ""
    )
    charts = "".join(_curve(k, task, kind) for kind in ("evaluation", "training") if kind in kinds)
    return f"""<section class="task{"" if k else " first"}" id="task{k}" aria-labelledby="name{k}">
<div class="heading"><h2 id="name{k}">{escape(task["name"])}</h2><p class="soft">{goal}</p></div>
<div class="card">{tables}</div>
<div class="pair">{charts}</div>
{_heat(k, task, order)}
</section>"""


def _read(rows: Sequence[Headline]) -> str:
    """How to read the headline, as far as it has these columns."""
    several, compared = any(row.seeds > 1 for row in rows), any(row.improvement for row in rows)
    goal = rows[0].threshold is not None
    words = [_read_goal(several, rows[0].threshold)] if goal else []
    if compared and goal:
        words.append("Speed-up: how many times as many steps the other needs (neither in time: both medians lie beyond "
                     "the budget).")  # fmt: skip
    if compared:
        words.append(_read_chance(rows))
    spreads = {row.spread for row in rows}
    few = f"range of the runs; {LEAST_RUNS} are the fewest for a 95 % interval" if "range" in spreads else ""
    if "interval" in spreads:
        words.append(
            f"Small print: 95 % interval{f', or, of fewer than {LEAST_RUNS} runs, their range' if few else ''}."
        )
    elif few:
        words.append(f"Small print: {few}.")
    return f'<p class="soft">{" ".join(words)}</p>' if words else ""


def _read_chance(rows: Sequence[Headline]) -> str:
    if not estimated(rows):
        return "Pairs that end higher: of a run of each, a tie counted half."
    few = any(math.isnan(found.low) for row in rows for found in row.improvement.values())
    short = f"; of fewer than {LEAST_RUNS} runs in how many pairs it did, a tie counted half" if few else ""
    return f"Chance to be better: that a run ends higher than one of the other’s{short}."


def _read_goal(several: bool, threshold: float | None) -> str:
    median = ": median over seeds, those that never do counted as such" if several else ""
    words = f"Steps until the agent’s own deterministic policy reaches the threshold{median}. Kept it: "
    if several:
        words += "of those that did and were seen afterwards, how many were"
    else:
        words += "whether it was"
    until = f"the next {KEEP_STEPS:,} steps, or what was left of the run"
    whole = "the threshold" if threshold else "the way up from its first evaluation"
    return f"{words} at most {100 * KEEP_TOLERANCE:.0f} % of {whole} below it, on average over {until}."


def overall_section(data: dict[str, Any]) -> str:
    """All tasks at once, if there are several."""
    if not data["overall"]:
        return ""
    tasks = len(data["overall"]["tasks"])
    rows = len(data["overall"]["scores"])
    known = all(row["value"][1] is not None for row in data["overall"]["scores"])
    words = "; ".join(
        f"{data['methods'][row['method']]['name']} {shown(row['value'][0])}" for row in data["overall"]["scores"]
    )
    return f"""<section class="plain" aria-labelledby="overall">
<div class="heading"><h2 id="overall">Over {tasks} tasks</h2>
<p class="soft">the agent in the last tenth of each run; 0 is the worst ever seen on a task, 1 the threshold</p></div>
<div class="pair">
<figure class="card"><h3>Interquartile mean{" with 95 % interval" if known else ""}</h3>
<div class="plot waiting" data-overall="scores" role="img"
 aria-label="{escape(f"Interquartile means over tasks: {words}.")}"
 style="height:{max(15, 3.5 + 1.75 * rows)}rem"></div></figure>
<figure class="card"><h3>Performance profile</h3>
<div class="plot waiting" data-overall="profile" role="img" aria-label="Share of runs above each score, by method."
 style="height:{max(15, 3.5 + 1.75 * rows)}rem"></div></figure>
</div></section>"""


def downloads(trained: bool) -> str:
    """Buttons that save what the page holds."""
    names = {"curves.csv": "Curves (CSV)", "report.json": "All data (JSON)"}
    if trained:
        names = {"headline.csv": "Headline table (CSV)"} | names
    buttons = "".join(
        f'<button type="button" class="button" data-file="{name}">{text}</button> ' for name, text in names.items()
    )
    return f'<div class="bar">{buttons}</div><p class="soft on-screen">Saved from this page; nothing is fetched.</p>'


def _switch(name: str, title: str, choices: dict[str, str]) -> str:
    labels = "".join(
        f'<label><input type="radio" name="{name}" value="{value}"{" checked" if not at else ""}>{text}</label>'
        for at, (value, text) in enumerate(choices.items())
    )
    return f'<fieldset><legend>{title}</legend><span class="switch">{labels}</span></fieldset>'


def _curve(k: int, task: dict[str, Any], kind: str) -> str:
    if kind == "evaluation":
        title, words = "The agent alone", "Deterministic, on an environment of its own: what the agent itself can do."
    else:
        title, words = "Training returns", "Every episode of training, whoever drove it."
        if task["explored"]:
            many = len(task["methods"]) > 1
            strips = "strips below, one for each method as in the list above, are" if many else "strip below is"
            words += f" The {strips} filled while the explorer acts, and bare once the agent does."
    if task["seeds"] > 1:
        around = f"95 % intervals of the interquartile mean ({task['samples']} bootstrap samples)"
        if task["seeds"] < LEAST_RUNS:
            around = "from the lowest run to the highest"
        elif task["fewest"] < LEAST_RUNS:
            around += f", of fewer than {LEAST_RUNS} runs from the lowest to the highest"
        words += f" Bands: {around}; around the mean one standard deviation."
    tall = kind == "training" and task["explored"]
    rows = f' style="--rows:{len(task["methods"])}"' if tall else ""
    return f"""<figure class="card"><h3>{title}</h3>
<div class="plot tall waiting" data-task="{k}" data-kind="{kind}" role="img"
 aria-label="{title} on {escape(task["name"])}"{rows}></div>
<figcaption>{words} <span class="ends"></span></figcaption>
<details data-table="{kind}"><summary>Table</summary><div class="scroll" tabindex="0"></div></details></figure>"""


def _heat(k: int, task: dict[str, Any], order: Sequence[str]) -> str:
    methods = sorted({*task["heat"], *task["choices"]})
    if not methods:
        return ""
    richest = max(
        methods, key=lambda m: (m in task["choices"], "completed" in task["heat"].get(m, {}).get("layers", {}), -m)
    )
    options = "".join(
        f'<option value="{m}"{" selected" if m == richest else ""}>{escape(order[m])}</option>' for m in methods
    )
    layers = [name for name in _MAPS if any(name in heat["layers"] for heat in task["heat"].values())]
    maps = "".join(_map(name, task["name"]) for name in layers)
    most = max((len(heat["steps"]) for heat in task["heat"].values()), default=1) - 1
    timeline = f"""<div class="timeline"><button type="button" class="button play">Play</button>
<input type="range" min="0" max="{most}" value="{most}" step="1" aria-label="Training time"><output></output></div>"""
    return f"""<div class="card heat" data-task="{k}" role="group" aria-label="Q̂ at work on {escape(task["name"])}">
<h3>Q̂ at work<span class="on-paper"></span></h3>
<div class="bar"><label class="soft">Method <select>{options}</select></label>{timeline if maps else ""}</div>
<div class="maps">{maps}</div><p class="soft slice"></p>
<div class="pair">{_spectrum(task)}{_members(task)}</div></div>"""


def _map(name: str, task: str) -> str:
    title, words = _MAPS[name]
    return f"""<figure><h3>{title}</h3>
<div class="plot waiting" data-chart="{name}" role="img" aria-label="{title} on {escape(task)}. {words}"></div>
<figcaption>{words}</figcaption></figure>"""


def _spectrum(task: dict[str, Any]) -> str:
    if not any("singular" in heat for heat in task["heat"].values()):
        return ""
    return """<figure><h3>Is Q̂ low-rank? Singular values over time</h3>
<div class="plot waiting" data-chart="singular" role="img"
 aria-label="Singular values of Q̂, as shares of the first; numbers in the table."></div>
<figcaption>Of Q̂ over states seen and all actions. <span class="rank"></span></figcaption>
<details data-table="singular"><summary>Table</summary><div class="scroll" tabindex="0"></div></details></figure>"""


def _members(task: dict[str, Any]) -> str:
    if not task["choices"]:
        return ""
    return """<figure><h3>Whom the committee chose</h3>
<div class="plot waiting" data-chart="choices" role="img"
 aria-label="Share of each member of the committee by episode; numbers in the table."></div>
<figcaption>Which member drove each of the explorer’s episodes, over seeds. <span class="shared"></span></figcaption>
<details data-table="choices"><summary>Table</summary><div class="scroll" tabindex="0"></div></details></figure>"""
