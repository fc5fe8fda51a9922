"""The study's clock. It stands still while numba compiles: only a machine's first runs do, whatever the method."""

from __future__ import annotations

import time
from typing import Any

from numba.core import event

_EVENT: Any = event  # it has no types
_COMPILING = _EVENT.TimingListener()
_EVENT.register("numba:compile", _COMPILING)


def seconds() -> float:
    """Like `time.perf_counter`, without what this process has spent compiling."""
    return time.perf_counter() - compile_seconds()


def compile_seconds() -> float:
    """What this process has spent compiling so far."""
    return float(_COMPILING.duration) if _COMPILING.done else 0.0
