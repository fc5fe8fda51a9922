"""The rules that solvers' settings share, each worded once."""

from __future__ import annotations

import math
from numbers import Integral, Real

from polaug.errors import invalid


def non_negative(**settings: object) -> None:
    """Each setting is a finite number ≥ 0."""
    for name, value in settings.items():
        if not (isinstance(value, Real) and math.isfinite(value) and float(value) >= 0):
            raise invalid(name, "must be a finite number ≥ 0", value, f"Pass {name}=0 to switch the term off.")


def positive(**settings: object) -> None:
    """Each setting is a finite number > 0."""
    for name, value in settings.items():
        if not (isinstance(value, Real) and math.isfinite(value) and float(value) > 0):
            raise invalid(name, "must be a finite number > 0", value, "Pass a small positive number, such as 1e-6.")


def at_least_one(**settings: object) -> None:
    """Each setting is a whole number ≥ 1."""
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
            raise invalid(name, "must be a whole number ≥ 1", value, "Pass a positive int.")


def check_rank(rank: int, m: int, n: int) -> int:
    """A rank that U (m, r) and V (n, r) can have."""
    at_least_one(rank=rank)
    if rank > min(m, n):
        raise invalid(
            "rank", f"must be at most {min(m, n)}, the smaller of X's {m} and Y's {n} features", rank,
            f"Pass rank={min(m, n)} or fewer, or features that distinguish more.",
        )  # fmt: skip
    return rank
