"""Flags that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import difflib
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym

from polaug.errors import InvalidInputError, StateError, UnknownNameError, invalid
from polaug.study import CLASSIC, PAPER, TASKS

SUITES = {"classic": [each.name for each in CLASSIC], "paper": [each.name for each in PAPER]}


RUNS_ARE_KEPT = "finished runs are kept, those under way start anew"
"""What Ctrl-C leaves of several runs."""


def described(text: str) -> dict[str, str]:
    """Keywords of `add_parser` from a command's docstring: its first line is the help, all of it the description."""
    return {"help": text.split("\n\n")[0].rstrip("."), "description": text.replace("%", "%%")}


def whole_number(least: int, example: int) -> Callable[[str], int]:
    """How a flag's text becomes a whole number; `example` is what the message proposes instead."""

    def read(text: str) -> int:
        value = _integer(text)
        if value is None or value < least:
            rule = f"must be a whole number of at least {least}, got {text!r}; for example {example}"
            raise argparse.ArgumentTypeError(rule)
        return value

    return read


def any_whole_number(text: str) -> int:
    """A whole number of any size and sign: the rule is checked where it is known."""
    value = _integer(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}; for example 1000")
    return value


def _integer(text: str) -> int | None:
    """`10000`, `10_000` or `1e4`; None for anything else."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else None  # beyond that floats skip numbers


def positive_number(example: float) -> Callable[[str], float]:
    """How a flag's text becomes a number above 0."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}; for example {example:g}")
        return value

    return read


def add_envs(parser: argparse.ArgumentParser, *, many: bool = True) -> None:
    """ENV..., or --env ENV for those who like flags."""
    suites = " and ".join(SUITES) + " mean the suites" if many else "see `polaug list`"
    text = f'a task, any Gymnasium id, or "package:Id-v0" ({suites})'
    parser.add_argument("env", nargs="*" if many else "?", metavar="ENV", help=text)
    parser.add_argument("--env", action="append", dest="more_envs", default=[], metavar="ENV", help="the same")


def envs(args: argparse.Namespace) -> list[str]:
    """The environments that were named, suites spelt out."""
    given = args.env if isinstance(args.env, list) else [args.env] if args.env else []
    words = [*given, *args.more_envs]
    if isinstance(args.env, list):
        for word in words:
            _check_suite(word)
    found = [name for word in words for name in SUITES.get(word, [word])]
    if not found:
        raise InvalidInputError("ENV: none was named. For example MountainCar-v0; `polaug list` shows more.")
    return found


def _check_suite(word: str) -> None:
    """A misspelt suite; anything else that is not there is found out by who looks for the task."""
    near = difflib.get_close_matches(word.casefold(), SUITES, n=1, cutoff=0.75)
    if near and word not in (*SUITES, *TASKS, *gym.registry):
        raise UnknownNameError(f"ENV: no suite and no task is called {word!r}. Did you mean the suite {near[0]!r}? "
                               "`polaug list` shows the tasks.")  # fmt: skip


def add_budget(parser: argparse.ArgumentParser, *, steps: int, episodes: int | None = None) -> None:
    """How long a run is, and how often the agent is looked at."""
    unless = "" if episodes else " unless --episodes is given"
    flags: tuple[tuple[str, int | None, int, str], ...] = (
        ("--steps", None, steps, f"least environment steps of a run ({steps}{unless})"),
        ("--episodes", None, episodes or 100, f"least episodes of a run ({episodes or 'any'})"),
        ("--every", 1_000, 1_000, "steps between evaluations (%(default)s)"),
        ("--eval-episodes", 10, 10, "episodes of an evaluation (%(default)s)"),
    )
    for flag, default, example, text in flags:
        parser.add_argument(flag, type=whole_number(1, example), default=default, metavar="N", help=text)
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


def add_seeds(parser: argparse.ArgumentParser, count: int, *, first: bool = True) -> None:
    """How many seeds, and with `first` also where they begin."""
    parser.add_argument(
        "--seeds", type=whole_number(1, count), default=count, metavar="K", help="number of seeds (%(default)s)"
    )
    if first:
        add_seed(parser, "the first seed (%(default)s)")


def add_seed(parser: argparse.ArgumentParser, text: str = "of the run (%(default)s)") -> None:
    """One seed."""
    parser.add_argument("--seed", type=whole_number(0, 0), default=0, metavar="S", help=text)


def seeds(args: argparse.Namespace) -> range:
    """What `add_seeds` asked for."""
    return range(args.seed, args.seed + args.seeds)


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Who does the work."""
    cores = os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=whole_number(1, cores), default=cores, metavar="K", help="runs at once (%(default)s)"
    )
    parser.add_argument(
        "--backend", default="local", metavar="NAME", help="local: processes here; ray: a Ray cluster (%(default)s)"
    )
    parser.add_argument(
        "--address", default=None, metavar="ADDR", help="of the Ray cluster; without it Ray starts here"
    )


def add_out(parser: argparse.ArgumentParser, default: str) -> None:
    """Where everything goes."""
    parser.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help="results go here (%(default)s)")


def check_out(out: Path) -> None:
    """Refuse a folder that cannot be written before anything starts; leaves nothing behind."""
    there = next(part for part in (out.absolute(), *out.absolute().parents) if part.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        raise StateError(f"out: {out} cannot be written ({why}). Choose another folder.") from fault


@contextmanager
def writing(what: str, path: Path) -> Iterator[None]:
    """What the system says against writing to `path`, in a sentence."""
    try:
        yield
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        rule = f"{what} must be writable ({why})"
        raise invalid("--out", rule, str(path), "Choose another place, or free this one.") from fault


def names(given: str | Iterable[str]) -> list[str]:
    """`a,b` and `a b` are the same list."""
    words = [given] if isinstance(given, str) else given
    return [name.strip() for word in words for name in word.split(",") if name.strip()]
