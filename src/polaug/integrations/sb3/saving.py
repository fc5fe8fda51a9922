"""The augmentation's entry in SB3's zip: a NumPy archive without pickles, written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.state import State, write_arrays

ENTRY = "polaug.npz"
_SHAPING = ("explorer", "explorer_options", "transfer", "memory", "teach_batch_size")  # what a state fits or does not


def write(path: Any, archive: io.BytesIO, state: State | None) -> None:
    """Put `state` beside what SB3 wrote into `archive`, and all of it to `path`: a file name or an open file."""
    if state is not None:
        arrays = io.BytesIO()
        write_arrays(arrays, state)
        with zipfile.ZipFile(archive, mode="a") as content:
            content.writestr(ENTRY, arrays.getvalue())
    if not isinstance(path, (str, os.PathLike)):
        path.write(archive.getvalue())
        return
    target = Path(path)
    if target.suffix == "":  # as SB3 does
        target = target.with_name(f"{target.name}.zip")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(archive.getvalue())
        Path(temporary).chmod(0o644)  # temporary files are private
        Path(temporary).replace(target)  # the last checkpoint stays whole if this one is cut short
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def by_augmented(path: Any) -> bool:
    """Whether an augmented class has saved it, be it with `augmentation=None`."""
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
            # A file cut short can still look like a zip: the archive inside it has an ending of its own.
            if "data" not in content.namelist():
                raise StateError(f"{path}: damaged, it lacks the agent itself. Load another file.")
            if ENTRY not in content.namelist():
                return None
            with np.load(io.BytesIO(content.read(ENTRY)), allow_pickle=False) as arrays:
                return dict(arrays.items())
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as fault:
        if isinstance(fault, (FileNotFoundError, StateError)):
            raise
        raise StateError(f"{path}: damaged, or not a saved agent ({fault}). Load another file.") from fault
    finally:
        if not isinstance(path, (str, os.PathLike)):
            path.seek(0)


def other_settings(saved: str, given: Augmentation) -> StateError | None:
    """Why a state saved under the settings `saved` does not fit those `given`; None if these are no reason."""
    try:
        old, new = json.loads(saved), json.loads(given.to_json())
    except ValueError:
        return None  # the file is damaged, whatever the settings are
    names = [name for name in _SHAPING if name in old["settings"]]  # callables of the user's are not compared
    names = [name for name in names if old["settings"][name] != new["settings"].get(name)]
    if not names:
        return None
    wanted, got = (
        ", ".join(f"{name}={values.get(name, getattr(given, name))!r}" for name in names)
        for values in (old["settings"], new["settings"])
    )
    remedy = f"Pass {wanted}" + ("." if old["dropped"] else ", or no augmentation=: the saved settings then hold.")
    return StateError(f"augmentation: must fit the saved agent, which had {wanted}, got {got}. {remedy}")
