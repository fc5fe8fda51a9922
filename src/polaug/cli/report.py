"""One HTML page from the runs in a folder, which works without a network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from polaug.cli.arguments import described


def add_parser(commands: Any) -> None:
    """`polaug report`."""
    parser = commands.add_parser(
        "report", **described(f"{__doc__}\n\nexample:\n  polaug report runs/compare --figures")
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder with runs, at any depth")
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="(DIR/report.html)")
    parser.add_argument("--figures", action="store_true", help="PNG and PDF figures for papers too, in DIR/figures")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    """Write it."""
    from polaug.report import write_report

    print(f"report: {write_report(args.folder, args.out, args.figures)}")
    if args.figures:
        print(f"figures: {args.folder / 'figures'}")
