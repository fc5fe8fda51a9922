"""Maps of a run as the page takes them: layers of bytes, deflated, in base64; singular values as plain numbers.

Byte 0 is "not known", 1 to 255 the range of the layer, or actions by their number; visits are whole numbers of four
bytes, for they span decades.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.report.labels import short
from polaug.state import State

_MOST_ACTIONS = 255  # that fit into a byte


def pack(maps: State, snapshots: int = 12) -> dict[str, Any]:
    """One run's maps, at so many of its snapshots."""
    total = len(maps["steps"])
    times = np.unique(np.linspace(0, total - 1, min(snapshots, total)).round().astype(int))
    layers: dict[str, Any] = {"visits": _counts(maps["visits"][times])}
    # Q̃ and Q̂ share their colours, so that they can be compared; Q̂'s early optimism would wash out what came later.
    both = [maps["observed"][times], *([maps["completed"][times[-1:]]] if "completed" in maps else [])]
    for name in ("observed", "completed", "uncertainty"):
        if name in maps:
            cells = maps[name][times]
            layers[name] = _bytes(cells, *((0.0, 1.0) if name == "uncertainty" else _span(both)))
    if "choice" in maps and maps["choice"].max() < _MOST_ACTIONS:
        layers["choice"] = _indices(maps["choice"][times])
    edges = maps["edges"]
    result: dict[str, Any] = {
        "steps": maps["steps"][times].tolist(),
        "dimensions": maps["dimensions"].tolist(),
        "median": short(maps["median"]) if "median" in maps else [],
        "x": short(edges[0, [0, -1]]), "y": short(edges[1, [0, -1]]),
        "cells": maps["visits"].shape[1], "layers": layers,
    }  # fmt: skip
    if "singular_values" in maps:
        values = maps["singular_values"]
        result |= {
            "all_steps": maps["steps"].tolist(),
            "singular": short(values.T),
            "rank": short(effective_rank(values)),
        }
    return result


def effective_rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exponential of the entropy of singular values (Roy and Vetterli, 2007): 1 for rank one, K if all are equal."""
    known = np.nan_to_num(values)
    total = known.sum(axis=1, keepdims=True)
    shares = np.divide(known, total, out=np.zeros_like(known), where=total > 0)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.where(total[:, 0] > 0, np.exp(-(shares * logs).sum(axis=1)), np.nan)


def _counts(visits: NDArray[Any]) -> dict[str, Any]:
    turned = visits.transpose(0, 2, 1).astype("<u4")
    return {"kind": "counts", "low": 0, "high": int(visits.max()), "data": _text(turned)}


def _bytes(cells: NDArray[Any], start: float, stop: float) -> dict[str, Any]:
    """Levels from the least to the greatest value; colours go from `start` to `stop`."""
    low, high = _span([cells])
    part = cells.transpose(0, 2, 1).astype(np.float64)
    levels = np.where(np.isfinite(part), np.round(1.0 + 254.0 * (np.nan_to_num(part) - low) / (high - low)), 0.0)
    ends = {"low": low, "high": high, "from": start, "to": stop}
    return {"kind": "bytes", "data": _text(levels.astype(np.uint8))} | {k: short(end, 6) for k, end in ends.items()}


def _indices(cells: NDArray[Any]) -> dict[str, Any]:
    """Numbers of actions, one more than they are: 0 is "not known"."""
    part = cells.transpose(0, 2, 1)
    highest = max(1, int(cells.max()))
    return {"kind": "indices", "low": 0, "high": highest, "from": -0.5, "to": highest + 0.5,
            "data": _text((part + 1).astype(np.uint8))}  # fmt: skip


def _span(parts: list[NDArray[Any]]) -> tuple[float, float]:
    finite = np.concatenate([each[np.isfinite(each)] for each in parts])
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    return low, high if high > low else low + 1.0


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes())).decode("ascii")
