"""The command line: parse, call, print. Exit codes: 0 done, 2 a mistake of the caller's, 130 interrupted."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import polaug
from polaug.checks import whole
from polaug.completion import SOLVERS
from polaug.errors import PolaugError, unknown
from polaug.exploration import METHODS, make_explorer
from polaug.features import ACTION_FEATURES, STATE_FEATURES
from polaug.report import find_runs, groups, write_report
from polaug.report.summary import sentence
from polaug.study import TASKS, RunFolder, Task, explore, task
from polaug.study.folder import folder_name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    try:
        args = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], None] = args.command
        command(args)
    except PolaugError as fault:
        print(f"polaug: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("polaug: interrupted", file=sys.stderr)
        return 130
    except OSError as fault:  # a full disk, a folder that may not be written to
        print(f"polaug: {fault}", file=sys.stderr)
        return 2
    return 0


class _Parser(argparse.ArgumentParser):
    """argparse whose mistakes are one line too."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"argument COMMAND: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong:
            raise unknown("command", wrong[1], re.findall(r"[\w-]+", wrong[2]))
        raise PolaugError(f"{message}. `{self.prog} --help` shows what there is.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="polaug", description=polaug.__doc__)
    parser.add_argument("--version", action="version", version=f"polaug {polaug.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    listing = commands.add_parser("list", help="explorers, solvers, features and tasks, one line each")
    listing.set_defaults(command=_list)

    exploring = commands.add_parser("explore", help="let explorers drive alone, and report")
    exploring.add_argument("env", nargs="+", metavar="ENV", help="a task from `polaug list`, or any Gymnasium id")
    exploring.add_argument(
        "--explorer", default="committee", metavar="NAME[,NAME]", help="who drives (default: %(default)s)"
    )
    exploring.add_argument("--episodes", type=int, default=40, metavar="N", help="episodes per seed (%(default)s)")
    exploring.add_argument("--seeds", type=int, default=3, metavar="K", help="number of seeds (%(default)s)")
    exploring.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (%(default)s)")
    exploring.add_argument("--out", type=Path, default=Path("runs/explore"), metavar="DIR", help="(%(default)s)")
    exploring.set_defaults(command=_explore)

    reporting = commands.add_parser("report", help="one HTML page from the runs in a folder")
    reporting.add_argument("folder", type=Path, metavar="DIR")
    reporting.add_argument("--out", type=Path, default=None, metavar="FILE", help="(DIR/report.html)")
    reporting.set_defaults(command=_report)
    return parser


def _list(args: argparse.Namespace) -> None:
    tables: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("explorers", METHODS), ("solvers", SOLVERS), ("state features", STATE_FEATURES),
        ("action features", ACTION_FEATURES),
    )  # fmt: skip
    for title, table in tables:
        _print_table(title, {name: _purpose(each, name) for name, each in table.items()})
    _print_table("tasks (and any Gymnasium id)", {each.name: each.description for each in TASKS.values()})


def _print_table(title: str, lines: Mapping[str, str]) -> None:
    print(title)
    width = max(map(len, lines))
    for name, line in lines.items():
        print(f"  {name:{width}}  {line}")
    print()


def _purpose(described: Any, name: str) -> str:
    """The first sentence of the file that defines it, without its name in front."""
    module = inspect.getmodule(described)
    text = " ".join((inspect.getdoc(module) or "").split("\n\n")[0].split())
    text = re.sub(rf"^`{re.escape(name)}`:? ", "", text)
    return re.split(r"\. (?=[A-Z])", text)[0].rstrip(".")  # not at "Eq. 3"


def _explore(args: argparse.Namespace) -> None:
    whole("episodes", args.episodes, 1)
    whole("seeds", args.seeds, 1)
    whole("seed", args.seed, 0)
    tasks = list(dict.fromkeys(task(name) for name in args.env))
    names = list(dict.fromkeys(name.strip() for name in args.explorer.split(",") if name.strip()))
    for name in names or [args.explorer]:
        if name not in METHODS:
            raise unknown("explorer", name, METHODS)
    _check_fit(tasks, names)
    cells = [(t, n, s) for t in tasks for n in names for s in range(args.seed, args.seed + args.seeds)]
    with _progress(len(cells) * args.episodes) as advance:
        for found, name, seed in cells:
            _run(args, found, name, seed, advance)
    wanted = {(found.name, name) for found, name, _ in cells}
    report = write_report(args.out)
    seen = [group for group in groups(find_runs(args.out)) if (group.task, group.method) in wanted]
    for group in seen:
        print(f"{group.task}, {sentence(group)}")
    runs = [run for group in seen for run in group.runs]
    print(f"{len(runs)} runs, {sum(int(run.steps[-1]) for run in runs):,} environment steps, all of them counted")
    print(f"report: {report}")


def _check_fit(tasks: list[Task], names: list[str]) -> None:
    """Build each explorer once, so that a pair that can't work is refused before hours of the others."""
    for found in tasks:
        env = found.make()
        try:
            for name in names:
                make_explorer(name, env.observation_space, env.action_space)
        finally:
            env.close()


def _run(args: argparse.Namespace, found: Task, name: str, seed: int, advance: Callable[[str, int], None]) -> None:
    settings = {
        "task": found.name, "env_id": found.env_id, "kwargs": dict(found.kwargs), "episode_limit": found.episode_limit,
        "threshold": found.threshold, "success": found.success, "explorer": name, "options": {},
        "episodes": args.episodes, "seed": seed,
    }  # fmt: skip
    label = f"{found.name} · {name} · seed {seed}"
    path = args.out / folder_name(found.name) / folder_name(name) / f"seed_{seed}"
    with RunFolder(path, settings) as folder:
        if folder.finished:
            advance(label, args.episodes)
            return

        def progress(episode: Any) -> None:
            folder.add(episode)
            advance(label, 1)

        result = explore(found, name, episodes=args.episodes, seed=seed, progress=progress)
        summary = {
            "episodes": len(result.episodes), "steps": result.steps, "seconds": round(result.seconds, 3),
            "explorer_us_per_step": round(1e6 * result.explorer_seconds / result.steps, 1),
            "statistics": result.explorer.statistics(),
        }  # fmt: skip
        folder.finish(summary, result.maps)


def _report(args: argparse.Namespace) -> None:
    print(f"report: {write_report(args.folder, args.out)}")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A bar on a terminal, a line per run in a log; always on stderr, so that stdout stays clean."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = ""

        def report(label: str, episodes: int) -> None:
            nonlocal last
            if label != last:
                print(label, file=sys.stderr, flush=True)
            last = label

        yield report
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        number = bar.add_task("starting", total=total)

        def advance(label: str, episodes: int) -> None:
            bar.update(number, advance=episodes, description=label)

        yield advance


if __name__ == "__main__":
    sys.exit(main())
