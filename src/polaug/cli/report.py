"""One HTML page from the runs in a folder, which works without a network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from polaug.cli.arguments import described, writing
from polaug.errors import invalid


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

    out = args.out or args.folder / "report.html"
    if out.is_dir():
        raise invalid("--out", "must be a file, not a folder", str(out), f"For example {out / 'report.html'}.")
    with writing("the report", out):
        path = write_report(args.folder, args.out, args.figures)
    print(f"report: {path}")
    if args.figures:
        print(f"figures: {args.folder / 'figures'}")
