"""Flags that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from polaug.errors import invalid
from polaug.study import CLASSIC, PAPER

SUITES = {"classic": [each.name for each in CLASSIC], "paper": [each.name for each in PAPER]}


def described(text: str) -> dict[str, str]:
    """Keywords of `add_parser` from a command's docstring: its first line is the help, all of it the description."""
    return {"help": text.split("\n\n")[0].rstrip("."), "description": text.replace("%", "%%")}


def add_envs(parser: argparse.ArgumentParser, *, many: bool = True) -> None:
    """ENV..., or --env ENV for those who like flags."""
    suites = " and ".join(SUITES) + " mean the suites" if many else "see `polaug list`"
    text = f'a task, any Gymnasium id, or "package:Id-v0" ({suites})'
    parser.add_argument("env", nargs="*" if many else "?", metavar="ENV", help=text)
    parser.add_argument("--env", action="append", dest="more_envs", default=[], metavar="ENV", help="the same")


def envs(args: argparse.Namespace) -> list[str]:
    """The environments that were named, suites spelt out."""
    given = args.env if isinstance(args.env, list) else [args.env] if args.env else []
    found = [name for word in [*given, *args.more_envs] for name in SUITES.get(word, [word])]
    if not found:
        raise invalid("ENV", "at least one must be named", [], "For example MountainCar-v0; `polaug list` shows more.")
    return found


def add_budget(parser: argparse.ArgumentParser, *, steps: int, episodes: int | None = None) -> None:
    """How long a run is, and how often the agent is looked at."""
    unless = "" if episodes else " unless --episodes is given"
    parser.add_argument("--steps", type=int, metavar="N", help=f"least environment steps of a run ({steps}{unless})")
    parser.add_argument("--episodes", type=int, metavar="N", help=f"least episodes of a run ({episodes or 'any'})")
    parser.add_argument("--every", type=int, default=1_000, metavar="N", help="steps between evaluations (%(default)s)")
    parser.add_argument(
        "--eval-episodes", type=int, default=10, metavar="N", help="episodes of an evaluation (%(default)s)"
    )
    parser.set_defaults(default_budget=(steps, episodes))


def budget(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_budget` asked for, as keywords of `Study.of` and `train`."""
    steps, episodes = args.default_budget
    if episodes is None and args.episodes is not None:
        steps = None
    return {
        "steps": steps if args.steps is None else args.steps,
        "episodes": episodes if args.episodes is None else args.episodes,
        "every": args.every, "eval_episodes": args.eval_episodes,
    }  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Who does the work."""
    cores = os.cpu_count() or 1
    parser.add_argument("--workers", type=int, default=cores, metavar="K", help="runs at once (%(default)s)")
    parser.add_argument(
        "--backend", default="local", metavar="NAME", help="local: processes here; ray: a Ray cluster (%(default)s)"
    )
    parser.add_argument(
        "--address", default=None, metavar="ADDR", help="of the Ray cluster; without it Ray starts here"
    )


def add_out(parser: argparse.ArgumentParser, default: str) -> None:
    """Where everything goes."""
    parser.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help="results go here (%(default)s)")


def names(given: str | Iterable[str]) -> list[str]:
    """`a,b` and `a b` are the same list."""
    words = [given] if isinstance(given, str) else given
    return [name.strip() for word in words for name in word.split(",") if name.strip()]
