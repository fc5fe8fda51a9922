"""Ratios of times taken in one run: contenders alternate, so that a busy machine slows both."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def alternate(*contenders: Callable[[], object], rounds: int = 15, repeats: int = 1) -> list[float]:
    """Least seconds of one call of each contender over `rounds` turns."""
    times: list[list[float]] = [[] for _ in contenders]
    for contender in contenders:
        contender()
    for _ in range(rounds):
        for taken, contender in zip(times, contenders, strict=True):
            start = time.perf_counter()
            for _ in range(repeats):
                contender()
            taken.append((time.perf_counter() - start) / repeats)
    return [min(taken) for taken in times]


def machine() -> str:
    """What the figures were measured on."""
    return f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, 1 thread"


def save(name: str, results: dict[str, Any]) -> None:
    """Write results beside the benchmarks, small and readable."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **results}, indent=1) + "\n")
    print(f"wrote {path.relative_to(RESULTS.parent.parent)}")
