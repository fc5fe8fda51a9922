"""BLAS on one thread: an explorer's matrices are small, so more threads make it slower.

On a machine that is busy with other runs the difference is large. Sums also come out the same to the bit
whatever the number of threads is. The number is the process's, not a thread's: while one of several threads fits, the
others' BLAS has one thread too.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

_P = ParamSpec("_P")
_R = TypeVar("_R")


@functools.cache
def _blas() -> ThreadpoolController:
    """Looks for the libraries once, when NumPy and SciPy have loaded theirs."""
    return ThreadpoolController().select(user_api="blas")


def one_thread(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, with BLAS on one thread while it runs."""

    @functools.wraps(function)
    def limited(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        _limit.enter()
        try:
            return function(*args, **kwargs)
        finally:
            _limit.leave()

    return limited


class _Limit:
    """The first caller sets the limit, and the last one to leave restores it."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limiter: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limiter = _blas().limit(limits=1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limiter.restore_original_limits()


_limit = _Limit()
