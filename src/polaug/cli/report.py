"""`polaug report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polaug.cli.options import flag
from polaug.errors import invalid

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with runs, at any depth.")]


def report(
    folder: Folder,
    out: Annotated[Path | None, flag("The page. Default: DIR/report.html.", "FILE")] = None,
    figures: Annotated[bool, typer.Option("--figures", help="Also write PNG and PDF figures to DIR/figures.")] = False,
) -> None:
    """Write one HTML page from the runs in a folder; it works offline.

    Example:
      polaug report runs/compare --figures
    """
    from polaug.report import write_report

    target = out or folder / "report.html"
    if target.is_dir():
        raise invalid("--out", "must be a file, not a folder", str(target), f"For example {target / 'report.html'}.")
    print(f"report: {write_report(folder, out, figures)}")
    if figures:
        print(f"figures: {folder / 'figures'}")
