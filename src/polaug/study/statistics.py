"""Statistics of a few seeds: interquartile means, stratified bootstrap intervals, who is better. Arrays in and out.

Scores are (seeds,) for one task, (seeds, tasks), or a list of NumPy arrays, one of seeds per task, where tasks have
different numbers of them. Intervals are percentile bootstraps in which every task keeps its own seeds; that of who is
better is Newcombe's. Fewer than LEAST_RUNS runs of a task say too little about others: their interval is (nan, nan).
Times that a run may never reach are in survival.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from polaug.checks import choice, whole
from polaug.errors import invalid

FloatArray = NDArray[np.float64]
Statistic = Callable[..., Any]
"""Reduces `axis` of an array, as np.mean, np.median and `interquartile_mean` do."""
Scores = ArrayLike | Sequence[FloatArray]

REPETITIONS = 2000
LEVEL = 0.95
LEAST_RUNS = 5
"""Fewer runs of a method on a task have no interval: nominal 95% from 2, 3, 4 runs hold 50, 75, 85% of the time."""
_CHUNK = 4_000_000  # numbers held at a time while curves are resampled


class Estimate(NamedTuple):
    """A number with its interval; `nan` is unknown, `inf` is more than was observed."""

    value: float
    low: float
    high: float


def interquartile_mean(x: ArrayLike, axis: int | None = None) -> Any:
    """The mean of the middle half: a quarter of the values, rounded down, is cut off at each end."""
    values = finite_array("x", x)
    if axis is None:
        values, axis = values.ravel(), 0
    ordered = np.sort(values, axis=axis)
    n = ordered.shape[axis]
    middle = np.take(ordered, range(n // 4, n - n // 4), axis=axis)
    return middle.mean(axis=axis)


def bootstrap_interval(
    scores: Scores,
    statistic: Statistic = interquartile_mean,
    *,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    level: float = LEVEL,
) -> tuple[float, float]:
    """The interval of `statistic` over all runs, when each task's seeds are drawn again with replacement."""
    strata = stratified("scores", scores)
    rng = generator(repetitions, seed)
    if not enough(level, *strata):
        return np.nan, np.nan
    drawn = np.concatenate([resampled(each, rng, repetitions) for each in strata], axis=1)
    return percentiles(statistic(drawn, axis=1), level)


def estimate(scores: Scores, statistic: Statistic = interquartile_mean, **options: Any) -> Estimate:
    """`statistic` over all runs with its `bootstrap_interval`."""
    value = statistic(np.concatenate(stratified("scores", scores)), axis=0)
    return Estimate(float(value), *bootstrap_interval(scores, statistic, **options))


def difference(
    x: Scores,
    y: Scores,
    statistic: Statistic = interquartile_mean,
    *,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """`statistic` of x minus that of y; both are resampled, independently, and may have different numbers of seeds."""
    strata_x, strata_y = _same_tasks(x, y)
    rng = generator(repetitions, seed)
    value = float(statistic(np.concatenate(strata_x), axis=0) - statistic(np.concatenate(strata_y), axis=0))
    if not enough(level, *strata_x, *strata_y):
        return Estimate(value, np.nan, np.nan)
    drawn_x, drawn_y = (
        np.concatenate([resampled(each, rng, repetitions) for each in strata], axis=1)
        for strata in (strata_x, strata_y)
    )
    return Estimate(value, *percentiles(statistic(drawn_x, axis=1) - statistic(drawn_y, axis=1), level))


def verdict(gap: Estimate, seeds: tuple[int, int], margin: float = 0.0) -> str:
    """What a difference allows to say: better, worse, not worse (by more than `margin`), or unclear.

    "Not worse" needs evidence: the whole interval must lie above −margin. So do seeds: with so few that even an exact
    permutation test of the most extreme outcome could not reach 5% (three against three), everything is unclear.
    """
    if comb(sum(seeds), seeds[0]) < 2 / (1.0 - LEVEL):
        return "unclear"
    if gap.low > 0:
        return "better"
    if gap.high < 0:
        return "worse"
    return "not worse" if gap.low >= -margin else "unclear"  # nan compares false


def curve(
    values: ArrayLike,
    kind: str = "iqm",
    *,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    level: float = LEVEL,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre, low and high (points,) of curves (seeds, points); intervals hold point by point, not for whole curves."""
    statistic: Statistic = np.mean if choice("kind", kind, ("iqm", "mean")) == "mean" else interquartile_mean
    rows = finite_array("values", values)
    if rows.ndim != 2:
        raise invalid("values", "must be (seeds, points)", rows, "Stack one row per seed.")
    centre = np.asarray(statistic(rows, axis=0), dtype=np.float64)
    if not enough(level, rows):
        unknown = np.full(len(centre), np.nan)
        return centre, unknown, unknown.copy()
    drawn = generator(repetitions, seed).integers(len(rows), size=(repetitions, len(rows)))
    width = max(1, _CHUNK // drawn.size)
    parts = [
        percentiles_along(statistic(rows[drawn, start : start + width], axis=1), level)
        for start in range(0, rows.shape[1], width)
    ]
    low, high = (np.concatenate(side) for side in zip(*parts, strict=True))
    return centre, low, high


def probability_of_improvement(x: Scores, y: Scores, *, level: float = LEVEL) -> Estimate:
    """The probability that a run of x beats a run of y on the same task, averaged over tasks; a tie counts half.

    Its interval is Newcombe's (2006, method 5): all θ that are less than z standard errors away from what was seen,
    with the standard error that θ itself implies. Unlike a bootstrap it has a width where every run of x beats every
    run of y. Of several tasks the variances add up as if all of them had the same θ, which errs on the wide side.
    """
    strata_x, strata_y = _same_tasks(x, y)
    pairs = list(zip(strata_x, strata_y, strict=True))
    value = float(np.mean([((a[:, None] > b) + 0.5 * (a[:, None] == b)).mean() for a, b in pairs]))
    if not enough(level, *strata_x, *strata_y):
        return Estimate(value, np.nan, np.nan)
    z = float(norm.ppf(0.5 + level / 2.0))

    def excess(theta: float) -> float:
        variance = sum(_win_variance(theta, len(a), len(b)) for a, b in pairs) / len(pairs) ** 2
        return (theta - value) ** 2 - z**2 * float(variance)

    inner = min(max(value, 1e-9), 1.0 - 1e-9)  # at 0 and 1 there is no variance, and so no change of sign
    low = 0.0 if value == 0.0 else float(brentq(excess, 0.0, inner))
    high = 1.0 if value == 1.0 else float(brentq(excess, inner, 1.0))
    return Estimate(value, low, high)


def _win_variance(theta: float, n: int, m: int) -> float:
    """Of the share of pairs that n runs win against m, if a run wins with probability θ."""
    more = (n + m) / 2.0 - 1.0
    return theta * (1.0 - theta) / (n * m) * (1.0 + more * ((1.0 - theta) / (2.0 - theta) + theta / (1.0 + theta)))


def performance_profile(
    scores: Scores, taus: ArrayLike, *, repetitions: int = REPETITIONS, seed: int = 0, level: float = LEVEL
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The share of runs that score above each τ, averaged over tasks: centre, low and high (taus,)."""
    strata, limits = stratified("scores", scores), finite_array("taus", taus).ravel()
    rng = generator(repetitions, seed)
    above = [each[:, None] > limits for each in strata]
    centre = np.mean([each.mean(axis=0) for each in above], axis=0)
    if not enough(level, *strata):
        unknown = np.full(len(limits), np.nan)
        return centre, unknown, unknown.copy()
    samples = np.mean([shares(len(each), rng, repetitions) @ each for each in above], axis=0)
    return (centre, *percentiles_along(samples, level))


# -- shared with survival.py ------------------------------------------------------------------------------------------


def finite_array(name: str, values: Any) -> FloatArray:
    """`values` as a non-empty array of finite numbers."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid(name, "must be an array of numbers", values, "Pass one number per run.") from None
    if array.ndim == 0 or array.size == 0:
        raise invalid(name, "must hold at least one number", values, "Pass one number per run.")
    if not np.isfinite(array).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        remedy = "Leave out runs that failed, and say so; never average over NaN."
        raise invalid(name, f"entry {at} must be finite", float(array[at]), remedy)
    return array


def stratified(name: str, scores: Any) -> list[FloatArray]:
    """One array of seeds per task."""
    if isinstance(scores, (list, tuple)) and scores and all(isinstance(each, np.ndarray) for each in scores):
        return [finite_array(name, each).ravel() for each in scores]  # nested lists are a matrix, by rows
    array = finite_array(name, scores)
    if array.ndim > 2:
        raise invalid(name, "must be (seeds,) or (seeds, tasks)", array, "Reduce each run to one score.")
    return [array] if array.ndim == 1 else list(array.T)


def generator(repetitions: int, seed: int) -> np.random.Generator:
    """The generator of one bootstrap: the same seed, the same interval."""
    whole("repetitions", repetitions, 1)
    return np.random.default_rng(whole("seed", seed, 0))


def enough(level: float, *strata: FloatArray) -> bool:
    """Whether each of the samples is large enough for an interval."""
    if not 0.0 < level < 1.0:
        raise invalid("level", "must lie between 0 and 1", level, "Pass for example 0.95.")
    return min(map(len, strata)) >= LEAST_RUNS


def resampled(values: FloatArray, rng: np.random.Generator, repetitions: int) -> FloatArray:
    """(repetitions, n) values drawn with replacement."""
    return np.asarray(values[rng.integers(len(values), size=(repetitions, len(values)))])


def shares(n: int, rng: np.random.Generator, repetitions: int) -> FloatArray:
    """(repetitions, n): the share of each of n runs in a sample drawn with replacement."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=repetitions) / n


def percentiles(samples: FloatArray, level: float) -> tuple[float, float]:
    """The interval that holds `level` of the samples."""
    low, high = percentiles_along(np.asarray(samples)[:, None], level)
    return float(low[0]), float(high[0])


def percentiles_along(samples: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """`percentiles` of each column; ranks are rounded outwards and not interpolated, so that infinities survive."""
    tail, last = (1.0 - level) / 2.0, len(samples) - 1
    low, high = int(np.floor(tail * last)), int(np.ceil((1.0 - tail) * last))
    ordered = np.sort(samples, axis=0)
    return ordered[low], ordered[high]


def _same_tasks(x: Scores, y: Scores) -> tuple[list[FloatArray], list[FloatArray]]:
    strata_x, strata_y = stratified("x", x), stratified("y", y)
    if len(strata_x) != len(strata_y):
        rule = f"must have as many tasks as x, {len(strata_x)}"
        raise invalid("y", rule, len(strata_y), "Compare on the tasks that both have.")
    return strata_x, strata_y
