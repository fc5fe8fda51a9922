"""Runs of one method on one task brought to common points: by steps, by episodes or by seconds of training.

Training returns are averaged over the episodes that end between two points; evaluations are taken as they are where
all runs share their steps, and interpolated otherwise. All runs count at every point: a curve ends with the shortest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.study.results import Run

AXES = ("steps", "episodes", "seconds")
POINTS = 120
"""The most points of a curve."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Values (seeds, points) at x (points,); in training the guide's share."""

    x: Array
    values: Array
    share: Array | None = None
    """Of the steps, those that the guide took."""


def training(runs: Sequence[Run], axis: str, points: int = POINTS) -> Grid | None:
    """Returns of training episodes; None if a run has no episode or no clock, or nothing in common with another."""
    places = [
        np.arange(1.0, len(run.steps) + 1) if axis == "episodes" else _places(run, run.steps, axis) for run in runs
    ]
    found = [place for place in places if place is not None and len(place)]
    if len(found) < len(runs):
        return None
    end = min(float(place[-1]) for place in found)
    count = min(points, *(int(np.searchsorted(place, end, "right")) for place in found))
    if not count:  # one run was over before another's first episode
        return None
    edges = np.linspace(0.0, end, count + 1)
    if axis == "episodes":
        edges = np.round(edges)
    values, shares = [], []
    for run, place in zip(runs, found, strict=True):
        there = place <= end
        bins = np.clip(np.searchsorted(edges, place[there], "left") - 1, 0, count - 1)
        lengths = run.episodes.lengths[there].astype(float)
        led = np.array([actor != "agent" for actor in run.episodes.actors])[there]
        values.append(_means(bins, run.returns[there], np.ones(len(bins)), count))
        shares.append(_means(bins, led, lengths, count))
    table = np.array(values)
    known = np.isfinite(table).all(axis=0)  # before a run's first episode there is nothing to average
    return Grid(edges[1:][known], table[:, known], np.mean(shares, axis=0)[known])


def evaluations(runs: Sequence[Run], axis: str, points: int = POINTS) -> Grid | None:
    """The agent's own returns; None if a run has none or no clock."""
    found = [run.evaluations for run in runs if run.evaluations is not None and len(run.evaluations.steps)]
    if len(found) < len(runs):
        return None
    if axis == "steps" and all(np.array_equal(table.steps, found[0].steps) for table in found):
        kept = np.unique(np.linspace(0, len(found[0].steps) - 1, points).round().astype(int))
        x = found[0].steps[kept].astype(float)
        return Grid(x, np.array([table.means[kept] for table in found]))
    places = [_places(run, table.steps, axis) for run, table in zip(runs, found, strict=True)]
    known = [place for place in places if place is not None]
    if len(known) < len(runs):
        return None
    start, end = max(float(place[0]) for place in known), min(float(place[-1]) for place in known)
    count = min(points, *(len(place) for place in known))
    x = np.linspace(start, end, count) if end > start else np.array([max(start, end)])
    return Grid(x, np.array([np.interp(x, place, table.means) for place, table in zip(known, found, strict=True)]))


def _places(run: Run, steps: NDArray[Any], axis: str) -> Array | None:
    """Where on the axis a run was after these steps."""
    if axis == "steps":
        return steps.astype(float)
    if axis == "episodes":
        return np.searchsorted(run.steps, steps, "right").astype(float)
    if run.clock is not None and len(run.clock.steps):
        before, seconds = [0, *run.clock.steps], [0.0, *run.clock.seconds]
    elif run.done.get("seconds") and len(run.steps):
        before, seconds = [0, int(run.steps[-1])], [0.0, float(run.done["seconds"])]
    else:
        return None
    return np.asarray(np.interp(steps, before, seconds), dtype=np.float64)


def _means(bins: NDArray[Any], values: Any, weights: Array, count: int) -> Array:
    """Weighted mean of each bin; an empty one repeats what came before, and is NaN if nothing did."""
    sums = np.bincount(bins, weights * values, minlength=count)
    totals = np.bincount(bins, weights, minlength=count)
    means = np.divide(sums, totals, out=np.full(count, np.nan), where=totals > 0)
    last = np.maximum.accumulate(np.where(totals > 0, np.arange(count), -1))
    return np.where(last >= 0, means[np.maximum(last, 0)], np.nan)
