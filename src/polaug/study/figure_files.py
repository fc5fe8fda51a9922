"""Figures for papers as PNG and PDF: marked as polaug's, so that nobody else's are overwritten, and without dates."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from polaug.study.ours import bears, check_ours, write_whole

_MARKS = {"png": b"Software\0polaug", "pdf": b"/Producer (polaug)"}
"""Kinds of files, and how their metadata are written."""


def check_figures(stem: Path) -> None:
    """Refuse to draw where somebody else's figure is."""
    for kind, mark in _MARKS.items():
        check_ours(_path(stem, kind), bears(mark))


def save_figure(figure: Figure, stem: Path, dpi: float | None = None) -> list[Path]:
    """As PNG and as PDF; the same runs give the same files."""
    check_figures(stem)
    save = partial(figure.savefig, format="png", dpi=dpi, metadata={"Software": "polaug"})
    png = write_whole(_path(stem, "png"), save)
    figure.set_layout_engine("none")  # laid out already
    metadata = {"CreationDate": None, "Creator": None, "Producer": "polaug"}
    return [png, write_whole(_path(stem, "pdf"), partial(figure.savefig, format="pdf", metadata=metadata))]


def _path(stem: Path, kind: str) -> Path:
    return stem.with_name(f"{stem.name}.{kind}")
