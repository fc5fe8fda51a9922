"""The paper's study again: its two tasks, its methods and ours, its figures 1, 2b and 3b.

Every environment step and every episode counts, restarts included. The paper's own budget is --steps 2500000.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from polaug.cli.arguments import RUNS_ARE_KEPT, add_budget, add_out, add_seeds, add_workers, budget, described, names
from polaug.cli.ending import run_and_tell

_EXAMPLE = "example:\n  polaug paper --seeds 10 --episodes 100 --out runs/paper"


def add_parser(commands: Any) -> None:
    """`polaug paper`."""
    parser = commands.add_parser("paper", **described(f"{__doc__}\n{_EXAMPLE}"))
    add_seeds(parser, 10, first=False)
    parser.add_argument(
        "--methods", default=None, metavar="NAME[,NAME]", help="other methods than the paper's and ours"
    )
    add_budget(parser, steps=40_000, episodes=100)
    add_workers(parser)
    add_out(parser, "runs/paper")
    parser.set_defaults(command=run, interrupted=RUNS_ARE_KEPT)


def run(args: argparse.Namespace) -> int:
    """Run the study and draw the figures."""
    from polaug.study.paper import paper_study

    chosen: dict[str, Any] = {} if args.methods is None else {"methods": names(args.methods)}
    study = paper_study(args.seeds, **budget(args) | chosen)
    return run_and_tell(study, args, _figures)


def _figures(out: Path) -> list[Path]:
    from polaug.study.paper_figures import figures  # matplotlib is slow to load

    return list(figures(out))
