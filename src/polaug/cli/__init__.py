"""The command line, built with Typer: one command per file, and mistakes in one line with the nearest valid name."""

from __future__ import annotations

import difflib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

import polaug
from polaug.cli import compare, explore, export, listing, paper, push, report, studio, train, tune, watch
from polaug.errors import InvalidInputError, PolaugError, UnknownNameError, unknown

EXIT_CODES = """exit codes:
  0    finished; if no report could be written, the last line says why
  1    at least one run failed; the other runs of the study finished
  2    wrong input, such as an unknown name or a folder with other files
  130  interrupted with Ctrl-C; repeat the command to continue a study"""

COMMANDS: dict[str, Callable[..., int | None]] = {
    "train": train.train, "compare": compare.compare, "paper": paper.paper, "explore": explore.explore_,
    "report": report.report, "studio": studio.studio_, "watch": watch.watch_, "export": export.export_,
    "tune": tune.tune_, "push": push.push_, "list": listing.list_,
}  # fmt: skip
_INTERRUPTED = {
    "train": "the run is not finished; the same command starts it again",
    **dict.fromkeys(("compare", "paper", "explore", "tune"), "finished runs are kept, unfinished ones start again"),
}

_CTRL_C = 130
_EPILOG = f"\b\n{EXIT_CODES}"
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, help=polaug.__doc__, epilog=_EPILOG)


def _version(asked: bool) -> None:
    if asked:
        print(f"polaug {polaug.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _described(text: str) -> str:
    """A docstring whose examples keep their lines."""
    return re.sub(r"\n\n([Ee]xamples?:)", "\n\n\b\n\\1", text)


for _name, _command in COMMANDS.items():
    app.command(_name, help=_described(inspect.getdoc(_command) or ""), epilog=_EPILOG)(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(given, prog_name="polaug", standalone_mode=False) or 0
        if code == _CTRL_C:  # what Typer makes of KeyboardInterrupt
            raise KeyboardInterrupt
        return int(code)
    except PolaugError as fault:
        print(f"polaug: {fault}", file=sys.stderr)
        return 2
    except typer.TyperException as fault:
        print(f"polaug: {_as_polaug_error(fault)}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        kept = _INTERRUPTED.get(given[0] if given else "")
        words = shlex.join(["polaug", *given])
        print(f"polaug: interrupted{f'; {kept}' if kept else ''}. Continue with: {words}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `polaug list | head`
        sys.stderr.close()
        return 0
    except OSError as fault:  # a full disk, a folder that may not be written to
        why = (fault.strerror or str(fault)).lower()
        what = f"{fault.filename or 'the results'} cannot be written ({why})"
        print(f"polaug: out: {what}. Choose another place, or free this one.", file=sys.stderr)
        return 2


def _as_polaug_error(fault: Any) -> PolaugError:
    """Typer's error in one line, with the nearest valid name."""
    context: Any = getattr(fault, "ctx", None)
    message = fault.message.rstrip(".")
    path = context.command_path if context is not None else "polaug"
    if (option := getattr(fault, "option_name", None)) is not None:
        near = difflib.get_close_matches(option, [each for p in context.command.params for each in p.opts], n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        return UnknownNameError(f"{option}: {path} has no such option.{hint} `{path} --help` lists the options.")
    if wrong := re.match(r"No such command '(.*?)'", message):
        return unknown("command", wrong[1], COMMANDS)
    if message == "Missing command":
        return InvalidInputError(f"COMMAND: none was given. Choose one of: {', '.join(COMMANDS)}.")
    parameter = getattr(fault, "param", None)
    if parameter is not None:
        message = f"{parameter.opts[-1] if parameter.opts[-1].startswith('-') else parameter.metavar}: {message}"
    return InvalidInputError(f"{message}. `{path} --help` lists the options.")
