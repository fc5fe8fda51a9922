"""The one door to Numba: a typed `compiled` decorator, so that kernels read as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """`function` compiled to machine code on first call and cached on disk; `.py_func` is the original.

    Sums may be reordered (so that dot products use vector instructions), but NaN and infinity keep their meaning:
    the kernels look for them.
    """
    return cast(Function, numba.njit(cache=True, fastmath={"reassoc", "contract"})(function))
