"""Run a study from the command line, then print a short table, the failures and the report's path."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from polaug.cli.options import Machines
from polaug.cli.progress import ProgressDisplay, duration, show_study
from polaug.errors import PolaugError
from polaug.study.pool import Event
from polaug.study.results import Run, read_run
from polaug.study.runner import Board, StudyOutcome, run_study
from polaug.study.statistics import LEAST_RUNS
from polaug.study.study import Study
from polaug.study.summary import UNKNOWN, Headline, headline, reference
from polaug.study.wording import counted, interval, keeping, number, ratio


def run_and_tell(study: Study, out: Path, machines: Machines) -> int:
    """Run `study`, and print what failed and what was found; gives the exit code."""
    for task, method, why in study.skipped:
        print(_skip(task, method, why), file=sys.stderr)
    plan = _plan(study, out, machines)
    with ProgressDisplay() as shown:

        def progress(board: Board, event: Event | None) -> None:
            nonlocal plan
            if plan:  # nothing was refused
                shown.say(f"{plan}; {board.reused} finished before" if board.reused else plan)
                plan = ""
            show_study(shown, board, event)

        outcome = run_study(study, out, **asdict(machines), progress=progress)
    runs = [read_run(cell.path(outcome.out)) for cell in (*outcome.reused, *outcome.ran)]
    lost = sum(not (run.path / "model.zip").exists() for run in runs) if study.save_models else 0
    if lost:
        print(f"{counted(lost, 'run')} without a model; use another --out to train again")
    for failure in outcome.failures:
        print(failed(failure.cell.name, failure.error, failure.cell.path(outcome.out)), file=sys.stderr)
    if not outcome.ok:
        many = f"{len(outcome.failures)} of {len(study.cells())} runs failed"
        print(f"polaug: {many}; the same command repeats them.", file=sys.stderr, flush=True)
    if runs:
        _print_summary(runs, outcome)
    return 0 if outcome.ok else 1


@contextlib.contextmanager
def followed(out: Path, live: bool) -> Iterator[None]:
    """With `live`, a local page shows the runs in `out` while they train."""
    if not live:
        yield
        return
    from polaug.studio import start

    studio = start(out)
    print(f"studio: {studio.url}", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        studio.stop()


def failed(name: str, error: str, path: Path) -> str:
    """One line, the first, which names the exception; the file in its folder has the others and the traceback."""
    first = (error.strip().splitlines() or ["?"])[0].rstrip(".")
    return f"failed: {name}: {first}. Traceback: {path / 'failed.json'}"


def _skip(task: str, method: str, why: str) -> str:
    """Why a method does not run on a task; a reason that begins with the method names the task as well."""
    reason = why.removeprefix("method: ").replace(f", got {method!r}.", ".")
    return f"skipped: {reason}" if reason.startswith(f"{method} ") else f"skipped: {method} on {task}: {reason}"


def _plan(study: Study, out: Path, machines: Machines) -> str:
    """What is about to run, in one line."""
    parts = [(study.tasks, "task"), (study.methods, "method"), (study.seeds, "seed")]
    product = " × ".join(counted(len(each), noun) for each, noun in parts)
    lengths = [counted(many, noun) for many, noun in ((study.steps, "step"), (study.episodes, "episode")) if many]
    runs = len(study.cells())
    if study.skipped:
        product += f", {len(study.skipped) * len(study.seeds)} of them skipped"
    who = "on Ray" if machines.backend == "ray" else f"{min(machines.workers, runs)} at a time"
    return f"{counted(runs, 'run')} ({product}) of at least {' and '.join(lengths)}, {who}; results: {out}"


def _print_summary(runs: list[Run], outcome: StudyOutcome) -> None:
    """Print the table and the report's path, or why there is none."""
    from polaug.report import write_report

    with contextlib.suppress(PolaugError):  # writing the report raises the same error, which is printed below
        print(table(headline(runs)), end="\n\n")
    steps = sum(int(run.done.get("steps", 0)) for run in runs)
    before = f" ({len(outcome.reused)} from before)" if outcome.reused else ""
    many, took = counted(len(runs), "run"), duration(outcome.seconds)
    print(f"{many}{before}, {counted(steps, 'environment step')}, all of them counted, in {took}")
    try:
        print(f"report: {write_report(outcome.out)}")
    except PolaugError as fault:
        print(f"No report: {fault}")


def table(rows: Sequence[Headline], width: int | None = None) -> str:
    """For each task a line on it and one per method, then how to read them."""
    parts: list[str | Table] = []
    for _, each in groupby(rows, key=lambda row: row.task):
        mine = list(each)
        heads = ("method", "steps to threshold", "never", "kept", "final return", "speed-up")
        parts += [_title(mine), grid(heads, map(_cells, mine))]
    signs = {"interval": "[low, high]: 95% interval over the runs",
             "range": f"(low to high): range of the runs, fewer than {LEAST_RUNS}"}  # fmt: skip
    legend = "; ".join(words for spread, words in signs.items() if any(row.spread == spread for row in rows))
    return printed(*parts, *([legend] if legend else []), width=width)


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Columns side by side."""
    made = Table(*(Column(head, overflow="fold") for head in heads), box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        made.add_row(*row)
    return made


def printed(*parts: str | Table, width: int | None = None) -> str:
    """Lines that fit the terminal; in a file nothing is cut."""
    if width is None and ("COLUMNS" in os.environ or sys.stdout.isatty()):
        width = shutil.get_terminal_size().columns
    console = Console(file=io.StringIO(), width=width or 1_000, color_system=None, highlight=False)
    with console.capture() as text:
        for part in parts:
            console.print(part, markup=False)
    return "\n".join(line.rstrip() for line in text.get().splitlines())


def _cells(row: Headline) -> list[str]:
    never = "–" if row.reached is None else f"{row.seeds - row.reached}/{row.seeds}"
    steps, kept = interval(row.steps_to_threshold, row.budget, row.spread), keeping(row).replace(" of ", "/")
    return [row.method, steps, never, kept, interval(row.final, spread=row.spread), _gain(row)]


def _title(mine: Sequence[Headline]) -> str:
    first = mine[0]
    goal = "no threshold" if first.threshold is None else f"threshold {number(first.threshold)}"
    counts = sorted({row.seeds for row in mine})
    seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return f"{first.task}: {goal}, {seeds} seed{'' if counts == [1] else 's'}, {number(first.budget)} steps"


def _gain(row: Headline) -> str:
    if row.method == row.reference:
        return "reference"
    base = reference(row)
    if base is None:
        return ""
    return ratio(row.speed_ups.get(base, UNKNOWN)).split(" [")[0]
