"""The run folders below one root, for the studio. They are only read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polaug.errors import InvalidInputError, StateError, invalid
from polaug.report.data import chart_data
from polaug.report.labels import short
from polaug.study.folder import POLICY
from polaug.study.results import Run, read_run, run_folders

SCAN_SECONDS = 2.0
"""Seconds for which the list of folders is cached: searching a large tree is slow."""
QUIET_SECONDS = 120.0
"""Seconds without a new row after which a run counts as stopped. Evaluations and compilation take less."""
EPISODES = 600
"""Training episodes of a run that are drawn as points."""
MOST = 12
"""Maximum number of runs in one chart."""

Stamp = tuple[tuple[str, int, int], ...]


@dataclass
class _Seen:
    stamp: Stamp
    run: Run | None
    fault: str = ""


class OutsideError(InvalidInputError):
    """A folder is not below the studio's root."""


class Follower:
    """Finds the runs below `root` and reads them again when their files change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, Path] = {}
        self._scanned = -SCAN_SECONDS
        self._seen: dict[str, _Seen] = {}

    def folders(self) -> dict[str, Path]:
        """All run folders by their path below the root."""
        if time.monotonic() - self._scanned >= SCAN_SECONDS:
            found = run_folders(self.root) if self.root.is_dir() else []
            self._folders = {path.relative_to(self.root).as_posix(): path for path in found}
            self._scanned = time.monotonic()
        return self._folders

    def folder(self, name: str) -> Path:
        """The run folder called `name`, a path below the root."""
        if "\0" in name or not (self.root / name).resolve().is_relative_to(self.root.resolve()):
            raise OutsideError(f"run: {name!r} is not inside the studio's folder. Start another studio for it.")
        if name not in self.folders():
            raise invalid("run", "must be a run folder below the studio's folder", name, "Reload the page.")
        return self._folders[name]

    def stamp(self, names: Sequence[str]) -> Stamp:
        """Changes when a file of these runs does."""
        return tuple(part for name in names for part in _stamp(self.folder(name)))

    def listing(self) -> list[dict[str, Any]]:
        """One entry for each run, the most recently changed first. Reads the state of runs, not their rows."""
        found = [{"id": name, **self._state(path)} for name, path in self.folders().items()]
        return sorted(found, key=lambda run: (-run["changed"], run["id"]))

    def _state(self, path: Path) -> dict[str, Any]:
        changed = max((time_ns for _, time_ns, _ in _stamp(path)), default=0) / 1e9
        if (path / "done.json").exists():
            state = "finished"
        elif (path / "failed.json").exists():
            state = "failed"
        else:
            state = "running" if time.time() - changed < QUIET_SECONDS else "stopped"
        return {"state": state, "changed": round(changed, 1)}

    def run(self, name: str) -> tuple[Run | None, str]:
        """The current content of a run, and the reason if newer content cannot be read."""
        path = self.folder(name)
        stamp, seen = _stamp(path), self._seen.get(name)
        if seen is None or seen.stamp != stamp:
            try:
                seen = _Seen(stamp, read_run(path, under_way=True))
            except StateError as fault:  # it may be half-written: read it again next time
                before = seen.run if seen else None
                quiet = before is not None and self._state(path)["state"] == "running"
                seen = _Seen((), before, "" if quiet else str(fault))
            self._seen[name] = seen
        return seen.run, seen.fault

    def board(self, names: Sequence[str]) -> dict[str, Any]:
        """The report's data for these runs, each as a separate method, and the additional data of the studio."""
        shown: list[Run] = []
        cards: list[dict[str, Any]] = []
        for name in dict.fromkeys(names):
            run, fault = self.run(name)
            card: dict[str, Any] = {"id": name, "fault": fault, **self._state(self.folder(name))}
            if run is not None:
                label = f"{run.method} · seed {run.seed}"
                if any(card.get("label") == label and card["task"] == run.task for card in cards):
                    label = f"{label} · {name}"  # the same run in another folder
                card |= {"task": run.task, "label": label, **_progress(run)}
                shown.append(replace(run, config=run.config | {"method": label}))
            cards.append(card)
        return chart_data(shown) | {"runs": cards}


def _progress(run: Run) -> dict[str, Any]:
    """The progress of a run, the last driver, and the logged scalars."""
    last = run.evaluations.steps[-1:].tolist() if run.evaluations is not None else []
    return {
        "step": max([0, *run.steps[-1:].tolist(), *last]),
        "steps": run.config.get("steps"),
        "episodes": len(run.returns),
        "returns": _returns(run),
        "driver": run.episodes.actors[-1] if run.episodes.actors else None,
        "scalars": {name: {"x": x.tolist(), "y": y.tolist()} for name, (x, y) in run.scalars.items()},
        "plays": (run.path / POLICY).is_file(),
    }


def _returns(run: Run) -> dict[str, Any]:
    """Training episodes by driver, and evaluations. Many episodes are thinned out."""
    every = -(-len(run.returns) // EPISODES) or 1
    at = np.arange(len(run.returns))[::-1][::every][::-1]
    guided = np.array([actor != "agent" for actor in run.episodes.actors], dtype=bool)[at]
    parts = {"agent": at[~guided], "guide": at[guided]}
    found = {name: {"x": run.steps[k].tolist(), "y": short(run.returns[k])} for name, k in parts.items()}
    table = run.evaluations
    return found | ({"evaluation": {"x": table.steps.tolist(), "y": short(table.means)}} if table is not None else {})


def _stamp(path: Path) -> Stamp:
    found = []
    for file in sorted(path.iterdir()) if path.is_dir() else []:
        try:
            at = file.stat()
        except OSError:  # deleted meanwhile
            continue
        if not file.name.startswith("."):
            found.append((file.name, at.st_mtime_ns, at.st_size))
    return tuple(found)
