"""Figures for papers, as PNG and PDF with matplotlib: the learning curves of each task, and Q̂ at work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure

from polaug.report.curves import bands
from polaug.report.digits import shown
from polaug.report.dimensions import dimension_name
from polaug.report.grids import Grid, evaluations, training
from polaug.report.palette import VISITS, in_order, look
from polaug.state import State
from polaug.study.figure_files import check_figures, save_figure
from polaug.study.folder import folder_name
from polaug.study.results import Run

_DASHES = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "dashdot"}
_SHADES: dict[str, str | Colormap] = {
    "visits": LinearSegmentedColormap.from_list("visits", VISITS),
    "uncertainty": "viridis",
}
_STYLE: Any = {
    "font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "pdf.fonttype": 42,
    "axes.titlesize": 9, "legend.frameon": False, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "savefig.dpi": 200,
}  # fmt: skip


def write_figures(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw everything into `folder`; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    order = in_order(run.method for run in runs)
    ordered = sorted(runs, key=lambda run: (run.task, order.index(run.method), run.seed))
    written: list[Path] = []
    with mpl.rc_context(_STYLE):
        for task, mine in groupby(ordered, key=lambda run: run.task):
            same = list(mine)
            curves, maps = _stems(folder, task)
            written += save_figure(_curves(task, same, order), curves)
            drawn = next((run for run in same if run.maps and "completed" in run.maps), None)
            if drawn is not None and drawn.maps is not None:
                written += save_figure(_at_work(drawn.maps, drawn), maps)
    return written


def check_figure_files(runs: Sequence[Run], folder: Path) -> None:
    """Refuse a `folder` where somebody else's files have the names that `write_figures` would write."""
    for stem in (stem for task in {run.task for run in runs} for stem in _stems(folder, task)):
        check_figures(stem)


def _stems(folder: Path, task: str) -> tuple[Path, Path]:
    """Where the curves and the maps of a task go."""
    return folder / f"curves-{folder_name(task)}", folder / f"maps-{folder_name(task)}"


def _curves(task: str, runs: list[Run], order: list[str]) -> Figure:
    """The agent alone by steps and training returns by episode, as in the paper: interquartile means and `bands`."""
    kinds = [
        (evaluations, "steps", "environment steps", "the agent alone"),
        (training, "episodes", "episode", "training"),
    ]
    panels = [panel for panel in kinds if panel[0] is training or any(run.evaluations is not None for run in runs)]
    led = any("explorer" in run.episodes.actors for run in runs) and any("agent" in run.episodes.actors for run in runs)
    rows = len({run.method for run in runs}) if led else 0
    figure = Figure(figsize=(3.4 * len(panels), 2.6 + 0.09 * rows), layout="constrained")
    places = figure.add_gridspec(2 if led else 1, len(panels), height_ratios=[2.6, 0.09 * rows] if led else None)
    for at, (make, axis, label, title) in enumerate(panels):
        strip = led and make is training
        axes: Axes = figure.add_subplot(places[0, at] if strip else places[:, at])
        grids = {name: make(list(mine), axis) for name, mine in groupby(runs, key=lambda run: run.method)}
        drawn = {method: grid for method, grid in grids.items() if grid is not None and len(grid.x)}
        centres = {}
        for method, grid in drawn.items():
            colour, dash = look(order.index(method))
            centre, low, high = bands(grid.values)["iqm"]
            centres[method] = (grid.x, centre)
            axes.fill_between(grid.x, low, high, color=colour, alpha=0.18, lw=0)
            lone = "o" if len(grid.x) == 1 else None
            axes.plot(grid.x, centre, color=colour, ls=_DASHES[dash], lw=1.3, marker=lone, label=_text(method))
        if runs[0].threshold is not None:
            axes.axhline(runs[0].threshold, color="0.4", lw=0.7, ls=(0, (4, 4)))
        axes.set(xlabel=label, ylabel="return", title=f"{_text(task)}: {title}")
        axes.grid(axis="y", color="0.92", lw=0.6)
        for group in _coinciding(centres):
            x, centre = centres[group[0]]
            axes.annotate(f"{', '.join(map(_text, group))}: the same line", (x[-1], centre[-1]), xytext=(0, 2),
                          textcoords="offset points", ha="right", fontsize=6.5, color="0.35")  # fmt: skip
        if strip:
            below = figure.add_subplot(places[1, at], sharex=axes)
            _drivers(below, [(look(order.index(method))[0], grid) for method, grid in drawn.items()])
            below.set_xlabel(label)
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, max(1, len(labels))))
    return figure


def _drivers(axes: Axes, grids: list[tuple[str, Grid]]) -> None:
    """As on the page a row for each method in its colour: filled where the explorer drove, bare where the agent did."""
    for row, (colour, grid) in enumerate(grids):
        shades = LinearSegmentedColormap.from_list("", ["#ecebe6", colour])
        share = np.zeros(len(grid.x)) if grid.share is None else grid.share
        axes.pcolormesh([0.0, *grid.x], [row - 0.38, row + 0.38], share[None], cmap=shades, vmin=0, vmax=1)
    axes.set(ylim=(len(grids) - 0.5, -0.5), yticks=[])
    axes.set_title("filled: the explorer drove", fontsize=6.5, color="0.35", loc="right", pad=1.5)
    axes.spines[["left", "bottom"]].set_visible(False)


def _coinciding(centres: dict[str, tuple[Any, Any]]) -> list[list[str]]:
    """Methods whose lines lie on each other, from end to end within a hundredth of the picture."""
    lines = {name: line for name, line in centres.items() if len(line[0]) > 1}
    if not lines:
        return []
    every = np.concatenate([centre for _, centre in lines.values()])
    near, groups = 0.01 * np.ptp(every), list[list[str]]()
    for name, (x, centre) in lines.items():
        for group in groups:
            there, other = lines[group[0]]
            at = np.linspace(0.0, min(x[-1], there[-1]), 25)
            if np.abs(np.interp(at, x, centre) - np.interp(at, there, other)).max() <= near:
                group.append(name)
                break
        else:
            groups.append([name])
    return [group for group in groups if len(group) > 1]


def _at_work(maps: State, run: Run) -> Figure:
    """Visits, Q̃, Q̂ and its uncertainty at the end of a run."""
    names = [name for name in ("visits", "observed", "completed", "uncertainty") if name in maps]
    titles = {"visits": "visits", "observed": "observed Q̃", "completed": "completed Q̂", "uncertainty": "uncertainty"}
    (left, right), (bottom, top) = (edge[[0, -1]] for edge in maps["edges"])
    figure = Figure(figsize=(2.4 * len(names), 2.3), layout="constrained")
    for at, name in enumerate(names, start=1):
        axes: Axes = figure.add_subplot(1, len(names), at)
        cells = maps[name][-1].astype(float)
        norm: Normalize | None = None
        if name in ("observed", "completed"):  # the same colours, so that they can be compared
            both = np.concatenate([maps[each][-1].ravel() for each in ("observed", "completed")])
            norm = Normalize(float(np.nanmin(both)), float(np.nanmax(both))) if np.isfinite(both).any() else None
        if name == "visits":
            cells, norm = np.where(cells > 0, cells, np.nan), LogNorm(1, max(2.0, float(cells.max())))
        if name == "uncertainty":
            norm = Normalize(0.0, 1.0)
        image = axes.imshow(cells.T, origin="lower", extent=(left, right, bottom, top), aspect="auto",
                            cmap=_SHADES.get(name, "cividis"), norm=norm, interpolation="nearest")  # fmt: skip
        i, j = maps["dimensions"].tolist()
        axes.set(xlabel=dimension_name(run, i), ylabel=dimension_name(run, j) if at == 1 else "", title=titles[name])
        bar = figure.colorbar(image, ax=axes)
        bar.outline.set_visible(False)
    steps = shown(float(maps["steps"][-1]))
    figure.suptitle(f"{_text(run.task)}, {_text(run.method)}, seed {run.seed}, after {steps} steps", fontsize=9)
    return figure


def _text(name: str) -> str:
    """A name that matplotlib neither reads as mathematics nor leaves out of the legend."""
    return (
        re.sub(r"([$\\])", r"\\\1", name) if not name.startswith("_") else "\u200b" + re.sub(r"([$\\])", r"\\\1", name)
    )
