"""Figures as SVG that takes its ink from the page, so that they suit a light and a dark one alike."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from polaug.report.summary import Group, shown
from polaug.state import State

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C8C")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
DASHES = ("solid", "dashed", "dotted", "dashdot")
"""Lines differ in their dashes too, for print."""

_INK = "#010203"  # replaced by the page's own colour
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "polaug", "font.size": 11, "font.family": "sans-serif",
    "text.color": _INK, "axes.edgecolor": _INK, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
}  # fmt: skip


def look(k: int) -> tuple[str, str]:
    """Colour and dashes of the k-th method."""
    return COLOURS[k % len(COLOURS)], DASHES[k % len(DASHES)]


def curves(groups: Sequence[Group], order: Sequence[str], label: str) -> str:
    """Return by episode: the mean over seeds, a band from the worst to the best seed, the threshold.

    `order` lists all methods of the page, so that each keeps its colour from figure to figure.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.2, 3.5), layout="constrained")
        axes = figure.add_subplot()
        for group in groups:
            colour, dashes = look(order.index(group.method))
            episodes, returns = np.arange(1, group.episodes + 1), group.returns
            axes.fill_between(episodes, returns.min(axis=0), returns.max(axis=0), color=colour, alpha=0.2, lw=0)
            lone = "o" if group.episodes == 1 else None  # a line of one point would be invisible
            axes.plot(episodes, returns.mean(axis=0), lw=1.8, color=colour, linestyle=dashes, marker=lone)
        threshold = groups[0].number("threshold")
        if threshold is not None:
            axes.axhline(threshold, color=_INK, lw=0.7, ls=(0, (4, 4)), alpha=0.7)
            axes.annotate(
                f"solved\n{shown(threshold)}", (1.0, threshold), (5, 0), ("axes fraction", "data"), "offset points",
                ha="left", va="center", fontsize=10,
            )  # fmt: skip
        axes.set(xlabel="episode", ylabel="return", xlim=(1, None) if groups[0].episodes > 1 else None)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y", color=_INK, alpha=0.12, lw=0.6)
        return _svg(figure, label)


def visits(maps: State, label: str) -> str:
    """How often each cell was seen; white (or the page) where never."""
    counts = np.where(maps["visits"] > 0, maps["visits"], np.nan)
    norm = LogNorm(1, max(2.0, float(np.nanmax(counts)))) if np.isfinite(counts).any() else None
    return _heat_map(counts, maps, "steps in a cell", label, norm)


def values(maps: State, label: str) -> str:
    """The best action's Q̂ in the same cells."""
    return _heat_map(maps["value"], maps, "max Q̂", label, None)


def _heat_map(cells: Any, maps: State, unit: str, label: str, norm: Any) -> str:
    (left, right), (bottom, top) = (edge[[0, -1]] for edge in maps["edges"])
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.4, 3.4), layout="constrained")
        axes: Axes = figure.add_subplot()
        image = axes.imshow(
            cells.T, origin="lower", extent=(left, right, bottom, top), aspect="auto", cmap="cividis", norm=norm,
            interpolation="nearest",
        )  # fmt: skip
        axes.set(xlabel="dimension 0", ylabel="dimension 1")
        bar = figure.colorbar(image, ax=axes, label=unit)
        bar.outline.set_visible(False)
        return _svg(figure, label)


def _svg(figure: Figure, label: str) -> str:
    """The figure as an <svg> element that says what it shows; `label` must be escaped already."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
