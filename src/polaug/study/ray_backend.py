"""The same runs on a Ray cluster. The files of a run are sent through the driver; no shared file system is needed.

Every machine needs the same polaug. A worker that dies is replaced, and its cell run again, by Ray itself.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import polaug
from polaug.checks import package
from polaug.errors import invalid
from polaug.study.folder import write_files
from polaug.study.pool import Event, Progress, run_cell
from polaug.study.study import Cell, Study

_RETRIES = 2  # of a cell whose worker dies
_REMEDY = "Start one with `ray start --head`, and pass the address that it prints."
_TOKEN = "Set RAY_AUTH_MODE and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) as they were where it was started."


def remote_cell(study: Study, cell: Cell, version: str, board: Any = None) -> tuple[Event, dict[str, bytes]]:
    """Runs on a worker: train into a folder of its own, and give the files."""
    if polaug.__version__ != version:
        error = f"its worker has polaug {polaug.__version__}, the driver {version}. Install the same everywhere."
        return Event("failed", cell, error=error), {}

    last: list[Progress] = []

    def report(progress: Progress) -> None:
        last[:] = [progress]
        if board is not None:
            board.tell.remote(cell.key, progress)

    with tempfile.TemporaryDirectory() as folder:
        event = run_cell(study, cell, Path(folder), report)
        path = cell.path(Path(folder))
        files = {file.name: file.read_bytes() for file in sorted(path.iterdir())} if path.exists() else {}
    return replace(event, progress=last[0] if last else None), files


class News:
    """An actor: the latest progress of each active cell."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, int], Progress] = {}

    def tell(self, key: tuple[str, str, int], progress: Progress) -> None:
        """From a worker."""
        self._last[key] = progress

    def all(self) -> dict[tuple[str, str, int], Progress]:
        """To the driver."""
        return self._last


class RayPool:
    """Cells as Ray tasks of one CPU each: `workers` at a time on a Ray started here, or all CPUs of a cluster."""

    def __init__(self, study: Study, out: Path, workers: int, address: str | None) -> None:
        ray = package("ray", "backend")
        self._ray, self._out = ray, out
        self._own = not ray.is_initialized()
        if self._own:
            _start(ray, workers, address)
        self._reaper = _reaper(ray) if self._own and address is None else None
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.size = min(workers, cores) if address is None else cores
        self._study = ray.put(study)
        self._run = ray.remote(num_cpus=1, max_retries=_RETRIES)(remote_cell)
        self._news = ray.remote(num_cpus=0)(News).remote()
        self._flying: dict[Any, Cell] = {}

    @property
    def free(self) -> int:
        """How many cells may be submitted now."""
        return self.size - len(self._flying)

    def submit(self, cell: Cell) -> None:
        """Start a cell."""
        self._flying[self._run.remote(self._study, cell, polaug.__version__, self._news)] = cell

    def events(self, timeout: float) -> Iterator[Event]:
        """What ended since the last call, and how far the others are."""
        ready, _ = self._ray.wait(list(self._flying), num_returns=1, timeout=timeout)
        for reference in ready:
            event = self._ended(self._flying.pop(reference), reference)
            if event.progress is not None:  # the last word, which the news may not have had yet
                yield Event("progress", event.cell, event.progress)
            yield event
        if not ready:
            with contextlib.suppress(self._ray.exceptions.RayError):
                known: dict[Any, Progress] = self._ray.get(self._news.all.remote(), timeout=timeout)
                for cell in self._flying.values():
                    if cell.key in known:
                        yield Event("progress", cell, known[cell.key])

    def _ended(self, cell: Cell, reference: Any) -> Event:
        try:
            event, files = self._ray.get(reference)
        except self._ray.exceptions.RayError as fault:
            return Event("failed", cell, error=f"its worker died {_RETRIES + 1} times ({type(fault).__name__})",
                         traceback=str(fault))  # fmt: skip
        write_files(cell.path(self._out), files)
        return event  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop what runs; a Ray that was started here is shut down."""
        for reference in self._flying:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._flying.clear()
        if self._own:
            self._ray.shutdown()
        if self._reaper is not None:
            self._reaper.communicate()  # closes its stdin: it ends what the shutdown has left


def _reaper(ray: Any) -> subprocess.Popen[bytes] | None:
    """Watches the Ray that was started here, for the case that its head or this process is killed."""
    if sys.platform == "win32" or importlib.util.find_spec("psutil") is None:
        return None
    name = ray.get_runtime_context().get_session_name()
    command = [sys.executable, "-I", str(Path(__file__).with_name("ray_reaper.py")), name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _start(ray: Any, workers: int, address: str | None) -> None:
    """Connect to the cluster at `address`, or start a Ray of `workers` processes here."""
    options: dict[str, Any] = {"address": "local", "num_cpus": workers, "include_dashboard": False}  # not one nearby
    if address is not None:
        _check_open(address)
        options = {"address": address}
    with tempfile.TemporaryFile() as said:
        try:
            with contextlib.nullcontext() if address is None else _kept(said):
                ray.init(log_to_driver=False, configure_logging=False, **options)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as fault:
            said.seek(0)
            if b"Unauthenticated" in said.read() or type(fault).__name__ == "AuthenticationError":
                raise invalid("address", "the Ray there must accept our token, and it refuses it as missing or wrong",
                              address, _TOKEN) from fault  # fmt: skip
            raise invalid("address", f"must be a running Ray ({fault})", address, _REMEDY) from fault
        said.seek(0)
        sys.stderr.write(said.read().decode(errors="replace"))


@contextlib.contextmanager
def _kept(said: IO[bytes]) -> Iterator[None]:
    """Redirect stderr to a file: Ray's core reports only there, once a second, why it is refused."""
    sys.stderr.flush()
    before = os.dup(2)
    os.dup2(said.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


def _check_open(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].partition(":")
    if not port.isdigit():
        return  # "auto"
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as fault:
        raise invalid("address", f"must be a running Ray ({fault})", address, _REMEDY) from fault
