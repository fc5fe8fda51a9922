"""Run a study from the command line, and end with what was seen: a short table, failures, the report's path."""

from __future__ import annotations

import argparse
import sys

from polaug.cli.progress import StudyTable, clock
from polaug.errors import PolaugError
from polaug.study.results import Run, read_run
from polaug.study.runner import StudyOutcome, run_study
from polaug.study.study import Study


def run_and_tell(study: Study, args: argparse.Namespace) -> int:
    """Run `study` with the flags of `add_workers`; gives the exit code."""
    for task, method, why in study.skipped:
        print(f"skipped: {method} on {task} ({why})", file=sys.stderr)
    with StudyTable(_plan(study, args)) as table:
        outcome = run_study(
            study, args.out, workers=args.workers, backend=args.backend, address=args.address, progress=table
        )
    runs = [read_run(cell.path(outcome.out)) for cell in (*outcome.reused, *outcome.ran)]
    if runs:
        _tell(runs, outcome)
        if study.save_models and (lacking := _without_model(runs)):
            print(lacking)
    for failure in outcome.failures:
        print(f"\nfailed: {failure.cell.name}: {failure.error}\n{failure.traceback}", file=sys.stderr, end="")
    if not outcome.ok:
        many = f"{len(outcome.failures)} of {len(study.cells())} runs failed"
        print(f"polaug: {many}; the same command tries them again.", file=sys.stderr)
    return 0 if outcome.ok else 1


def _plan(study: Study, args: argparse.Namespace) -> str:
    """What is about to run, in one line."""
    parts = [(study.tasks, "task"), (study.methods, "method"), (study.seeds, "seed")]
    product = " × ".join(f"{len(each)} {noun}{'' if len(each) == 1 else 's'}" for each, noun in parts)
    lengths = [f"{many:,} {noun}" for many, noun in ((study.steps, "steps"), (study.episodes, "episodes")) if many]
    runs = len(study.cells())
    who = "on Ray" if args.backend == "ray" else f"{min(args.workers, runs)} at once"
    return (
        f"{runs} run{'' if runs == 1 else 's'} ({product}) of at least {' and '.join(lengths)}, {who}; "
        f"results go to {args.out}"
    )


def _without_model(runs: list[Run]) -> str:
    """Runs that were finished before anybody asked for models."""
    lacking = sum(not (run.path / "model.zip").exists() for run in runs)
    return f"{lacking} of them finished before without a model; another --out trains them again" if lacking else ""


def _tell(runs: list[Run], outcome: StudyOutcome) -> None:
    from polaug.report import write_report
    from polaug.study.summary import headline
    from polaug.study.wording import seen, table

    report = None
    try:
        print(table(headline(runs)), end="\n\n")
        print("\n".join(seen(runs)))
        report = write_report(outcome.out)
    except PolaugError as fault:  # the runs are safe, whatever the summary thinks of them
        print(f"polaug: {fault}", file=sys.stderr)
    steps = sum(int(run.done.get("steps", 0)) for run in runs)
    before = f" ({len(outcome.reused)} from before)" if outcome.reused else ""
    print(f"{len(runs)} runs{before}, {steps:,} environment steps, all of them counted, in {clock(outcome.seconds)}")
    if report is not None:
        print(f"report: {report}")
