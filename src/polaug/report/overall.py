"""All tasks at once as the page draws them; study/overall.py says what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polaug.report.digits import short
from polaug.study.overall import TAUS
from polaug.study.overall import overall as compared
from polaug.study.results import Run


def overall(runs: Sequence[Run], order: Sequence[str]) -> dict[str, Any] | None:
    """Scores and profiles by method (its place in `order`); None for fewer than two tasks or methods."""
    found = compared(runs)
    if found is None:
        return None
    methods = [name for name in order if name in found.scores]
    rows = [{"method": order.index(name), "value": short(found.scores[name], 4)} for name in methods]
    curves = {str(order.index(name)): short(np.stack(found.profiles[name]), 4) for name in methods}
    return {"tasks": list(found.tasks), "scores": rows, "profile": {"taus": short(TAUS), "curves": curves}}
