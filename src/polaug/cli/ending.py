"""Run a study from the command line, and end with what was seen: a short table, failures, the report's path."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from polaug.cli.arguments import check_out
from polaug.cli.progress import StudyTable, clock
from polaug.errors import PolaugError
from polaug.study.results import Run, read_run
from polaug.study.runner import StudyOutcome, run_study
from polaug.study.study import Study
from polaug.study.wording import counted


def run_and_tell(
    study: Study, args: argparse.Namespace, figures: Callable[[Path], Iterable[Path]] | None = None
) -> int:
    """Run `study` with the flags of `add_workers`; gives the exit code. `figures` draws more into its folder.

    What could not be made is said last.
    """
    for task, method, why in study.skipped:
        print(_skip(task, method, why), file=sys.stderr)
    check_out(args.out)
    with StudyTable(_plan(study, args)) as table:
        outcome = run_study(
            study, args.out, workers=args.workers, backend=args.backend, address=args.address, progress=table
        )
    runs = [read_run(cell.path(outcome.out)) for cell in (*outcome.reused, *outcome.ran)]
    lacking = _tell(runs, outcome) if runs else []
    if runs and study.save_models and (without := _without_model(runs)):
        print(without)
    if figures is not None:
        lacking += _draw(figures, outcome)
    sys.stdout.flush()
    for failure in outcome.failures:
        print(failed(failure.cell.name, failure.error, failure.cell.path(outcome.out)), file=sys.stderr)
    if not outcome.ok:
        many = f"{len(outcome.failures)} of {len(study.cells())} runs failed"
        print(f"polaug: {many}; the same command tries them again.", file=sys.stderr, flush=True)
    for line in lacking:
        print(line)
    return 0 if outcome.ok else 1


def failed(name: str, error: str, path: Path) -> str:
    """One line, the first, which names the exception; the file in its folder has the others and the traceback."""
    first = (error.strip().splitlines() or ["?"])[0].rstrip(".")
    return f"failed: {name}: {first}. Traceback: {path / 'failed.json'}"


def _draw(figures: Callable[[Path], Iterable[Path]], outcome: StudyOutcome) -> list[str]:
    try:
        for path in figures(outcome.out):
            print(f"figure: {path}")
    except PolaugError as fault:  # the runs, and why some failed, are told all the same
        return [f"No figures: {fault}"]
    return []


def _skip(task: str, method: str, why: str) -> str:
    """Why a method does not run on a task; a reason that begins with the method names the task as well."""
    reason = why.removeprefix("method: ").replace(f", got {method!r}.", ".")
    return f"skipped: {reason}" if reason.startswith(f"{method} ") else f"skipped: {method} on {task}: {reason}"


def _plan(study: Study, args: argparse.Namespace) -> str:
    """What is about to run, in one line."""
    parts = [(study.tasks, "task"), (study.methods, "method"), (study.seeds, "seed")]
    product = " × ".join(counted(len(each), noun) for each, noun in parts)
    lengths = [counted(many, noun) for many, noun in ((study.steps, "step"), (study.episodes, "episode")) if many]
    runs = len(study.cells())
    if study.skipped:
        product += f", {len(study.skipped) * len(study.seeds)} of them skipped"
    who = "on Ray" if args.backend == "ray" else f"{min(args.workers, runs)} at once"
    return f"{counted(runs, 'run')} ({product}) of at least {' and '.join(lengths)}, {who}; results go to {args.out}"


def _without_model(runs: list[Run]) -> str:
    """Runs that were finished before anybody asked for models."""
    lacking = sum(not (run.path / "model.zip").exists() for run in runs)
    return f"{lacking} of them finished before without a model; another --out trains them again" if lacking else ""


def _width() -> float:
    """Columns of the table: as many as the terminal has, and in a file as many as it needs."""
    if "COLUMNS" not in os.environ and not sys.stdout.isatty():
        return math.inf
    return shutil.get_terminal_size().columns


def _tell(runs: list[Run], outcome: StudyOutcome) -> list[str]:
    """Print what was seen; gives a line for whatever could not be made: the runs are safe all the same."""
    from polaug.report import write_report
    from polaug.study.summary import headline
    from polaug.study.wording import seen, table

    faults = {}
    try:
        print(table(headline(runs), _width()), end="\n\n")
        print("\n".join(seen(runs)))
    except PolaugError as fault:
        faults["summary"] = str(fault)
    steps = sum(int(run.done.get("steps", 0)) for run in runs)
    before = f" ({len(outcome.reused)} from before)" if outcome.reused else ""
    many, took = counted(len(runs), "run"), clock(outcome.seconds)
    print(f"{many}{before}, {counted(steps, 'environment step')}, all of them counted, in {took}")
    try:
        print(f"report: {write_report(outcome.out)}")
    except PolaugError as fault:
        if faults.get("summary") == str(fault):  # once is enough
            del faults["summary"]
        faults["report"] = str(fault)
    return [f"No {what}: {fault}" for what, fault in faults.items()]
