"""Runs the cells of a study on this machine or on Ray. Finished runs are neither lost nor repeated.

Run folders are the only memory. A cell with a done.json is finished, any other is run, so resuming is starting again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from polaug.checks import choice, whole
from polaug.errors import PolaugError, invalid
from polaug.study.folder import finished, locked, read_config, write_failure
from polaug.study.pool import Event, Pool, Progress
from polaug.study.results import read_run
from polaug.study.study import Cell, Study, run_settings

if TYPE_CHECKING:
    from polaug.study.ray_backend import RayPool

BACKENDS = ("local", "ray")
Watcher: TypeAlias = "Callable[[Board, Event | None], None]"
"""Called when something happened, and with None when half a second went by."""
_TRIES = 2  # of a cell whose worker dies
_TICK = 0.5  # seconds between looks at the board


@dataclass(frozen=True)
class StudyOutcome:
    """How a study ended."""

    out: Path
    ran: tuple[Cell, ...]
    reused: tuple[Cell, ...]
    """Cells that an earlier session had finished."""
    failures: tuple[Event, ...]
    """The last news of each cell without a result."""
    seconds: float

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
        _check_alike(study, folder)
        cells = study.cells()
        wanted = {cell.key: run_settings(cell.task, cell.method, cell.seed, **study.budget) for cell in cells}
        reused = [cell for cell in cells if finished(cell.path(folder), wanted[cell.key])]
        for cell in reused:
            read_run(cell.path(folder))  # a damaged one is refused now, not when the others have run
        board = Board(cells, reused, workers)
        if board.waiting:
            pool = _pool(study, folder, board, backend, address)
            board.workers = pool.size  # a cluster may have fewer than were asked for, or more
            try:
                _drive(pool, board, folder, progress or (lambda board, event: None))
            finally:
                pool.close()
    ran = tuple(run.cell for run in board.done)
    return StudyOutcome(folder, ran, tuple(reused), tuple(board.failed), time.monotonic() - started)


def _pool(study: Study, out: Path, board: Board, backend: str, address: str | None) -> Pool | RayPool:
    if backend == "ray":
        from polaug.study.ray_backend import RayPool

        return RayPool(study, out, board.workers, address)
    return Pool(study, out, min(board.workers, len(board.waiting)))


def _drive(pool: Pool | RayPool, board: Board, out: Path, watch: Watcher) -> None:
    while board.waiting or board.running:
        while board.waiting and pool.free > 0:
            cell = board.start_next()
            pool.submit(cell)
            watch(board, Event("started", cell))
        news = False
        for event in pool.events(_TICK):
            news = True
            board.take(event)
            path = event.cell.path(out)
            if event in board.failed and not (path / "failed.json").exists():  # its worker could not
                path.mkdir(parents=True, exist_ok=True)
                write_failure(path, event.error, event.traceback)
            watch(board, event)
        if not news:
            watch(board, None)


def _check_alike(study: Study, out: Path) -> None:
    """Refuse a folder with agents of another budget or version: their numbers could not be compared."""
    for file in sorted(out.glob("*/*/seed_*/config.json")):
        before = read_config(file.parent)
        for name, wanted in study.budget.items():
            if before.get("kind") == "train" and before.get(name) != wanted:
                rule = f"{file} is of a run with {name}={before.get(name)!r}, and is not mixed with others"
                raise invalid("out", rule, f"{name}={wanted!r}", "Choose another folder.")


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
        self.failed: list[Event] = []
        self._died: Counter[tuple[str, str, int]] = Counter()

    def start_next(self) -> Cell:
        """The next cell: seed by seed, so that a study cut short is a smaller study."""
        cell = self.waiting.pop(0)
        self.running[cell.key] = Running(cell)
        return cell

    def take(self, event: Event) -> None:
        """Note an event. A cell whose worker died is run again, a few times."""
        key = event.cell.key
        if event.kind == "progress":
            self.running[key].progress = event.progress
            return
        run = self.running.pop(key)
        self._died[key] += event.kind == "died"
        if event.kind == "done":
            run.seconds = time.monotonic() - run.since
            self.done.append(run)
        elif event.kind == "died" and self._died[key] < _TRIES:
            self.waiting.insert(0, event.cell)
        else:
            self.failed.append(event)
