"""The one rule about ranks."""

from __future__ import annotations

from polaug.checks import whole
from polaug.errors import invalid


def check_rank(rank: int, m: int, n: int) -> int:
    """A rank that U (m, r) and V (n, r) can have."""
    if whole("rank", rank, 1) > min(m, n):
        raise invalid(
            "rank", f"must be at most {min(m, n)}, the smaller of X's {m} and Y's {n} features", rank,
            f"Pass rank={min(m, n)} or fewer, or features that distinguish more.",
        )  # fmt: skip
    return rank
