"""The paper's figures 1, 2b and 3b from run folders, as PNG and PDF.

2b and 3b show what the paper's do, the training return of the first 100 episodes, mean and one standard deviation over
seeds, but one panel per method: nine bands in one panel hide each other. A strip below says whether agent or explorer
drove.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import polaug
from polaug.errors import invalid
from polaug.paper.study import METHODS, OURS
from polaug.paper.tables import ACTIONS, EXPLORERS, q_tables
from polaug.report.figures import STYLE, check_figures, save_figure
from polaug.state import State, save_state
from polaug.study.folder import check_inside, check_written_by_polaug
from polaug.study.results import Run, find_runs
from polaug.study.wording import number

EPISODES = 100
FIGURES = {"CartPole-paper": "figure_2b", "MountainCar-paper": "figure_3b"}

# Okabe and Ito's colours, which colour-blind readers can tell apart; three families of methods, not nine colours.
_BASELINE, _PRINTED, _OUR = "#0072B2", "#D55E00", "#009E73"
_FAMILIES = {
    "without Policy Augmentation": _BASELINE, "Policy Augmentation as printed": _PRINTED, "ours": _OUR,
}  # fmt: skip
_STYLE: Any = STYLE | {"font.size": 9}
_PUSHES = ("push left", "coast", "push right")
_UNSEEN = "#d9d9d9"
_DPI = 150


def figures(
    folder: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, *, q_episodes: int = 20
) -> list[Path]:
    """Draw what the runs in `folder` allow into `out` (by default `folder`/figures), and give the files.

    Figure 1 needs no run but two explorers that drive for `q_episodes`; its numbers are saved beside it.
    """
    target = Path(folder) / "figures" if out is None else Path(out)
    runs = [run for run in find_runs(folder) if run.task in FIGURES and len(run.returns)]
    if not runs:
        raise invalid("folder", "must hold runs of the paper's tasks", str(folder), "Run `polaug paper` first.")
    if out is None:
        check_inside(target, Path(folder))
    drawn = {name: [run for run in runs if run.task == task] for task, name in FIGURES.items()}
    for name in ("figure_1", *(name for name, mine in drawn.items() if mine)):
        check_figures(target / name)
    check_written_by_polaug(target / "figure_1.npz")
    target.mkdir(parents=True, exist_ok=True)
    tables = q_tables(q_episodes)
    save_state(target / "figure_1.npz", tables | {"polaug": np.array(polaug.__version__)})  # by which it is known
    written = save_figure(figure_1(tables), target / "figure_1", _DPI)
    for name, mine in drawn.items():
        if mine:
            written += save_figure(learning_curves(mine), target / name, _DPI)
    return written


def learning_curves(runs: Sequence[Run]) -> Figure:
    """One task: a panel per method, the others' means in grey behind it."""
    by_method: dict[str, list[Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    methods = sorted(by_method, key=lambda name: (METHODS.index(name) if name in METHODS else len(METHODS), name))
    episodes = min(EPISODES, *(len(run.returns) for run in runs))
    returns = {name: np.stack([run.returns[:episodes] for run in by_method[name]]) for name in methods}
    columns = min(3, len(methods))
    rows = -(-len(methods) // columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(3.1 * columns + 0.4, 2.1 * rows + 0.9), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, name in zip(grid, methods, strict=False):
            _panel(axes, name, returns, runs[0].threshold)
            _drivers(axes, [run.episodes.actors[:episodes] for run in by_method[name]])
        for axes in grid[len(methods) :]:
            axes.set_visible(False)
        for axes in grid[max(0, len(methods) - columns) : len(methods)]:  # the lowest panel of each column
            axes.set_xlabel("episode")
            axes.tick_params(labelbottom=True)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        shown = [*returns.values(), np.array([] if runs[0].threshold is None else [runs[0].threshold])]
        everything = np.concatenate([each.ravel() for each in shown])
        low, high = float(everything.min()), float(everything.max())
        room = 0.12 * max(high - low, 1e-9)
        grid[0].set(xlim=(1, max(episodes, 2)), ylim=(low - room, high + 0.25 * room))
        counts = sorted({len(mine) for mine in by_method.values()})
        seeds = "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        figure.suptitle(f"{runs[0].task}: training return of the first {episodes} episodes\n"
                        f"mean and one standard deviation over {seeds} seeds", fontsize=10)  # fmt: skip
        figure.legend(handles=_legend(runs[0].threshold), loc="outside lower center", ncols=3, frameon=False)
        figure.supylabel("return", fontsize=9)
    return figure


def _panel(axes: Axes, name: str, returns: Mapping[str, NDArray[np.float64]], threshold: float | None) -> None:
    for other, values in returns.items():
        if other != name:
            axes.plot(np.arange(1, values.shape[1] + 1), values.mean(axis=0), color="#c4c4c4", lw=0.6)
    values, colour = returns[name], _colour(name)
    at, mean = np.arange(1, values.shape[1] + 1), values.mean(axis=0)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(at, mean - spread, mean + spread, color=colour, alpha=0.25, lw=0)
    axes.plot(at, mean, color=colour, lw=1.6)
    if threshold is not None:
        axes.axhline(threshold, color="black", lw=0.6, ls=(0, (4, 4)), zorder=0)
    axes.set_title(name, loc="left", color=colour, fontweight="bold", fontsize=10)


def _legend(threshold: float | None) -> list[Line2D]:
    handles = [Line2D([], [], color=colour, lw=2, label=name) for name, colour in _FAMILIES.items()]
    handles.append(Line2D([], [], color="#c4c4c4", lw=1, label="means of the other methods"))
    handles.append(Line2D([], [], color="#333333", lw=5, label="driven by the explorer"))
    if threshold is not None:
        handles.append(Line2D([], [], color="black", lw=0.8, ls=(0, (4, 4)), label=f"threshold {number(threshold)}"))
    return handles


def _drivers(axes: Axes, actors: Sequence[Sequence[str]]) -> None:
    """A bar along the bottom: the darker, the more seeds had this episode driven by the explorer."""
    share = np.mean([[actor == "explorer" for actor in each] for each in actors], axis=0)
    if share.any():
        axes.imshow(share[None], extent=(0.5, len(share) + 0.5, 0.0, 0.035), transform=axes.get_xaxis_transform(),
                    aspect="auto", cmap="Greys", vmin=0, vmax=1.2)  # fmt: skip


def figure_1(tables: State) -> Figure:
    """For each explorer two rows of heat maps, Q observed and Q̂ completed, by action and with the best one."""
    titles = {"paper": "as printed", "portfolio": "polaug's default"}
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10.5, 9.6), layout="constrained")
        blocks: Any = figure.subfigures(len(EXPLORERS), 1, hspace=0.04)
        for block, name in zip(blocks, EXPLORERS, strict=True):
            observed, completed = tables[f"{name}.observed"], tables[f"{name}.completed"]
            panels = block.subplots(2, ACTIONS + 1, sharex=True, sharey=True)
            _row(block, panels[0], observed, "Q̃ observed")
            _row(block, panels[1], completed, "Q̂ completed")
            for axes in panels[1]:
                axes.set_xlabel("position")
            tried = int(np.isfinite(observed).sum())
            block.suptitle(f"{name} ({titles[name]}): {int(tables[f'{name}.steps']):,} steps in "
                           f"{int(tables['episodes'])} episodes, {tried} of {observed.size} pairs tried (grey: not)",
                           fontsize=11, fontweight="bold")  # fmt: skip
    return figure


def _row(block: Any, panels: Sequence[Axes], values: NDArray[np.float64], label: str) -> None:
    """One panel per action on one colour scale, then the best action."""
    extent = (-1.25, 0.65, -0.075, 0.075)  # of the cells, whose centres are the grid's points
    shades = mpl.colormaps["cividis"].with_extremes(bad=_UNSEEN)
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0.0, 1.0)
    image: Any = None
    for a in range(ACTIONS):
        image = panels[a].imshow(values[:, :, a].T, origin="lower", extent=extent, aspect="auto", cmap=shades,
                                 vmin=low, vmax=high)  # fmt: skip
        panels[a].set_title(_PUSHES[a], fontsize=9)
    panels[0].set_ylabel(f"{label}\nvelocity")
    block.colorbar(image, ax=list(panels[:ACTIONS]), shrink=0.9, aspect=14)
    tried = known.any(axis=2)
    best = np.where(tried, np.where(known, values, -np.inf).argmax(axis=2), np.nan)
    colours = ListedColormap(["#0072B2", "#F0E442", "#D55E00"]).with_extremes(bad=_UNSEEN)
    norm = BoundaryNorm(np.arange(-0.5, ACTIONS), ACTIONS)
    image = panels[-1].imshow(best.T, origin="lower", extent=extent, aspect="auto", cmap=colours, norm=norm)
    panels[-1].axhline(0.0, color="black", lw=0.6)
    panels[-1].set_title("best action", fontsize=9)
    bar = block.colorbar(image, ax=panels[-1], ticks=range(ACTIONS), shrink=0.9, aspect=14)
    bar.set_ticklabels(["left", "coast", "right"])


def _colour(name: str) -> str:
    if name.endswith("+pa-paper"):
        return _PRINTED
    return _OUR if name in OURS and "+pa" in name else _BASELINE
