"""The command line: parse, call, print. One command per file; each has `add_parser` and `run`."""

from __future__ import annotations

import argparse
import difflib
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import polaug
from polaug.cli import compare, completion, explore, export, listing, paper, report, train, watch
from polaug.errors import PolaugError, UnknownNameError, unknown

COMMANDS = (train, compare, paper, explore, report, watch, export, listing, completion)

EXIT_CODES = """exit codes:
  0    done; where there is too little for a report, the last line says why
  1    a run failed; of a study all others are done
  2    a mistake of the caller's: an unknown name, a folder that holds something else
  130  interrupted with Ctrl-C; finished runs are kept, and the same command does the rest"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    args = argparse.Namespace()
    try:
        args = parser().parse_args(given)
        command: Callable[[argparse.Namespace], int | None] = args.command
        return command(args) or 0
    except PolaugError as fault:
        print(f"polaug: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = f"; {args.interrupted}" if "interrupted" in args else ""
        print(f"polaug: interrupted{kept}. Go on with: {shlex.join(['polaug', *given])}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `polaug list | head`
        sys.stderr.close()
        return 0
    except OSError as fault:  # a full disk, a folder that may not be written to
        print(f"polaug: {fault}", file=sys.stderr)
        return 2


class Parser(argparse.ArgumentParser):
    """argparse whose mistakes are one line too, and whose help keeps the lines of its example."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("epilog", EXIT_CODES)
        kwargs.setdefault("allow_abbrev", False)  # --step for --steps works until there is a --step-size
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed through

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """What is left over is refused here, by the command that was asked, instead of by all of polaug."""
        found, rest = super().parse_known_args(*args, **kwargs)
        option = next((word.split("=")[0] for word in rest if word.startswith("-")), None)
        if option is not None:
            near = difflib.get_close_matches(option, self._option_string_actions, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UnknownNameError(f"{option}: {self.prog} has no such option.{hint} `{self.prog} --help` shows all.")
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """One line, with the nearest valid name."""
        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            raise unknown("command", wrong[1], re.findall(r"[\w-]+", wrong[2]))
        raise PolaugError(f"{message}. `{self.prog} --help` shows what there is.")


def parser() -> argparse.ArgumentParser:
    """Everything that can be said on the command line."""
    top = Parser(prog="polaug", description=polaug.__doc__)
    top.add_argument("--version", action="version", version=f"polaug {polaug.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        command.add_parser(commands)
    return top
