"""Shell completion: a script for bash, zsh or fish, made from the parser itself, so that it knows what there is.

It completes commands, flags, and the names of tasks, methods, explorers and transfers; lists with commas, too.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from typing import Any

from polaug.cli.arguments import SUITES, described
from polaug.cli.listing import transfers
from polaug.cli.shells import SHELLS, Command, Slot
from polaug.exploration import METHODS as EXPLORERS
from polaug.study import TASKS
from polaug.study.methods import ALGORITHMS, METHODS

_EXAMPLE = """examples, to be put into the shell's start-up file:
  source <(polaug completion bash)
  source <(polaug completion zsh)
  polaug completion fish | source"""

PATHS = {"DIR": "folder", "FILE": "file", "MODEL": "file"}
"""What a metavar says of a path; anything else that has no names below is not completed."""


def add_parser(commands: Any) -> None:
    """`polaug completion`."""
    parser = commands.add_parser("completion", **described(f"{__doc__}\n\n{_EXAMPLE}"))
    parser.add_argument("shell", choices=tuple(SHELLS), help="whose script to print")
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    """Print it."""
    from polaug.cli import parser

    print(script(args.shell, parser()), end="")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The completion script of `shell` for everything that `parser` takes."""
    return SHELLS[shell](list(described_commands(parser)))


def described_commands(parser: argparse.ArgumentParser) -> Iterator[Command]:
    """Every command of the parser as plain data."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                slots = tuple(_slot(name, each) for each in command._actions)
                yield Command(name, _short(helps.get(name, "")), slots)


def _slot(command: str, action: argparse.Action) -> Slot:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    flag = action.option_strings[-1] if action.option_strings else ""
    return Slot(
        tuple(action.option_strings), _short(action.help or ""), metavar, takes_value=action.nargs != 0,
        values=tuple(_values(command, flag, metavar, action.choices)), path=PATHS.get(metavar, ""),
        several="," in metavar, many=action.nargs in ("*", "+"),
    )  # fmt: skip


def _values(command: str, flag: str, metavar: str, choices: Iterable[Any] | None) -> Iterable[str]:
    if choices is not None:
        return map(str, choices)
    if metavar == "ENV":
        return (*TASKS, *(SUITES if command in ("compare", "explore") else ()))
    none = ("none",) if command == "train" else ()
    tables: dict[str, Iterable[str]] = {
        "--methods": METHODS, "--algo": ALGORITHMS if command == "watch" else METHODS,
        "--explorer": (*EXPLORERS, *none), "--backend": ("local", "ray"),
        "--transfer": ("auto", *transfers()), "--formats": ("csv", "parquet", "json"),
    }  # fmt: skip
    return tables.get(flag, ())


def _short(text: str) -> str:
    """The first sentence of a help text, without its default."""
    text = re.sub(r"\s*\([^()]*%\(default\)s[^()]*\)", "", " ".join(text.split())).replace("%%", "%")
    return re.split(r"[.;:] ", text)[0].rstrip(".")
