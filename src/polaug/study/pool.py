"""Worker processes on this machine, one for each cell: they share one import of torch.

The death of a worker is detected, and workers end with their parent. Each uses one thread.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from polaug.errors import PolaugError
from polaug.study.folder import TakenError
from polaug.study.study import Cell, Study

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_PATIENCE = 10.0  # seconds for a killed study's workers to notice that it is gone


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is."""

    step: int
    steps: int
    episode: int
    return_: float
    """Of the last training episode; NaN before the first has ended."""
    actor: str
    """What drove it: agent or explorer."""
    evaluation: float
    """The agent's last deterministic mean; NaN before the first."""
    solved_at: int | None = None
    """The solved step, confirmed by 100 episodes; None: not yet."""


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a cell: `kind` is "started", "progress", "done", "failed" or "died" (its worker did)."""

    kind: str
    cell: Cell
    progress: Progress | None = None
    error: str = ""
    traceback: str = ""


def run_cell(study: Study, cell: Cell, out: Path, report: Callable[[Progress], None]) -> Event:
    """Train one cell into its folder under `out`; an exception becomes an event."""
    from polaug.study.train import train  # torch is imported here, in the worker

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            train(cell.task, cell.method, seed=cell.seed, out=out, save_model=study.save_models, progress=report,
                  tensorboard=study.tensorboard, track=study.track,
                  **study.budget)  # fmt: skip
        except KeyboardInterrupt:
            raise
        except BaseException as fault:  # an environment may call sys.exit, too
            if isinstance(fault, TakenError) and time.monotonic() < until:
                time.sleep(0.2)
                continue
            message = str(fault) if isinstance(fault, PolaugError) else f"{type(fault).__name__}: {fault}"
            return Event("failed", cell, error=message, traceback=traceback.format_exc())
        return Event("done", cell)


def _work(pipe: Connection, study: Study, cell: Cell, out: Path) -> None:
    """Main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    pipe.send(run_cell(study, cell, out, lambda progress: pipe.send(Event("progress", cell, progress))))


def _follow(sentinel: int) -> None:
    """End with the parent, also in the middle of a cell: a study that is resumed must find its folder free."""
    connection.wait([sentinel])
    os._exit(1)


def _context() -> Any:
    """How workers start: forked from a server that has imported torch; elsewhere than on Linux a fork is not safe."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # The second is what torch loads with the first optimizer: a second in each worker. A name that is gone is ignored.
    context.set_forkserver_preload(["polaug.study.train", "torch._dynamo"])
    return context


@contextlib.contextmanager
def environment_variables(values: dict[str, str]) -> Iterator[None]:
    """Set for this process and its children, until the block ends."""
    before = {name: os.environ.get(name) for name in values}
    os.environ |= values
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Children inherit one thread each, and ignore Ctrl-C from their start."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        with environment_variables(dict.fromkeys(_THREADS, "1")):
            yield
    finally:
        if main:
            signal.signal(signal.SIGINT, handler)


class Pool:
    """Up to `workers` processes that train cells into folders under `out`."""

    def __init__(self, study: Study, out: Path, workers: int) -> None:
        self._study, self._out, self.size = study, out, workers
        self._context = _context()
        self._running: dict[Any, tuple[Any, Cell]] = {}  # process and cell by the pipe that its news come from

    @property
    def free(self) -> int:
        """How many cells may be submitted now."""
        return self.size - len(self._running)

    def submit(self, cell: Cell) -> None:
        """Start a worker for a cell."""
        pipe, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(theirs, self._study, cell, self._out), daemon=True)
        with _quiet_start():
            process.start()
        theirs.close()
        self._running[pipe] = process, cell

    def events(self, timeout: float) -> Iterator[Event]:
        """Events since the last call; waits up to `timeout` seconds for the first."""
        ready: list[Any] = connection.wait(list(self._running), timeout)
        for pipe in ready:
            process, cell = self._running[pipe]
            try:
                event: Event = pipe.recv()
            except (EOFError, OSError):  # its end of the pipe is closed
                process.join()
                event = Event("died", cell, error=_cause(process.exitcode))
            if event.kind != "progress":
                process.join()
                self._running.pop(pipe)
                pipe.close()
            yield event

    def close(self) -> None:
        """End the workers at once."""
        for process, _ in self._running.values():
            process.kill()
        for pipe, (process, _) in self._running.items():
            process.join()
            pipe.close()
        self._running.clear()


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        hint = " (out of memory, perhaps)" if -code == signal.SIGKILL else ""
        return f"its worker was ended by {name}{hint}"
    return f"its worker ended with exit code {code}"
