"""Locks that die with their holder: the system frees them even after kill -9. Where there are none, nobody waits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Any

from polaug.errors import StateError


class TakenError(StateError):
    """Another process is writing there."""


def lock(file: IO[Any], folder: Path) -> None:
    """Lock an open file, for the sake of its `folder`, until it is closed."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as fault:
        raise TakenError(f"out: another process is writing {folder}. Wait for it, or choose another folder.") from fault
    except OSError:
        return  # a file system without locks
