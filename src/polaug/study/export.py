"""Results for other tools: tidy rows of all finished runs as CSV or Parquet, and the summary as JSON.

    episodes      one row per training episode: who drove, its raw return, and the return with bonuses if there were any
    evaluations   one row per evaluation of the agent alone
    runs          one row per run: its settings as JSON, and what it ended with

Files have fixed names, so that no name of a task or method becomes a path, and appear whole or not at all. Names are
written as they are: a spreadsheet may take a method called "=1+1" for a formula, so import foreign results as text.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import numpy as np

from polaug.checks import choice
from polaug.errors import invalid
from polaug.study.ours import Ours, check_inside, check_ours, has_columns, has_keys, write_whole
from polaug.study.results import Run, find_runs
from polaug.study.summary import summary_json

FORMATS = ("csv", "parquet", "json")
COLUMNS: dict[str, tuple[str, ...]] = {
    "episodes": ("task", "method", "seed", "episode", "step", "return", "length", "actor", "augmented_return"),
    "evaluations": ("task", "method", "seed", "step", "seconds", "mean_return", "std_return"),
    "runs": ("task", "method", "seed", "kind", "threshold", "steps", "episodes", "seconds", "evaluation_seconds",
             "explorer_share", "config", "done"),
}  # fmt: skip
"""Columns of each table; what a run has not is left empty."""
_WHOLE = {"seed", "episode", "step", "length", "steps", "episodes"}
_TEXT = {"task", "method", "actor", "kind", "config", "done"}
Row = tuple[Any, ...]


def export(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    formats: Sequence[str] = ("csv", "json"),
) -> list[Path]:
    """Write all finished runs of `folder` to `out` (by default `folder`/export), and give the files.

    Earlier exports there are replaced; files of others are refused by name before anything is written.
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
    parquet = _pyarrow() if "parquet" in formats else None
    for name, ours in _marks(formats, parquet):
        check_ours(target / name, ours)
    summary = summary_json(runs) if "json" in formats else None
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for table, columns in COLUMNS.items():
        if "csv" in formats:
            written.append(_whole_text(target / f"{table}.csv", partial(_csv, columns, rows(table, runs))))
        if parquet is not None:
            made = _arrow(parquet[0], columns, list(rows(table, runs)))
            written.append(write_whole(target / f"{table}.parquet", partial(parquet[1].write_table, made)))
    if summary is not None:
        text = json.dumps(summary, indent=1, allow_nan=False)
        written.append(_whole_text(target / "summary.json", lambda file: print(text, file=file)))
    return written


def rows(table: str, runs: Sequence[Run]) -> Iterator[Row]:
    """The rows of one of COLUMNS, in the order of the runs."""
    make = {"episodes": _episodes, "evaluations": _evaluations, "runs": _runs}[choice("table", table, tuple(COLUMNS))]
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


def _runs(run: Run) -> Iterator[Row]:
    ended = (run.done.get(name) for name in ("steps", "episodes", "seconds", "evaluation_seconds", "explorer_share"))
    config, done = (json.dumps(content, sort_keys=True) for content in (run.config, run.done))
    yield (run.kind, run.threshold, *ended, config, done)


def _csv(columns: Sequence[str], content: Iterator[Row], file: TextIOWrapper) -> None:
    writer = csv.writer(file)
    writer.writerow(columns)
    writer.writerows(content)  # floats as repr: they come back to the bit


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as fault:
        raise invalid("formats", "parquet needs pyarrow", "parquet", "pip install pyarrow.") from fault


def _arrow(arrow: Any, columns: Sequence[str], content: list[Row]) -> Any:
    """An Arrow table whose columns have the same types whatever the runs have."""
    kinds = [
        arrow.int64() if name in _WHOLE else arrow.string() if name in _TEXT else arrow.float64() for name in columns
    ]
    by_column = list(zip(*content, strict=True)) or [()] * len(columns)
    arrays = [arrow.array(values, kind) for values, kind in zip(by_column, kinds, strict=True)]
    return arrow.Table.from_arrays(arrays, names=list(columns))


def _marks(formats: Sequence[str], parquet: tuple[Any, Any] | None) -> Iterator[tuple[str, Ours]]:
    """The files that will be written, and by what earlier ones of ours are known."""
    for table, columns in COLUMNS.items():
        if "csv" in formats:
            yield f"{table}.csv", has_columns(columns)
        if parquet is not None:
            yield f"{table}.parquet", partial(_has_schema, parquet[1], columns)
    if "json" in formats:
        yield "summary.json", has_keys({"format", "level", "rows"}, optional={"overall"})


def _has_schema(reader: Any, columns: Sequence[str], path: Path) -> bool:
    return list(reader.read_schema(path).names) == list(columns)


def _whole_text(path: Path, write: Callable[[TextIOWrapper], None]) -> Path:
    def encoded(file: IO[bytes]) -> None:
        text = TextIOWrapper(file, encoding="utf-8", newline="")
        write(text)
        text.detach()  # flushes, and leaves the file open

    return write_whole(path, encoded)
