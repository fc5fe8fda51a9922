"""Learning curves as plain data: for each axis the points, mean ± std, interquartile mean with interval, and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polaug.report.grids import AXES, Grid, evaluations, training
from polaug.report.labels import arm_colours, short
from polaug.study.results import Run
from polaug.study.statistics import LEAST_RUNS, curve

SAMPLES = 300
"""Bootstrap samples of each curve; bands need no third digit."""


def curves(runs: Sequence[Run], samples: int = SAMPLES) -> dict[str, dict[str, Any]]:
    """Both kinds of curves by each axis that the runs know."""
    kinds = {"evaluation": evaluations, "training": training}
    found = {kind: {axis: make(runs, axis) for axis in AXES} for kind, make in kinds.items()}
    told = {
        kind: {axis: _as_plain_data(grid, samples) for axis, grid in axes.items() if grid is not None and len(grid.x)}
        for kind, axes in found.items()
    }
    return {kind: axes for kind, axes in told.items() if axes}


def bands(values: Any, samples: int = SAMPLES) -> dict[str, tuple[Any, Any, Any]]:
    """Centre, low and high (points,) of values (seeds, points) by each statistic; low and high are NaN for one seed.

    Around the interquartile mean is its interval, or, where there are too few seeds for one, the lowest and the highest
    of them.
    """
    mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else np.nan
    centre, low, high = curve(values, repetitions=samples)
    if 1 < len(values) < LEAST_RUNS:
        low, high = values.min(axis=0), values.max(axis=0)
    return {"mean": (mean, mean - spread, mean + spread), "iqm": (centre, low, high)}


def _as_plain_data(grid: Grid, samples: int) -> dict[str, Any]:
    told = {"x": short(grid.x, 6)} | {
        name: short(np.stack(band), 4) for name, band in bands(grid.values, samples).items()
    }
    if len(grid.values) > 1:
        told["seeds"] = short(grid.values, 4)
    return told if grid.share is None else told | {"share": short(grid.share, 3)}


def choices(runs: Sequence[Run], bins: int = 60) -> dict[str, Any] | None:
    """Which arm of the explorer drove: shares over seeds, by the explorer's episodes; None if there is none."""
    driven = [run.choices for run in runs if run.choices]
    if not driven:
        return None
    members = sorted({member for each in driven for member in each})
    longest = max(map(len, driven))
    width = -(-longest // bins)
    counts = np.zeros((len(members), -(-longest // width)))
    for each in driven:
        for k, member in enumerate(each):
            counts[members.index(member), k // width] += 1
    middles = np.arange(counts.shape[1]) * width + (width + 1) / 2
    there = [sum(len(each) > k * width for each in driven) for k in range(counts.shape[1])]
    return {"members": members, "colours": arm_colours(members), "x": short(middles),
            "width": width, "shares": short(counts / counts.sum(axis=0), 3), "runs": there}  # fmt: skip
