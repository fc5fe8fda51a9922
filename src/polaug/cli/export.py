"""`polaug export`: results for other tools: tidy rows of all finished runs as CSV or Parquet, and the summary as JSON.

    episodes      one row per training episode: what drove it, its return, and its return with bonuses
    evaluations   one row per cheap evaluation of the agent alone
    confirmations one row per evaluation by 100 episodes from fresh starts
    runs          one row per run: when it was solved, whether that was kept, what it ended with, its settings as JSON

Files have fixed names, so that no name of a task or method becomes a path, and appear whole or not at all. In CSV files
text that a spreadsheet would take for a formula ("=1+1") has an apostrophe in front.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import polaug
from polaug.checks import choice, package
from polaug.cli.options import flag, names
from polaug.cli.report import Folder
from polaug.errors import invalid
from polaug.state import safe_write
from polaug.study.folder import check_inside, check_written_by_polaug
from polaug.study.levels import reached
from polaug.study.results import Run, find_runs
from polaug.study.summary import summary_json


def export_(
    folder: Folder,
    out: Annotated[Path | None, flag("Folder for the tables. Default: DIR/export.", "DIR")] = None,
    formats: Annotated[str, flag("Formats: csv, parquet, json.", "NAME[,NAME]")] = "csv,json",
) -> None:
    """Export runs as CSV or Parquet tables and a JSON summary.

    Parquet needs pyarrow.

    Example:
      polaug export runs/compare
    """
    for path in export(folder, out, names(formats)):
        print(path)


FORMATS = ("csv", "parquet", "json")
_RUN: dict[str, type] = {"task": str, "method": str, "seed": int}
COLUMNS: dict[str, dict[str, type]] = {
    "episodes": _RUN | {"episode": int, "step": int, "return": float, "length": int, "actor": str,
                        "augmented_return": float},
    "evaluations": _RUN | {"step": int, "seconds": float, "mean_return": float, "std_return": float},
    "confirmations": _RUN | {"step": int, "mean_return": float, "std_return": float},
    "runs": _RUN | {"kind": str, "threshold": float, "solved_step": int, "kept": bool, "final_return": float,
                    "steps": int, "episodes": int, "seconds": float, "evaluation_seconds": float,
                    "explorer_share": float, "config": str, "done": str},
}  # fmt: skip
"""Columns of each table and their types; what a run has not is left empty."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
Row = tuple[Any, ...]


def export(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    formats: Sequence[str] = ("csv", "json"),
) -> list[Path]:
    """Write all finished runs of `folder` to `out` (by default `folder`/export), and give the files.

    Earlier exports there are replaced; files that polaug did not write raise an error before anything is written.
    """
    for name in formats:
        choice("format", name, FORMATS)
    runs, target = find_runs(folder), Path(folder) / "export" if out is None else Path(out)
    if not runs:
        raise invalid("folder", "must hold at least one finished run", str(folder), "Run `polaug compare` first.")
    if target.exists() and not target.is_dir():
        raise invalid("out", "must be a folder", str(target), "Choose another name, or move that file away.")
    if (target / "config.json").exists():  # its episodes.csv is the only copy of what happened
        raise invalid("out", "must not be the folder of a run", str(target), "Choose another folder.")
    if out is None:
        check_inside(target, Path(folder))
    parquet = (package("pyarrow", "formats"), package("pyarrow.parquet", "formats")) if "parquet" in formats else None
    files: dict[Path, Any] = {}
    for table, columns in COLUMNS.items():
        if "csv" in formats:
            check_written_by_polaug(target / f"{table}.csv", columns)
            files[target / f"{table}.csv"] = _csv(columns, rows(table, runs))
        if parquet is not None:
            check_written_by_polaug(target / f"{table}.parquet")
            made = _arrow(parquet[0], columns, rows(table, runs))
            files[target / f"{table}.parquet"] = partial(parquet[1].write_table, made)
    if "json" in formats:
        check_written_by_polaug(target / "summary.json")
        files[target / "summary.json"] = f"{json.dumps(summary_json(runs), indent=1, allow_nan=False)}\n".encode()
    return [safe_write(path, content) for path, content in files.items()]


def rows(table: str, runs: Sequence[Run]) -> Iterator[Row]:
    """The rows of one of COLUMNS, in the order of the runs."""
    make = {"episodes": _episodes, "evaluations": _evaluations, "confirmations": _confirmations, "runs": _runs}[table]
    for run in runs:
        yield from ((run.task, run.method, run.seed, *row) for row in make(run))


def _episodes(run: Run) -> Iterator[Row]:
    paid = np.empty(0) if run.bonuses is None else run.bonuses
    for k, actor in enumerate(run.episodes.actors):
        augmented = float(paid[k]) if k < len(paid) else None
        yield (k + 1, int(run.steps[k]), float(run.returns[k]), int(run.episodes.lengths[k]), actor, augmented)


def _evaluations(run: Run) -> Iterator[Row]:
    found, clock = run.evaluations, run.clock
    if found is None:
        return
    seconds: Any = [None] * len(found.steps)
    if clock is not None and len(clock.steps):
        seconds = np.interp(found.steps, clock.steps, clock.seconds).round(6).tolist()
    yield from zip(found.steps.tolist(), seconds, found.means.tolist(), found.stds.tolist(), strict=True)


def _confirmations(run: Run) -> Iterator[Row]:
    if (found := run.confirmations) is not None:
        yield from zip(found.steps.tolist(), found.means.tolist(), found.stds.tolist(), strict=True)


def _runs(run: Run) -> Iterator[Row]:
    found = None if run.evaluations is None else reached(run)
    level = (None, None, None) if found is None else (found.steps if found.solved else None, found.kept, found.final)
    ended = (run.done.get(name) for name in ("steps", "episodes", "seconds", "evaluation_seconds", "explorer_share"))
    config, done = (json.dumps(content, sort_keys=True) for content in (run.config, run.done))
    yield (run.kind, run.threshold, *level, *ended, config, done)


def _csv(columns: Iterable[str], content: Iterator[Row]) -> bytes:
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in content:  # floats as repr: they come back to the bit
        writer.writerow([f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row])
    return text.getvalue().encode()


def _arrow(arrow: Any, columns: Mapping[str, type], content: Iterator[Row]) -> Any:
    """An Arrow table whose columns have the same types whatever the runs have."""
    types = {int: arrow.int64(), float: arrow.float64(), bool: arrow.bool_(), str: arrow.string()}
    schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()], {"polaug": polaug.__version__})
    return arrow.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in content], schema)
