"""The augmentation's entry in SB3's zip file: a NumPy archive without pickles. A crash leaves no partial file."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.snapshot import CHECKSUMS, with_checksums, without_checksums
from polaug.state import UNREADABLE, State, check_sizes, read_arrays, safe_write, unpacked, write_arrays

ENTRY = "polaug.npz"
_SHAPING = ("explorer", "explorer_options", "guide", "transfer", "memory")  # settings that a state must fit


def write(path: Any, archive: io.BytesIO, state: State | None) -> None:
    """Add `state` to SB3's `archive`, and write it to `path`, a file name or an open file."""
    if state is not None:
        arrays = io.BytesIO()
        write_arrays(arrays, with_checksums(state))
        with zipfile.ZipFile(archive, mode="a") as content:
            content.writestr(ENTRY, arrays.getvalue())
    if not isinstance(path, (str, os.PathLike)):
        path.write(archive.getvalue())
        return
    target = Path(path)
    if target.suffix == "":  # as SB3 does
        target = target.with_name(f"{target.name}.zip")
    safe_write(target, archive.getvalue())  # the last checkpoint survives a crash


def by_augmented(path: Any) -> bool:
    """Whether an augmented class saved the file, also with `augmentation=None`."""
    try:
        with zipfile.ZipFile(_source(path)) as content:
            return b'"_n_steps_are_ours"' in content.read("data")
    finally:
        if not isinstance(path, (str, os.PathLike)):
            path.seek(0)


def _source(path: Any) -> Any:
    if not isinstance(path, (str, os.PathLike)):
        return path
    target = Path(path)
    return target if target.is_file() else target.with_name(f"{target.name}.zip")


def read(path: Any) -> State | None:
    """The entry of a saved agent; None if it was saved without one."""
    try:
        with zipfile.ZipFile(_source(path)) as content:
            check_sizes(content, str(path))
            # A truncated file can still look like a zip file, because the inner archive has its own end.
            if "data" not in content.namelist():
                raise StateError(f"{path}: damaged, the agent is missing. Load another file.")
            if bad := content.testzip():
                raise StateError(f"{path}: damaged, {bad} is not what was saved. Load another file.")
            if ENTRY not in content.namelist():
                return None
            state = read_arrays(unpacked(content, ENTRY, str(path)), f"{path}: {ENTRY}")
            # A file of an earlier version has no checksums, and the bridge names that version.
            return without_checksums(state) if CHECKSUMS in state else state
    except UNREADABLE as fault:
        if isinstance(fault, (FileNotFoundError, StateError)):
            raise
        raise StateError(f"{path}: damaged, or not a saved agent ({fault}). Load another file.") from fault
    finally:
        if not isinstance(path, (str, os.PathLike)):
            path.seek(0)


def other_settings(saved: str, given: Augmentation) -> StateError | None:
    """The error if a state saved with settings `saved` does not fit those `given`; None if it does."""
    try:
        old, new = json.loads(saved), json.loads(given.to_json())
    except ValueError:
        return None  # the file is damaged
    names = [name for name in _SHAPING if name in old["settings"]]  # the user's callables are not compared
    names = [name for name in names if old["settings"][name] != new["settings"].get(name)]
    if not names:
        return None
    wanted, got = (
        ", ".join(f"{name}={values.get(name, getattr(given, name))!r}" for name in names)
        for values in (old["settings"], new["settings"])
    )
    remedy = f"Pass {wanted}" + ("." if old["dropped"] else ", or leave out augmentation= to use the saved settings.")
    return StateError(f"augmentation: must fit the saved agent, which had {wanted}, got {got}. {remedy}")
