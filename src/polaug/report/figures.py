"""Figures for papers, as PNG and PDF with matplotlib: the learning curves of each task, and Q̂ at work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure

from polaug.report.curves import bands
from polaug.report.grids import Grid, evaluations, training
from polaug.report.labels import VISITS, dimension_name, in_order, line_style
from polaug.state import State, safe_write
from polaug.study.folder import check_written_by_polaug, folder_name
from polaug.study.results import Run
from polaug.study.wording import number

_DASHES = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "dashdot"}
_SHADES: dict[str, str | Colormap] = {
    "visits": LinearSegmentedColormap.from_list("visits", VISITS),
    "uncertainty": "viridis",
}
STYLE: Any = {
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
    with mpl.rc_context(STYLE):
        for task, mine in groupby(ordered, key=lambda run: run.task):
            same = list(mine)
            curves, maps = _stems(folder, task)
            written += save_figure(_curves(task, same, order), curves)
            drawn = next((run for run in same if run.maps and "completed" in run.maps), None)
            if drawn is not None and drawn.maps is not None:
                written += save_figure(_at_work(drawn.maps, drawn), maps)
    return written


def check_figure_files(runs: Sequence[Run], folder: Path) -> None:
    """Refuse a `folder` in which `write_figures` would replace files that polaug has not written."""
    for stem in (stem for task in {run.task for run in runs} for stem in _stems(folder, task)):
        check_figures(stem)


def _stems(folder: Path, task: str) -> tuple[Path, Path]:
    """Where the curves and the maps of a task go."""
    return folder / f"curves-{folder_name(task)}", folder / f"maps-{folder_name(task)}"


def _curves(task: str, runs: list[Run], order: list[str]) -> Figure:
    """The agent alone and training returns by environment steps: interquartile means and `bands`."""
    kinds = [(evaluations, "the agent alone"), (training, "training")]
    panels = [panel for panel in kinds if panel[0] is training or any(run.evaluations is not None for run in runs)]
    led = any("explorer" in run.episodes.actors for run in runs) and any("agent" in run.episodes.actors for run in runs)
    rows = len({run.method for run in runs}) if led else 0
    figure = Figure(figsize=(3.4 * len(panels), 2.6 + 0.09 * rows), layout="constrained")
    places = figure.add_gridspec(2 if led else 1, len(panels), height_ratios=[2.6, 0.09 * rows] if led else None)
    for at, (make, title) in enumerate(panels):
        strip = led and make is training
        axes: Axes = figure.add_subplot(places[0, at] if strip else places[:, at])
        grids = {name: make(list(mine), "steps") for name, mine in groupby(runs, key=lambda run: run.method)}
        drawn = {method: grid for method, grid in grids.items() if grid is not None and len(grid.x)}
        for method, grid in drawn.items():
            colour, dash = line_style(order.index(method))
            centre, low, high = bands(grid.values)["iqm"]
            axes.fill_between(grid.x, low, high, color=colour, alpha=0.18, lw=0)
            lone = "o" if len(grid.x) == 1 else None
            axes.plot(grid.x, centre, color=colour, ls=_DASHES[dash], lw=1.3, marker=lone, label=_text(method))
        if runs[0].threshold is not None:
            axes.axhline(runs[0].threshold, color="0.4", lw=0.7, ls=(0, (4, 4)))
        axes.set(xlabel="environment steps", ylabel="return", title=f"{_text(task)}: {title}")
        axes.grid(axis="y", color="0.92", lw=0.6)
        if strip:
            below = figure.add_subplot(places[1, at], sharex=axes)
            _drivers(below, [(line_style(order.index(method))[0], grid) for method, grid in drawn.items()])
            below.set_xlabel("environment steps")
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, max(1, len(labels))))
    return figure


def _drivers(axes: Axes, grids: list[tuple[str, Grid]]) -> None:
    """One strip per method, as on the page: filled where the guide drives."""
    for row, (colour, grid) in enumerate(grids):
        shades = LinearSegmentedColormap.from_list("", ["#ecebe6", colour])
        share = np.zeros(len(grid.x)) if grid.share is None else grid.share
        axes.pcolormesh([0.0, *grid.x], [row - 0.38, row + 0.38], share[None], cmap=shades, vmin=0, vmax=1)
    axes.set(ylim=(len(grids) - 0.5, -0.5), yticks=[])
    axes.set_title("filled: the guide drives", fontsize=6.5, color="0.35", loc="right", pad=1.5)
    axes.spines[["left", "bottom"]].set_visible(False)


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
    steps = number(float(maps["steps"][-1]))
    figure.suptitle(f"{_text(run.task)}, {_text(run.method)}, seed {run.seed}, after {steps} steps", fontsize=9)
    return figure


def _text(name: str) -> str:
    """A name escaped for matplotlib, which reads $ as mathematics and hides legend entries that begin with _."""
    escaped = re.sub(r"([$\\])", r"\\\1", name)
    return f"\u200b{escaped}" if name.startswith("_") else escaped


def check_figures(stem: Path) -> None:
    """Refuse to replace a figure that polaug has not drawn."""
    for kind in ("png", "pdf"):
        check_written_by_polaug(_path(stem, kind))


def save_figure(figure: Figure, stem: Path, dpi: float | None = None) -> list[Path]:
    """As PNG and as PDF; the same runs give the same files."""
    check_figures(stem)
    save = partial(figure.savefig, format="png", dpi=dpi, metadata={"Software": "polaug"})
    png = safe_write(_path(stem, "png"), save)
    figure.set_layout_engine("none")  # laid out already
    metadata = {"CreationDate": None, "Creator": None, "Producer": "polaug"}
    return [png, safe_write(_path(stem, "pdf"), partial(figure.savefig, format="pdf", metadata=metadata))]


def _path(stem: Path, kind: str) -> Path:
    return stem.with_name(f"{stem.name}.{kind}")
