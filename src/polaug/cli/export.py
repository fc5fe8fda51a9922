"""The runs in a folder as tidy tables: CSV, Parquet where pyarrow is installed, and a JSON summary."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from polaug.cli.arguments import described, names, writing


def add_parser(commands: Any) -> None:
    """`polaug export`."""
    parser = commands.add_parser("export", **described(f"{__doc__}\n\nexample:\n  polaug export runs/compare"))
    parser.add_argument("folder", type=Path, metavar="DIR", help="a folder with runs, at any depth")
    parser.add_argument("--out", type=Path, default=None, metavar="DIR", help="(DIR/export)")
    parser.add_argument("--formats", default="csv,json", metavar="NAME[,NAME]", help="csv, parquet, json (%(default)s)")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    """Write them."""
    from polaug.study.export import export

    out = args.out or args.folder / "export"
    with writing("the tables", out):
        paths = export(args.folder, args.out, names(args.formats))
    for path in paths:
        print(path)
