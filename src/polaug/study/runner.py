"""Runs the cells of a study on this machine or on Ray. Finished runs are neither lost nor repeated.

Run folders are the only memory. A cell with a done.json is finished, any other is run, so resuming is starting again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from polaug.checks import choice, whole
from polaug.errors import PolaugError, invalid
from polaug.study.folder import finished, locked, write_failure
from polaug.study.pool import Event, Pool, Progress
from polaug.study.results import read_run
from polaug.study.study import Cell, Study, enter, entry, run_settings

if TYPE_CHECKING:
    from polaug.study.ray_backend import RayPool

BACKENDS = ("local", "ray")
Watcher: TypeAlias = "Callable[[Board, Event | None], None]"
"""Called when something happened, and with None when half a second went by."""
_TRIES = 2  # of a cell whose worker dies
_TICK = 0.5  # seconds between looks at the board


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
        for cell in reused:
            read_run(cell.path(folder))  # a damaged one is refused now, not when the others have run
        board = Board(cells, reused, workers)
        failures: list[Failure] = []
        if not board.waiting:
            enter(content, folder)
        else:
            pool = _pool(study, folder, board, backend, address)
            board.workers = pool.size  # a cluster may have fewer than were asked for, or more
            try:
                enter(content, folder)  # after all checks, so that study.json lists only what will run
                failures = _drive(pool, board, folder, progress)
            finally:
                pool.close()
    ran = tuple(run.cell for run in board.done)
    return StudyOutcome(folder, ran, tuple(reused), tuple(failures), time.monotonic() - started, study.skipped)


def _pool(study: Study, out: Path, board: Board, backend: str, address: str | None) -> Pool | RayPool:
    if backend == "ray":
        from polaug.study.ray_backend import RayPool

        return RayPool(study, out, board.workers, address)
    return Pool(study, out, min(board.workers, len(board.waiting)))


def _drive(
    pool: Pool | RayPool, board: Board, out: Path, watch: Callable[[Board, Event | None], None] | None
) -> list[Failure]:
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
    """Report a worker that died."""
    path = event.cell.path(out)
    if not (path / "failed.json").exists():
        path.mkdir(parents=True, exist_ok=True)
        write_failure(path, event.error, event.traceback)


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
    with locked(out):
        try:
            yield
        except PolaugError:
            if new and [each.name for each in out.iterdir()] == [".lock"]:
                (out / ".lock").unlink()
                out.rmdir()
            raise


@dataclass
class Running:
    """An active cell."""

    cell: Cell
    since: float = field(default_factory=time.monotonic)
    progress: Progress | None = None
    seconds: float = 0.0
    """How long it took, once it is done."""

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return 0.0 if self.progress is None else min(1.0, self.progress.step / max(self.progress.steps, 1))


class Board:
    """The state of a study that is running."""

    def __init__(self, cells: Sequence[Cell], finished: Sequence[Cell], workers: int) -> None:
        gone = {cell.key for cell in finished}
        self.total, self.reused, self.workers = len(cells), len(finished), workers
        self.waiting = [cell for cell in cells if cell.key not in gone]
        self.work = max(1, len(self.waiting))
        """Cells that are run in this session."""
        self.running: dict[tuple[str, str, int], Running] = {}
        self.done: list[Running] = []
        self.failed: list[tuple[Cell, str]] = []

    def start_next(self) -> Cell:
        """The next cell: seed by seed, so that a study cut short is a smaller study."""
        cell = self.waiting.pop(0)
        self.running[cell.key] = Running(cell)
        return cell

    def take(self, event: Event, again: bool = False) -> None:
        """Note an event; `again`: its cell goes back to the waiting ones."""
        run = self.running[event.cell.key]
        if event.kind == "started":
            run.since = time.monotonic()  # loading torch is not part of the run
        elif event.kind == "progress":
            run.progress = event.progress
        else:
            del self.running[event.cell.key]
            if event.kind == "done":
                run.seconds = time.monotonic() - run.since
                self.done.append(run)
            elif again:
                self.waiting.insert(0, event.cell)
            else:
                self.failed.append((event.cell, event.error))
