"""Maps of a run as the page draws them: rows of cells at each snapshot, None where nothing is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.report.labels import short
from polaug.state import State


def pack(maps: State, snapshots: int = 12) -> dict[str, Any]:
    """One run's maps, at so many of its snapshots."""
    total = len(maps["steps"])
    times = np.unique(np.linspace(0, total - 1, min(snapshots, total)).round().astype(int))
    # Q̃ and Q̂ share their colours, so that they can be compared; Q̂'s early optimism would wash out what came later.
    both = _span([maps["observed"][times], *([maps["completed"][times[-1:]]] if "completed" in maps else [])])
    actions = int(maps["choice"].max()) + 1 if "choice" in maps else 0
    ends = {
        "visits": (0, int(maps["visits"].max())), "observed": both, "completed": both, "uncertainty": (0, 1),
        "choice": (-0.5, max(2, actions) - 0.5),
    }  # fmt: skip
    layers = {
        name: {"cells": _cells(maps[name][times]), "from": short(low, 6), "to": short(high, 6)}
        for name, (low, high) in ends.items()
        if name in maps
    }
    edges = maps["edges"]
    result: dict[str, Any] = {
        "steps": maps["steps"][times].tolist(), "dimensions": maps["dimensions"].tolist(),
        "median": short(maps["median"]), "x": short(edges[0, [0, -1]]), "y": short(edges[1, [0, -1]]),
        "size": maps["visits"].shape[1], "layers": layers,
    }  # fmt: skip
    if "singular_values" in maps:
        values = maps["singular_values"]
        result |= {"all_steps": maps["steps"].tolist(), "singular": short(values.T)}
        result |= {"rank": short(effective_rank(values))}
    return result


def effective_rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exponential of the entropy of singular values (Roy and Vetterli, 2007): 1 for rank one, K if all are equal."""
    known = np.nan_to_num(values)
    total = known.sum(axis=1, keepdims=True)
    shares = np.divide(known, total, out=np.zeros_like(known), where=total > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.where(total[:, 0] > 0, np.exp(-(shares * logs).sum(axis=1)), np.nan)


def _cells(values: NDArray[Any]) -> Any:
    """Rows of cells (snapshots, y, x) of a map (snapshots, x, y); whole numbers as they are, −1 is "not known"."""
    turned = values.transpose(0, 2, 1)
    if turned.dtype.kind == "f":
        low, high = _span([turned])
        # Four digits of the differences: values may be large and close to each other.
        magnitudes = math.log10(max(abs(low), abs(high), high - low) / (high - low))
        return short(turned, 4 + round(magnitudes))
    cells = turned.astype(object)
    cells[turned < 0] = None
    return cells.tolist()


def _span(parts: list[NDArray[Any]]) -> tuple[float, float]:
    finite = np.concatenate([each[np.isfinite(each)] for each in parts])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    return low, high if high > low else low + 1.0
