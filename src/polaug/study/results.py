"""Run folders read back as plain data: unfinished ones are left out, damaged ones are named. Nothing here writes."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError, invalid
from polaug.state import State, load_state

FORMAT = 1
"""Of the run folder; a folder of another one is refused by name."""


@dataclass(frozen=True)
class Episodes:
    """A column for each of the training episodes' numbers; returns are raw, without bonuses."""

    steps: NDArray[np.int64]
    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]
    actors: tuple[str, ...]


@dataclass(frozen=True)
class Evaluations:
    """The agent alone, deterministic, on an environment of its own."""

    steps: NDArray[np.int64]
    means: NDArray[np.float64]
    stds: NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """Seconds of training, evaluations and compilation left out, after so many steps."""

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
    clock: Clock | None = None
    bonuses: NDArray[np.float64] | None = None
    """Each episode's return with the bonus, for methods that pay one."""
    choices: tuple[str, ...] = ()
    """The committee's member that drove, per explorer episode."""
    maps: State | None = None

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
        raise invalid(
            "folder", "must be a folder with runs", str(folder), "Run `polaug train` or `polaug compare` first."
        )
    runs = [read_run(done.parent) for done in root.rglob("done.json")]
    return sorted(runs, key=lambda run: (run.task, run.method, run.seed, str(run.path)))


def read_run(path: Path) -> Run:
    """One finished run; what is damaged in it is named."""
    config = _object(path / "config.json", numbers=("seed", "threshold"))
    done = _object(path / "done.json", numbers=("steps", "episodes", "seconds", "evaluation_seconds", "explorer_share"))
    if config.get("format", FORMAT) != FORMAT:
        raise StateError(
            f"run: {path / 'config.json'} has format {config['format']!r}, this version of polaug reads {FORMAT}. "
            "Read it with the version that wrote it, or choose another folder."
        )
    run = Run(
        path, config, done, _episodes(path), _optional(path, "evaluations.csv", _evaluations),
        _optional(path, "clock.csv", _clock), _optional(path, "bonuses.csv", _bonuses),
        _optional(path, "choices.csv", _choices) or (), _optional(path, "maps.npz", load_state),
    )  # fmt: skip
    _check_counts(run)
    return run


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


def _check_counts(run: Run) -> None:
    """As many rows as done.json says: a file may have been cut off between two of them."""
    found = {
        "episodes.csv": len(run.episodes.steps), "choices.csv": len(run.choices),
        "evaluations.csv": 0 if run.evaluations is None else len(run.evaluations.steps),
        "clock.csv": 0 if run.clock is None else len(run.clock.steps),
        "bonuses.csv": 0 if run.bonuses is None else len(run.bonuses),
    }  # fmt: skip
    told = run.done.get("rows", {"episodes.csv": run.done.get("episodes")})  # runs of before count episodes alone
    if not isinstance(told, dict):
        raise _damaged(run.path / "done.json", StateError(f"rows is {told!r}, which is no count of each file"))
    for name, rows in found.items():
        if told.get(name) not in (None, rows):
            raise _damaged(run.path / name, StateError(f"of {told[name]} rows in done.json it has {rows}"))


def _episodes(path: Path) -> Episodes:
    file = path / "episodes.csv"
    columns = _columns(file, ("step", _whole), ("return", float), ("length", _whole), ("actor", str))
    line = next((k for k, (one, other) in enumerate(pairwise([0, *columns[0]]), start=2) if other < one), None)
    if line is not None:
        raise _damaged(file, StateError("steps must not decrease"), f" at line {line}")
    return Episodes(np.array(columns[0], np.int64), np.array(columns[1], float), np.array(columns[2], np.int64),
                    tuple(columns[3]))  # fmt: skip


def _evaluations(file: Path) -> Evaluations:
    steps, means, stds = _columns(file, ("step", _whole), ("mean_return", float), ("std_return", float))
    return Evaluations(np.array(steps, np.int64), np.array(means, float), np.array(stds, float))


def _clock(file: Path) -> Clock:
    steps, seconds = _columns(file, ("step", _whole), ("seconds", float))
    return Clock(np.array(steps, np.int64), np.array(seconds, float))


def _bonuses(file: Path) -> NDArray[np.float64]:
    return np.array(_columns(file, ("augmented_return", float))[0], float)


def _choices(file: Path) -> tuple[str, ...]:
    return tuple(_columns(file, ("member", str))[0])


def _optional(path: Path, name: str, read: Callable[[Path], Any]) -> Any:
    return read(path / name) if (path / name).exists() else None


def _columns(file: Path, *wanted: tuple[str, Callable[[str], Any]]) -> list[list[Any]]:
    """The wanted columns of a CSV file, each cell converted; a half-written row is named by its line."""
    line = 1
    columns: list[list[Any]] = [[] for _ in wanted]
    try:
        text = file.read_bytes().decode()
        rows = csv.DictReader(io.StringIO(text, newline=""))
        lacking = [name for name, _ in wanted if name not in (rows.fieldnames or ())]
        if lacking:
            raise StateError(f"there is no column {lacking[0]!r}")
        for row in rows:
            line += 1
            if None in row or None in row.values():  # how DictReader tells too many and too few
                raise StateError("the row has another length than the first")
            for column, (name, convert) in zip(columns, wanted, strict=True):
                column.append(_converted(name, row[name], convert))
        if not text.endswith("\n"):  # of a last column nobody can tell that it was cut off
            raise StateError("the row does not end")
    except (OSError, ValueError, csv.Error) as fault:
        raise _damaged(file, fault, f" at line {line}") from fault
    return columns


def _converted(name: str, text: str, convert: Callable[[str], Any]) -> Any:
    try:
        return convert(text)
    except StateError:
        raise
    except ValueError as fault:
        raise StateError(f"{name} is {text!r}, which is no {'whole ' * (convert is _whole)}number") from fault


def _whole(text: str) -> int:
    """A number of steps, which an array can hold."""
    value = int(text)
    if not 0 <= value < 2**63:
        raise StateError(f"{value} is no number of steps")
    return value


def _damaged(path: Path, fault: Exception, where: str = "") -> StateError:
    missing = "there is no such file" if isinstance(fault, FileNotFoundError) else ""
    return StateError(f"run: {path} is damaged{where} ({missing or fault}). Move its folder away and run it again.")
