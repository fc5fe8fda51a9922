"""A run's folder: config.json, episodes.csv, maps.npz if there are maps, and done.json, written last and atomically."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import polaug
from polaug.errors import StateError, invalid
from polaug.state import State, save_state
from polaug.study.explore import Episode

COLUMNS = ("episode", "step", "return", "length", "actor")


class RunFolder:
    """Writes one run as it goes; use it in a `with` block, and call `finish` at the end of it.

    A folder without done.json is an unfinished run and is started anew. A finished run of the same settings is left as
    it is (`finished` is True); one of other settings is never overwritten.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.settings = json.loads(json.dumps(dict(settings)))  # as it will be read back
        self.finished = (self.path / "done.json").exists()
        if self.finished:
            self._check_same()
            return
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "maps.npz").unlink(missing_ok=True)
        _write_json(self.path / "config.json", self.settings | {"versions": versions()})
        self._file = (self.path / "episodes.csv").open("w", newline="", encoding="utf-8")
        self._writer = csv.writer(self._file)
        self._writer.writerow(COLUMNS)

    def add(self, episode: Episode) -> None:
        """Append an episode; it is on disk at once, for those who watch."""
        values = (episode.episode, episode.step, repr(episode.return_), episode.length, episode.actor)
        self._writer.writerow(values)
        self._file.flush()

    def finish(self, summary: Mapping[str, Any], maps: State | None = None) -> None:
        """Write what is left, done.json last: where it exists the folder is whole."""
        self._file.close()
        if maps is not None:
            save_state(self.path / "maps.npz", maps)
        _write_json(self.path / "done.json", dict(summary))
        self.finished = True

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def _check_same(self) -> None:
        try:
            before = json.loads((self.path / "config.json").read_text(encoding="utf-8"))
            before.pop("versions", None)
        except (OSError, ValueError, AttributeError) as fault:
            raise StateError(f"out: {self.path} has a done.json but no readable config.json. Delete it.") from fault
        for name in sorted({*before, *self.settings}):
            old, new = before.get(name), self.settings.get(name)
            if old != new:
                rule = f"{self.path} holds a finished run with {name}={old!r}, and is not overwritten"
                raise invalid("out", rule, f"{name}={new!r}", "Choose another folder, or delete that one.")


def folder_name(name: str) -> str:
    """`name` as one harmless folder name: never a path, never hidden, different for different names."""
    clean = re.sub(r"[^\w.\-]", "_", name, flags=re.ASCII).lstrip(".")[:80]
    if clean and clean == name:
        return clean
    return f"{clean or 'run'}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def versions() -> dict[str, str]:
    """What made the run."""
    packages = ("gymnasium", "numpy", "scipy", "numba")
    found = {package: metadata.version(package) for package in packages}
    return {"polaug": polaug.__version__, "python": platform.python_version(), **found}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, sort_keys=True)
            file.write("\n")
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
