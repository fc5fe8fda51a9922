"""The report page: HTML with everything inside it, no script and no network; names are escaped wherever they appear."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from polaug.errors import invalid
from polaug.report import figures
from polaug.report.runs import Run, find_runs
from polaug.report.summary import Group, first_success, groups, sentence, shown

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p class="soft">Explorers alone, no agent: every environment step counts, from the first one on.</p>
</header>
{body}
</main>
</body>
</html>
"""


def write_report(folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """One page from all finished runs in `folder`; by default `folder`/report.html. Gives its path."""
    found = groups(find_runs(folder))
    if not found:
        raise invalid("folder", "must hold at least one finished run", str(folder), "Run `polaug explore` first.")
    path = Path(folder) / "report.html" if out is None else Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(found), encoding="utf-8")
    return path


def page(found: Sequence[Group]) -> str:
    """The HTML of the report."""
    order = sorted({group.method for group in found})
    sections = [_task(name, list(mine), order) for name, mine in groupby(found, key=lambda group: group.task)]
    style = files("polaug.report").joinpath("style.css").read_text(encoding="utf-8")
    body = "\n".join([*sections, _settings([run for group in found for run in group.runs])])
    return _PAGE.format(title="Exploration report", style=style, body=body)


def _task(name: str, mine: list[Group], order: list[str]) -> str:
    seen = "".join(f"<li>{escape(sentence(group))}</li>" for group in mine)
    legend = "".join(_legend(group.method, order.index(group.method)) for group in mine)
    label = escape(f"Return by episode on {name}. " + "; ".join(sentence(group) for group in mine))
    return f"""<section>
<h2>{escape(name)}</h2>
<ul class="seen">{seen}</ul>
<figure>
<ul class="legend">{legend}</ul>
{figures.curves(mine, order, label)}
<figcaption>Return of each episode: the mean over seeds, and from the worst to the best of them.</figcaption>
</figure>
{_table(mine)}
{_maps(mine)}
</section>"""


def _legend(method: str, k: int) -> str:
    colour, dashes = figures.look(k)
    border = "dashed" if dashes == "dashdot" else dashes  # CSS knows no dash-dot
    return f'<li><i style="border-color:{colour};border-top-style:{border}"></i>{escape(method)}</li>'


def _table(mine: list[Group]) -> str:
    heads = ("explorer", "seeds", "first success", "mean return, early", "late", "steps", "µs per step")
    rows = []
    for group in mine:
        cost = [run.done["explorer_us_per_step"] for run in group.runs if "explorer_us_per_step" in run.done]
        cells = (
            group.method, str(len(group.runs)), first_success(group), shown(group.early), shown(group.late),
            shown(group.steps), shown(sum(cost) / len(cost)) if cost else "",
        )  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    note = "Early and late: the first and the last quarter of the episodes. First success: the median over seeds."
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        f'<p class="soft">{note}</p>'
    )


def _maps(mine: list[Group]) -> str:
    """Heat maps of each method's first seed that has some."""
    shapes: list[tuple[str, str, str]] = []
    for group in mine:
        run = next((run for run in group.runs if run.maps is not None), None)
        if run is None or run.maps is None:
            continue
        went, believes = escape(f"Where {group.method} went"), escape(f"What {group.method} believes")
        shapes.append((went, figures.visits(run.maps, went), f"Seed {run.seed}: steps in each cell, log scale."))
        if "value" in run.maps:
            caption = f"Seed {run.seed}: max Q̂ at the end."
            shapes.append((believes, figures.values(run.maps, believes), caption))
    if not shapes:
        return ""
    parts = (f"<figure><h3>{title}</h3>{svg}<figcaption>{text}</figcaption></figure>" for title, svg, text in shapes)
    return f'<div class="maps">{"".join(parts)}</div>'


def _settings(runs: list[Run]) -> str:
    """Settings and versions, each different one once."""
    rows: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        settings = {key: value for key, value in run.config.items() if key not in ("seed", "versions")}
        versions: dict[str, Any] = dict(run.config.get("versions") or {})
        rows.setdefault((_listed(settings), _listed(versions)), []).append(run)
    body = "".join(
        f"<tr><td>{escape(settings)}</td><td>{', '.join(str(run.seed) for run in same)}</td>"
        f"<td>{escape(versions)}</td></tr>"
        for (settings, versions), same in rows.items()
    )
    head = "".join(f'<th scope="col">{each}</th>' for each in ("settings", "seeds", "versions"))
    return (
        "<section><details><summary>Settings and versions</summary>"
        f'<div class="scroll"><table class="settings"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        "</details></section>"
    )


def _listed(items: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(items.items()) if value not in (None, {}, ""))
