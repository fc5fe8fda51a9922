"""A run's folder while it is written: config.json first, a CSV file per kind of row, done.json last and atomically.

results.py reads it back. A run in progress holds a lock on its episodes.csv, which the system releases when the process
dies, however it dies.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TextIO

import numpy as np

import polaug
from polaug.errors import StateError, invalid
from polaug.state import State, save_state
from polaug.study.explore import Episode
from polaug.study.locking import lock
from polaug.study.ours import check_inside, check_ours, has_columns, has_keys, never, write_whole
from polaug.study.results import FORMAT

COLUMNS = {
    "episodes.csv": ("episode", "step", "return", "length", "actor"),
    "evaluations.csv": ("step", "mean_return", "std_return"),
    "clock.csv": ("step", "seconds"),
    "bonuses.csv": ("episode", "augmented_return"),
    "choices.csv": ("episode", "member"),
}
"""The columns of each file; one is only there if it has rows, except episodes.csv."""

FILES = ("config.json", *COLUMNS, "maps.npz", "model.zip", "normalization.npz", "failed.json", "done.json")
"""Everything that a run folder may hold."""

_MARKS = {name: has_columns(columns) for name, columns in COLUMNS.items()} | {
    "failed.json": has_keys({"error", "traceback"})
}
"""By what files of ours are known wherever they are; the others only by the config.json beside them."""


class RunFolder:
    """Writes one run as it goes; use it in a `with` block, and call `finish` at the end of it.

    A folder without done.json is an unfinished run and is started anew. A finished run of the same settings is left as
    it is (`finished` is True); one of other settings, and files that are not a run's, are never overwritten.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.settings = _plain(settings)
        self._files: dict[str, TextIO] = {}
        self._writers: dict[str, Any] = {}
        self._rows: dict[str, int] = {}
        self.finished = finished(self.path, settings)
        if self.finished:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._open("episodes.csv")
        for name in FILES:
            if name not in ("config.json", "episodes.csv"):
                (self.path / name).unlink(missing_ok=True)
        write_json(self.path / "config.json", self.settings | {"versions": versions()})

    # -- rows -------------------------------------------------------------------------------------------------------

    def add(self, episode: Episode) -> None:
        """Append an episode; it is on disk at once, for those who watch."""
        self.row("episodes.csv", episode.episode, episode.step, episode.return_, episode.length, episode.actor)

    def row(self, name: str, *values: int | float | str) -> None:
        """Append a row to the file called `name`; numbers keep their last bit, and must be finite."""
        for at, value in enumerate(values):
            if isinstance(value, float) and not math.isfinite(value):
                rule = f"must be finite in row {self._rows.get(name, 0) + 1} of {self.path / name}"
                raise invalid(COLUMNS[name][at], rule, value, "Mend the environment's rewards.")
        if name not in self._writers:
            self._open(name)
        self._writers[name].writerow(values)
        self._files[name].flush()
        self._rows[name] += 1

    def _open(self, name: str) -> None:
        """Open to append, and empty it only once the lock is ours: another process may be writing it."""
        file = (self.path / name).open("a", newline="", encoding="utf-8")
        try:
            lock(file, self.path)
        except BaseException:
            file.close()
            raise
        file.truncate(0)
        self._files[name], self._writers[name], self._rows[name] = file, csv.writer(file), 0
        self._writers[name].writerow(COLUMNS[name])
        file.flush()

    # -- the end ----------------------------------------------------------------------------------------------------

    def finish(self, summary: Mapping[str, Any], maps: State | None = None) -> None:
        """Write what is left, done.json last: where it exists the folder is whole, and its rows are counted there."""
        if maps is not None:
            save_state(self.path / "maps.npz", maps)
        for file in self._files.values():
            os.fsync(file.fileno())  # done.json must not survive a power cut that its rows do not
        write_json(self.path / "done.json", dict(summary) | {"rows": self._rows})
        self.finished = True
        self._close()

    def fail(self, error: str, traceback: str) -> None:
        """Say why there will be no done.json."""
        write_json(self.path / "failed.json", {"error": error, "traceback": traceback})
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def finished(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether `path` holds a finished run of these settings; refuses it if it holds anything that must not be lost."""
    if not (path / "done.json").exists():
        _check_ours(path)
        return False
    if not (path / "config.json").exists():
        raise StateError(f"out: {path / 'done.json'} is no file of polaug's, for there is no config.json beside it. "
                         "Move it away, or choose another folder.")  # fmt: skip
    before, wanted = read_config(path), _plain(settings)
    before.pop("versions", None)
    for name in sorted({*before, *wanted}):
        old, new = before.get(name), wanted.get(name)
        if old != new:
            rule = f"{path / 'config.json'} is of a finished run with {name}={old!r}, and is not overwritten"
            raise invalid("out", rule, f"{name}={new!r}", "Choose another folder, or move that one away.")
    return True


def _check_ours(path: Path) -> None:
    """An unfinished run has our config.json, or died before that and left episodes.csv or failed.json at most."""
    for part in (path, *path.parents):
        if part.exists() and not part.is_dir():
            raise StateError(
                f"out: {part} is a file, where a folder is needed. Move it away, or choose another folder."
            )
    for name, ours in _MARKS.items():
        check_ours(path / name, ours)
    if (path / "config.json").exists():
        read_config(path)
        return
    for name in FILES:
        if name not in ("episodes.csv", "failed.json"):
            check_ours(path / name, never)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they will be read back."""
    return {"format": FORMAT} | {name: _written(name, value) for name, value in settings.items()}


def _written(name: str, value: Any) -> Any:
    """A setting as JSON holds it; a function (an encoder of the user's, say) is told by its name."""
    if value is None or isinstance(value, (str, int, float)):
        return json.loads(json.dumps(value))
    if isinstance(value, Mapping):
        return {str(key): _written(f"{name}.{key}", each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(f"{name}[{k}]", each) for k, each in enumerate(value)]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
        return _written(name, value.tolist())
    if callable(value):
        told = value if hasattr(value, "__qualname__") else type(value)
        return f"{told.__module__}.{told.__qualname__}"
    raise invalid(name, "must be numbers, text, lists, dicts or a function, to be written to config.json", value,
                  "Pass one of these.")  # fmt: skip


def read_config(path: Path) -> dict[str, Any]:
    """The config.json of a run folder, if it is one of ours and of this version."""
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
    """Where the run of this task, method and seed lives: inside `out`, whatever the names are."""
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
    write_whole(path, lambda file: file.write(text.encode()))


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """A run that was made elsewhere, written as if it had been made here: done.json last."""
    path.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (path / name).unlink(missing_ok=True)
    for name in sorted(set(files) & set(FILES), key=FILES.index):
        write_whole(path / name, partial(_content, files[name]))


def _content(content: bytes, file: IO[bytes]) -> None:
    file.write(content)
