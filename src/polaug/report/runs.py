"""Run folders read back as plain data; unfinished folders are left out, damaged ones are named."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError, invalid
from polaug.state import State, load_state


@dataclass(frozen=True)
class Run:
    """One finished run: its settings, what it ended with, and a column for each of its episodes' numbers."""

    path: Path
    config: dict[str, Any]
    done: dict[str, Any]
    steps: NDArray[np.int64]
    returns: NDArray[np.float64]
    maps: State | None

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.config.get("task", "?"))

    @property
    def method(self) -> str:
        """Who ran."""
        return str(self.config.get("explorer", "?"))

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.config.get("seed", 0))


def find_runs(folder: str | os.PathLike[str]) -> list[Run]:
    """All finished runs in `folder`, at any depth, by task, method and seed."""
    root = Path(folder)
    if not root.is_dir():
        raise invalid("folder", "must be a folder with runs", str(folder), "Run `polaug explore` first.")
    runs = [read_run(done.parent) for done in root.rglob("done.json")]
    return sorted(runs, key=lambda run: (run.task, run.method, run.seed, str(run.path)))


def read_run(path: Path) -> Run:
    """One finished run."""
    try:
        config = dict(json.loads((path / "config.json").read_text(encoding="utf-8")))
        done = dict(json.loads((path / "done.json").read_text(encoding="utf-8")))
        with (path / "episodes.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        steps = np.array([int(row["step"]) for row in rows], dtype=np.int64)
        returns = np.array([float(row["return"]) for row in rows])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise StateError(f"run: {path} is damaged ({fault!r}). Delete it and run it again.") from fault
    maps = load_state(path / "maps.npz") if (path / "maps.npz").exists() else None
    return Run(path, config, done, steps, returns, maps)
