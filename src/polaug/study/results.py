"""Run folders read back as plain data: unfinished ones are left out, damaged ones are named. Nothing here writes."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError, invalid
from polaug.state import State, load_state
from polaug.study.maps import checked_maps

FORMAT = 2
"""Of the run folder; a folder of another one is refused by name."""
COLUMNS: dict[str, dict[str, type]] = {
    "episodes.csv": {"episode": int, "step": int, "return": float, "length": int, "actor": str},
    "evaluations.csv": {"step": int, "mean_return": float, "std_return": float},
    "confirmations.csv": {"step": int, "mean_return": float, "std_return": float},
    "clock.csv": {"step": int, "seconds": float},
    "bonuses.csv": {"episode": int, "augmented_return": float},
    "choices.csv": {"episode": int, "member": str},
    "scalars.csv": {"step": int, "name": str, "value": float},
}
"""The columns of each file of a run and their types; a file is only there if it has rows, except episodes.csv."""


@dataclass(frozen=True)
class Episodes:
    """A column for each of the training episodes' numbers; returns are raw, without bonuses."""

    steps: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    actors: tuple[str, ...]


@dataclass(frozen=True)
class Evaluations:
    """Returns of the deterministic agent alone: cheap evaluations, or confirmations by 100 episodes."""

    steps: NDArray[np.int64]
    means: NDArray[np.float64]
    stds: NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """Seconds of training, without evaluations and compilation, by steps."""

    steps: NDArray[np.int64]
    seconds: NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One finished run."""

    path: Path
    config: dict[str, Any]
    done: dict[str, Any]
    episodes: Episodes
    evaluations: Evaluations | None = None
    """A few episodes from fixed starts, often."""
    confirmations: Evaluations | None = None
    """100 episodes from fresh starts: at nominated steps, now and then after the solved one, and at the end."""
    clock: Clock | None = None
    bonuses: NDArray[np.float64] | None = None
    """Each episode's return with the bonus, for methods that pay one."""
    choices: tuple[str, ...] = ()
    """The arm of the portfolio that drove, per explorer episode."""
    maps: State | None = None
    faults: tuple[str, ...] = ()
    """What is damaged and was left out: the run counts without it."""
    scalars: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=dict)
    """Steps and values of what the agent logged, by name."""

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.config.get("task", "?"))

    @property
    def method(self) -> str:
        """What ran."""
        return str(self.config.get("method", self.config.get("explorer", "?")))

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.config.get("seed", 0))

    @property
    def kind(self) -> str:
        """`train` for an agent, `explore` for an explorer alone."""
        return str(self.config.get("kind", "explore"))

    @property
    def threshold(self) -> float | None:
        """Mean return from which the task counts as solved."""
        value = self.config.get("threshold")
        return None if value is None else float(value)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Environment steps at the end of each episode."""
        return self.episodes.steps

    @property
    def returns(self) -> NDArray[np.float64]:
        """Each training episode's raw return."""
        return self.episodes.returns


def find_runs(folder: str | os.PathLike[str]) -> list[Run]:
    """All finished runs in `folder`, at any depth, by task, method and seed."""
    root = Path(folder)
    if not root.is_dir():
        remedy = "Run `polaug train` or `polaug compare` first."
        raise invalid("folder", "must be a folder with runs", str(folder), remedy)
    runs = [read_run(done.parent) for done in root.rglob("done.json")]
    return sorted(runs, key=lambda run: (run.task, run.method, run.seed, str(run.path)))


def run_folders(root: Path) -> list[Path]:
    """All run folders in `root`, at any depth, finished or not; those that a link leads out of it are left out."""
    home = root.resolve()
    found = (file for file in root.rglob("config.json") if file.resolve().is_relative_to(home))
    return sorted(file.parent for file in found)


def read_run(path: Path, *, under_way: bool = False) -> Run:
    """One finished run, or with `under_way` also an unfinished one. Damaged files raise an error that names them."""
    config = _object(path / "config.json", numbers=("seed", "threshold"))
    numbers = ("steps", "episodes", "seconds", "evaluation_seconds", "explorer_share")
    begun = under_way and not (path / "done.json").exists()
    done = {} if begun else _object(path / "done.json", numbers=numbers)
    if config.get("format", FORMAT) != FORMAT:
        rule = f"{path / 'config.json'} has format {config['format']!r}, this version of polaug reads {FORMAT}"
        raise StateError(f"run: {rule}. Read it with the version that wrote it, or choose another folder.")
    tables = {name: _table(path / name) for name in COLUMNS if name == "episodes.csv" or (path / name).exists()}
    _check_counts(path, done, tables)
    maps, faults = _maps(path / "maps.npz")

    def made(cls: Callable[..., Any], name: str, *columns: str) -> Any:
        return cls(*(tables[name][column] for column in columns)) if name in tables else None

    levels = ("step", "mean_return", "std_return")
    return Run(
        path, config, done, made(Episodes, "episodes.csv", "step", "return", "length", "actor"),
        made(Evaluations, "evaluations.csv", *levels), made(Evaluations, "confirmations.csv", *levels),
        made(Clock, "clock.csv", "step", "seconds"), made(np.asarray, "bonuses.csv", "augmented_return"),
        made(tuple, "choices.csv", "member") or (), maps, faults,
        _by_name(tables["scalars.csv"]) if "scalars.csv" in tables else {},
    )  # fmt: skip


def _object(file: Path, numbers: tuple[str, ...]) -> dict[str, Any]:
    """The JSON object in `file`; where it has one of `numbers`, that is a number or null."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise _damaged(file, fault) from fault
    if not isinstance(content, dict):
        raise _damaged(file, StateError("it must be a JSON object"))
    for name in numbers:
        if not isinstance(content.get(name), (int, float, type(None))):
            raise _damaged(file, StateError(f"{name} is {content[name]!r}, which is no number"))
    return content


def _check_counts(path: Path, done: Mapping[str, Any], tables: Mapping[str, Table]) -> None:
    """As many rows as done.json says: a file may have been cut off between two of them."""
    told = done.get("rows", {})
    if not isinstance(told, dict):
        raise _damaged(path / "done.json", StateError(f"rows is {told!r}, which is no count of each file"))
    for name in COLUMNS:
        rows = len(next(iter(tables[name].values()))) if name in tables else 0
        if told.get(name) not in (None, rows):
            raise _damaged(path / name, StateError(f"of {told[name]} rows in done.json it has {rows}"))


def _by_name(table: Table) -> dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]:
    names = np.array(table["name"])
    return {str(name): (table["step"][names == name], table["value"][names == name]) for name in np.unique(names)}


def _maps(file: Path) -> tuple[State | None, tuple[str, ...]]:
    """The maps, or why they are left out. They are only drawn: no result depends on them."""
    if not file.exists():
        return None, ()
    try:
        state = load_state(file)
        return checked_maps(state) if state else {}, ()
    except StateError as fault:
        return None, (f"The maps of {file.parent} are left out: {fault}",)


Table: TypeAlias = dict[str, Any]
"""Columns by name: an array of numbers, or a tuple of text."""


def _table(file: Path) -> Table:
    """A CSV file of a run, each cell converted; a half-written row is named by its line."""
    kinds, line = COLUMNS[file.name], 1
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    try:
        text = file.read_bytes().decode()
        rows = csv.DictReader(io.StringIO(text, newline=""))
        lacking = [name for name in kinds if name not in (rows.fieldnames or ())]
        if lacking:
            raise StateError(f"there is no column {lacking[0]!r}")
        for row in rows:
            line += 1
            if None in row or None in row.values():  # how DictReader tells too many and too few
                raise StateError("the row has another length than the first")
            for name, kind in kinds.items():
                columns[name].append(_converted(name, row[name], kind))
        if not text.endswith("\n"):  # the last column may have been cut off
            raise StateError("the row does not end")
    except (OSError, ValueError, csv.Error) as fault:
        raise _damaged(file, fault, f" at line {line}") from fault
    falls = np.flatnonzero(np.diff(columns.get("step", [])) < 0)
    if len(falls):
        raise _damaged(file, StateError("steps must not decrease"), f" at line {falls[0] + 3}")
    arrays: dict[type, Callable[[list[Any]], Any]] = {
        int: lambda values: np.array(values, np.int64), float: lambda values: np.array(values, float), str: tuple,
    }  # fmt: skip
    return {name: arrays[kind](columns[name]) for name, kind in kinds.items()}


def _converted(name: str, text: str, kind: type) -> Any:
    try:
        value = kind(text)
    except ValueError as fault:
        raise StateError(f"{name} is {text!r}, which is no {'whole ' * (kind is int)}number") from fault
    if kind is float and not math.isfinite(value):
        raise StateError(f"{name} is {text!r}, and not finite")
    if kind is int and not 0 <= value < 2**63:
        raise StateError(f"{value} is no number of steps")  # an array can hold no larger one
    return value


def _damaged(path: Path, fault: Exception, where: str = "") -> StateError:
    missing = "there is no such file" if isinstance(fault, FileNotFoundError) else ""
    return StateError(f"run: {path} is damaged{where} ({missing or fault}). Move its folder away and run it again.")
