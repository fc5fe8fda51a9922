"""BLAS on one thread: an explorer's matrices are small, and threads that wait for each other cost more than they do.

On a machine that is busy with other runs the difference is a factor of eight. Sums also come out the same to the bit
whatever the number of threads is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
        with _blas().limit(limits=1):
            return function(*args, **kwargs)

    return limited
