"""A run's folder while it is written: config.json first, a CSV file per kind of row, done.json last and atomically.

results.py reads it back. A run in progress holds the lock of its folder.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from filelock import FileLock, Timeout

import polaug
from polaug.errors import StateError, invalid
from polaug.state import State, safe_write, save_state
from polaug.study.explore import Episode
from polaug.study.results import COLUMNS, FORMAT

_MARKS = {".html": b"polaugReport", ".png": b"Software\0polaug", ".pdf": b"/Producer (polaug)", ".json": b'"polaug": "',
          ".parquet": b"polaug", ".npz": b"polaug"}  # fmt: skip
"""A mark in each kind of file that polaug writes, by which it is recognised."""


def check_written_by_polaug(path: Path, columns: Iterable[str] = ()) -> None:
    """Refuse to replace a file that polaug has not written: it lacks the mark of its kind, or these CSV `columns`.

    A CSV file that was cut off within its header may be replaced.
    """
    if not os.path.lexists(path):
        return
    line = io.StringIO()
    csv.writer(line).writerow(columns)
    header, mark = line.getvalue().encode(), _MARKS.get(path.suffix)
    try:
        content = path.read_bytes()
    except OSError:  # a folder, say
        known = False
    else:
        known = header.startswith(content[: len(header)]) if columns else mark is not None and mark in content
    if not known:
        raise StateError(f"out: {path} was not written by polaug, and is not overwritten. Move it away, or choose "
                         "another folder.")  # fmt: skip


def check_inside(path: Path, out: Path, what: str = "results") -> None:
    """Refuse a path that a link leads out of the results folder."""
    if not path.resolve().is_relative_to(out.resolve()):
        raise StateError(f"out: {path} leads out of {out}, and {what} stay inside it. Remove the link.")


class TakenError(StateError):
    """Another process is writing there."""


def locked(folder: Path) -> FileLock:
    """The lock of a `folder`, taken; the system releases it when the process dies."""
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as fault:
        raise TakenError(f"out: another process is writing {folder}. Wait for it, or choose another folder.") from fault
    except PermissionError:
        raise
    except OSError:  # a file system without locks
        pass
    return lock


POLICY = "policy.npz"
"""The agent's network at its last evaluation, as plain arrays."""
NORMALIZATION = "normalization.npz"
"""The statistics by which VecNormalize scaled an agent's observations, as plain arrays: no pickle."""
FILES = ("config.json", *COLUMNS, "maps.npz", POLICY, "model.zip", NORMALIZATION,
         "failed.json", "done.json")  # fmt: skip
"""Everything that a run folder may hold."""


class RunFolder:
    """Writes one run as it goes; use it in a `with` block, and call `finish` at the end of it.

    A folder without done.json is an unfinished run and is started again. A finished run of the same settings is left as
    it is (`finished` is True); one of other settings, and files that are not a run's, are never overwritten.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.settings = _plain(settings)
        self._files: dict[str, TextIO] = {}
        self._rows: dict[str, int] = {}
        self._lock: FileLock | None = None
        self.finished = finished(self.path, settings)
        if self.finished:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.path)
        for name in FILES:
            if name != "config.json":
                (self.path / name).unlink(missing_ok=True)
        self._open("episodes.csv")
        write_json(self.path / "config.json", self.settings | {"versions": versions()})

    # -- rows -------------------------------------------------------------------------------------------------------

    def add(self, episode: Episode) -> None:
        """Append an episode."""
        self.row("episodes.csv", episode.episode, episode.step, episode.return_, episode.length, episode.actor)

    def row(self, name: str, *values: int | float | str) -> None:
        """Append a row to the file called `name`, at once, so that the run can be followed; numbers must be finite."""
        for at, value in enumerate(values):
            if isinstance(value, float) and not math.isfinite(value):
                rule = f"must be finite in row {self._rows.get(name, 0) + 1} of {self.path / name}"
                raise invalid(list(COLUMNS[name])[at], rule, value, "Mend the environment's rewards.")
        if name not in self._files:
            self._open(name)
        self._write(name, values)
        self._rows[name] += 1

    def _open(self, name: str) -> None:
        self._files[name], self._rows[name] = (self.path / name).open("w", newline="", encoding="utf-8"), 0
        self._write(name, COLUMNS[name])

    def _write(self, name: str, values: Iterable[object]) -> None:
        csv.writer(self._files[name]).writerow(values)
        self._files[name].flush()

    # -- the end ----------------------------------------------------------------------------------------------------

    def finish(self, summary: Mapping[str, Any], maps: State | None = None) -> None:
        """Write the remaining files, done.json last: it marks a complete folder and counts the rows of its files."""
        if maps is not None:
            save_state(self.path / "maps.npz", maps)
        for file in self._files.values():
            os.fsync(file.fileno())  # done.json must not survive a power cut that its rows do not
        write_json(self.path / "done.json", dict(summary) | {"rows": self._rows})
        self.finished = True
        self._close()
        (self.path / ".lock").unlink(missing_ok=True)

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether `path` holds a finished run of these settings; refuses it if it holds anything that must not be lost."""
    if not (path / "done.json").exists():
        _check_unfinished(path)
        return False
    if not (path / "config.json").exists():
        raise StateError(f"out: {path / 'done.json'} was not written by polaug, for there is no config.json beside it. "
                         "Move it away, or choose another folder.")  # fmt: skip
    before, wanted = read_config(path), _plain(settings)
    before.pop("versions", None)
    for name in sorted({*before, *wanted}):
        old, new = before.get(name), wanted.get(name)
        if old != new:
            rule = f"{path / 'config.json'} is of a finished run with {name}={old!r}, and is not overwritten"
            raise invalid("out", rule, f"{name}={new!r}", "Choose another folder, or move that one away.")
    return True


def _check_unfinished(path: Path) -> None:
    """Refuse files of others. An unfinished run has polaug's config.json, or stopped before that was written and left
    episodes.csv or failed.json.
    """
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            remedy = "Move it away, or choose another folder."
            raise StateError(f"out: {part} is a file, where a folder is needed. {remedy}")
    began = (path / "config.json").exists()
    if began:
        read_config(path)
    for name in ("failed.json", *COLUMNS) if began else FILES:
        check_written_by_polaug(path / name, COLUMNS.get(name, ()) if began or name == "episodes.csv" else ())


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they will be read back."""
    plain = {name: json.loads(json.dumps(each, default=partial(_as_json, name))) for name, each in settings.items()}
    return {"format": FORMAT} | plain


def _as_json(name: str, value: Any) -> Any:
    """What JSON does not have: NumPy's numbers, and functions (an encoder of the user's, say) by their names."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if callable(value):
        named = value if hasattr(value, "__qualname__") else type(value)
        return f"{named.__module__}.{named.__qualname__}"
    raise invalid(name, "must be numbers, text, lists, dicts or functions, to be written to config.json", value,
                  "Pass one of these.")  # fmt: skip


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a run folder; refused if polaug did not write it, or another version did."""
    file = path / "config.json"
    try:
        config = dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as fault:
        raise StateError(f"out: {file} is not readable ({fault}). Move it away, or choose another folder.") from fault
    if config.get("format", FORMAT) != FORMAT or not isinstance(config.get("versions"), dict):
        found = f"has format {config['format']!r}" if "format" in config else "is not a polaug run's"
        raise StateError(f"out: {file} {found}, this version of polaug writes {FORMAT}. Choose another folder.")
    made = config["versions"].get("polaug")
    if made != polaug.__version__:  # the same method may give other numbers
        rule = f"{file} is of a run with polaug={made!r}, and is not mixed with others"
        raise invalid("out", rule, f"polaug={polaug.__version__!r}", "Choose another folder.")
    return config


def run_path(out: Path, task: str, method: str, seed: int) -> Path:
    """Folder of the run of this task, method and seed. It is always inside `out`."""
    path = out / folder_name(task) / folder_name(method) / f"seed_{seed}"
    check_inside(path, out, "runs")
    return path


def folder_name(name: str) -> str:
    """`name` as one harmless folder name: never a path, never hidden, different for different names."""
    clean = re.sub(r"[^\w.+\-]", "_", name, flags=re.ASCII).lstrip(".")[:80]
    if clean and clean == name:
        return clean
    return f"{clean or 'run'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def versions() -> dict[str, str]:
    """What made the run."""
    packages = ("gymnasium", "numpy", "scipy", "numba", "stable_baselines3", "torch")
    found = {package: metadata.version(package) for package in packages}
    return {"polaug": polaug.__version__, "python": platform.python_version(), **found}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    text = f"{json.dumps(content, indent=1, sort_keys=True)}\n"
    safe_write(path, text.encode())


def write_failure(path: Path, error: str, traceback: str) -> None:
    """Say in a run folder why there will be no done.json."""
    write_json(path / "failed.json", {"error": error, "traceback": traceback, "polaug": polaug.__version__})


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """A run that was made elsewhere, written as if it had been made here: done.json last."""
    path.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (path / name).unlink(missing_ok=True)
    for name in sorted(set(files) & set(FILES), key=FILES.index):
        safe_write(path / name, files[name])
