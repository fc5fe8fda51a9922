"""Runs the cells of a study, here or on Ray, and survives: what is finished is neither lost nor done again.

Run folders are the only memory. A cell with a done.json is finished, any other is run, so resuming is starting again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from polaug.checks import choice, whole
from polaug.errors import PolaugError, invalid
from polaug.study.board import Board
from polaug.study.folder import finished, write_json
from polaug.study.locking import lock
from polaug.study.pool import Event, Pool
from polaug.study.results import read_run
from polaug.study.study import Cell, Study, enter, entry, run_settings
from polaug.study.summary import check_finite

BACKENDS = ("local", "ray")
_TRIES = 2  # of a cell whose worker dies
_TICK = 0.5  # seconds between looks at the board


class Backend(Protocol):
    """Who does the work: the pool of this machine, or a cluster."""

    size: int
    """How many cells run at once."""

    @property
    def free(self) -> int:
        """How many cells may be submitted now."""

    def submit(self, cell: Cell) -> None:
        """Start a cell."""

    def events(self, timeout: float) -> Iterator[Event]:
        """News since the last call."""

    def close(self) -> None:
        """Stop everything."""


class Watcher(Protocol):
    """Who is told, for example a table on the screen."""

    def __call__(self, board: Board, event: Event | None) -> None:
        """Something happened (`event`), or half a second went by (None)."""


@dataclass(frozen=True)
class Failure:
    """A cell without a result."""

    cell: Cell
    error: str
    traceback: str


@dataclass(frozen=True)
class StudyOutcome:
    """How a study ended."""

    out: Path
    ran: tuple[Cell, ...]
    reused: tuple[Cell, ...]
    """Cells that an earlier session had finished."""
    failures: tuple[Failure, ...]
    seconds: float
    skipped: tuple[tuple[str, str, str], ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Every cell has a result."""
        return not self.failures


def run_study(
    study: Study,
    out: str | Path,
    *,
    workers: int = 2,
    backend: str = "local",
    address: str | None = None,
    progress: Watcher | None = None,
) -> StudyOutcome:
    """Run what is not finished yet. Failed cells are reported in the outcome and do not stop the others."""
    choice("backend", backend, BACKENDS)
    whole("workers", workers, 1)
    if address is not None and backend != "ray":
        raise invalid("address", "only Ray has one", address, "Pass backend='ray' too.")
    folder = Path(out)
    started = time.monotonic()
    with _claimed(folder):
        content, cells = entry(study, folder), study.cells()
        reused = [cell for cell in cells if _finished(study, cell, folder)]
        check_finite(read_run(cell.path(folder)) for cell in reused)  # refused now, not when the others have run
        board = Board(cells, reused, workers)
        failures: list[Failure] = []
        if not board.waiting:
            enter(content, folder)
        else:
            pool = _pool(study, folder, board, backend, address)
            board.workers = pool.size  # a cluster may have fewer than were asked for, or more
            try:
                enter(content, folder)  # nothing refuses any more, so that what is written will be run
                failures = _drive(pool, board, folder, progress)
            finally:
                pool.close()
    ran = tuple(run.cell for run in board.done)
    return StudyOutcome(folder, ran, tuple(reused), tuple(failures), time.monotonic() - started, study.skipped)


def _pool(study: Study, out: Path, board: Board, backend: str, address: str | None) -> Backend:
    if backend == "ray":
        from polaug.study.ray_backend import RayPool

        return RayPool(study, out, board.workers, address)
    return Pool(study, out, min(board.workers, len(board.waiting)))


def _drive(pool: Backend, board: Board, out: Path, watch: Watcher | None) -> list[Failure]:
    tries: dict[tuple[str, str, int], int] = {}
    failures: list[Failure] = []
    while board.waiting or board.running:
        while board.waiting and pool.free > 0:
            cell = board.start_next()
            tries[cell.key] = tries.get(cell.key, 0) + 1
            pool.submit(cell)
        news = False
        for event in pool.events(_TICK):
            news = True
            again = event.kind == "died" and tries[event.cell.key] < _TRIES
            board.take(event, again)
            if event.kind in ("failed", "died") and not again:
                failures.append(Failure(event.cell, event.error, event.traceback))
                _note(event, out)
            if watch is not None:
                watch(board, event)
        if not news and watch is not None:
            watch(board, None)
    return failures


def _note(event: Event, out: Path) -> None:
    """A worker that died could not say so itself."""
    path = event.cell.path(out)
    if not (path / "failed.json").exists():
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "failed.json", {"error": event.error, "traceback": event.traceback})


def _finished(study: Study, cell: Cell, out: Path) -> bool:
    """Whether this cell is done; refuses one that was done with other settings, and files that are not a run's."""
    return finished(cell.path(out), run_settings(cell.task, cell.method, cell.seed, **study.budget))


@contextmanager
def _claimed(out: Path) -> Iterator[None]:
    """No two studies at once in one folder; one that is refused leaves no new folder behind."""
    if out.exists() and not out.is_dir():
        raise invalid("out", "must be a folder", str(out), "Choose another name.")
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    with (out / ".lock").open("a") as file:
        lock(file, out)
        try:
            yield
        except PolaugError:
            if new and [each.name for each in out.iterdir()] == [".lock"]:
                (out / ".lock").unlink()
                out.rmdir()
            raise
