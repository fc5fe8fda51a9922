"""Files in a results folder: written whole or not at all, only in place of files of ours, and never outside of it.

A predicate (`has_columns`, `has_keys`, `bears`) says by what a kind of file is known as ours.
"""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import IO, TypeAlias

from polaug.errors import StateError

Ours: TypeAlias = Callable[[Path], bool]


def check_ours(path: Path, ours: Ours) -> None:
    """Refuse a file that is there and is not known as ours, before anything is written."""
    if not os.path.lexists(path):
        return
    try:
        known = path.is_file() and ours(path)
    except (OSError, ValueError):  # nothing that could be read as one of ours
        known = False
    if not known:
        raise StateError(f"out: {path} is no file of polaug's, and is not overwritten. Move it away, or choose "
                         "another folder.")  # fmt: skip


def check_inside(path: Path, out: Path, what: str = "results") -> None:
    """Refuse a path that a link leads out of the results folder."""
    if not path.resolve().is_relative_to(out.resolve()):
        raise StateError(f"out: {path} leads out of {out}, and {what} stay inside it. Remove the link.")


def has_columns(columns: Sequence[str]) -> Ours:
    """A CSV file that begins with these columns; one that was cut off within them counts too."""
    line = io.StringIO()
    csv.writer(line).writerow(columns)
    header = line.getvalue().encode()

    def ours(path: Path) -> bool:
        with path.open("rb") as file:
            return header.startswith(file.read(len(header)))

    return ours


def has_keys(needed: Set[str], optional: Set[str] = frozenset()) -> Ours:
    """A JSON object with all the `needed` keys, and no others but the `optional`."""

    def ours(path: Path) -> bool:
        content = json.loads(path.read_bytes())
        return isinstance(content, dict) and needed <= content.keys() <= needed | optional

    return ours


def bears(mark: bytes) -> Ours:
    """A file of any kind that holds `mark`."""
    return lambda path: mark in path.read_bytes()


def never(_: Path) -> bool:
    """A file that nothing marks: one that is there is not ours."""
    return False


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> Path:
    """Let `write` fill a file beside `path`, and put it in its place once it is whole."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
