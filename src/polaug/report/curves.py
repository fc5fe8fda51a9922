"""Learning curves as plain data: for each axis the points, mean ± std, interquartile mean with interval, and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polaug.report.grids import AXES, POINTS, Grid, evaluations, training
from polaug.report.labels import member_colours, short
from polaug.study.results import Run
from polaug.study.statistics import LEAST_RUNS, curve

SAMPLES = 300
"""Bootstrap samples of each curve; bands need no third digit."""
SEED_NUMBERS = 250_000
"""Numbers of all per-seed lines of a page, about 2 MB; with more runs each line has fewer points."""


def thinned(runs: int) -> int:
    """Lines of single seeds keep every n-th point: this n."""
    return max(1, -(-runs * POINTS * 2 * len(AXES) // SEED_NUMBERS))


def curves(runs: Sequence[Run], samples: int = SAMPLES, every: int = 1) -> dict[str, dict[str, Any]]:
    """Both kinds of curves by each axis that the runs know; lines of single seeds have every `every`-th point."""
    kinds = {"evaluation": evaluations, "training": training}
    found = {kind: {axis: make(runs, axis) for axis in AXES} for kind, make in kinds.items()}
    told = {
        kind: {axis: _told(grid, samples, every) for axis, grid in axes.items() if grid is not None and len(grid.x)}
        for kind, axes in found.items()
    }
    return {kind: axes for kind, axes in told.items() if axes}


def bands(values: Any, samples: int = SAMPLES) -> dict[str, tuple[Any, Any, Any]]:
    """Centre, low and high (points,) of values (seeds, points) by each statistic; low and high are NaN for one seed.

    Around the interquartile mean is its interval, or, where there are too few seeds for one, the lowest and the highest
    of them. NaN: that seed does not count at that point.
    """
    patterns, which = np.unique(np.isfinite(values), axis=1, return_inverse=True)
    made = {name: np.full((3, values.shape[1]), np.nan) for name in ("mean", "iqm")}
    for k, there in enumerate(patterns.T):
        points = which.ravel() == k
        same = values[there][:, points]
        mean, spread = same.mean(axis=0), same.std(axis=0, ddof=1) if len(same) > 1 else np.nan
        made["mean"][:, points] = mean, mean - spread, mean + spread
        made["iqm"][:, points] = curve(same, repetitions=samples)
        if 1 < len(same) < LEAST_RUNS:
            made["iqm"][1:, points] = same.min(axis=0), same.max(axis=0)
    return {name: (centre, low, high) for name, (centre, low, high) in made.items()}


def _told(grid: Grid, samples: int, every: int) -> dict[str, Any]:
    told = {"x": short(grid.x, 6)} | {
        name: short(np.stack(band), 4) for name, band in bands(grid.values, samples).items()
    }
    if len(grid.values) > 1:
        at = np.arange(len(grid.x) - 1, -1, -every)[::-1]
        told["seeds"] = {"x": short(grid.x[at], 6), "y": short(grid.values[:, at], 4)}
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
    return {"members": members, "colours": member_colours(members), "x": short(middles),
            "width": width, "shares": short(counts / counts.sum(axis=0), 3), "runs": there}  # fmt: skip
