"""Statistics of a few seeds: interquartile means, bootstrap intervals, probability of improvement, censored times.

Scores are (seeds,) for one task, or a list of arrays, one of seeds for each task. Intervals are percentile bootstraps
in which every task keeps its own seeds; that of the probability of improvement is Newcombe's. Fewer than LEAST_RUNS
runs of a task say too little about others: their interval is (nan, nan).

Times that a run may never reach are censored, neither dropped nor called solved: a run gives a time and whether the
threshold was `reached` then; if not, the time is how long was looked. Medians are Kaplan and Meier's, their intervals
bootstraps (Efron, 1981). `inf` means beyond what was observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.errors import invalid
from polaug.streams import stream

FloatArray = NDArray[np.float64]
Band = tuple[FloatArray, FloatArray, FloatArray]
"""Value, low and high of several numbers."""

REPETITIONS = 2000
LEVEL = 0.95
LEAST_RUNS = 5
"""Fewer runs of a method on a task have no interval: nominal 95% from 2, 3, 4 runs hold 50, 75, 85% of the time."""


class Estimate(NamedTuple):
    """A number with its interval; `nan` is unknown, `inf` is more than was observed."""

    value: float
    low: float
    high: float


# -- scores -----------------------------------------------------------------------------------------------------------


def interquartile_mean(x: ArrayLike, axis: int | None = None) -> Any:
    """The mean of the middle half: a quarter of the values, rounded down, is cut off at each end.

    Values may be infinite, such as times of what never happened.
    """
    values = np.asarray(x, dtype=np.float64)
    if axis is None:
        values, axis = values.ravel(), 0
    ordered = np.sort(values, axis=axis)
    n = ordered.shape[axis]
    return np.take(ordered, range(n // 4, n - n // 4), axis=axis).mean(axis=axis)


def estimate(scores: ArrayLike | Sequence[FloatArray], *, repetitions: int = REPETITIONS) -> Estimate:
    """Interquartile mean over all runs."""
    strata = _strata(scores)
    value = float(interquartile_mean(np.concatenate(strata)))
    if not _enough(*strata):
        return Estimate(value, np.nan, np.nan)
    low, high = _ends(_means(_generator(), strata, repetitions))
    return Estimate(value, float(low), float(high))


def _means(rng: np.random.Generator, strata: Sequence[FloatArray], repetitions: int) -> FloatArray:
    """Interquartile means (repetitions, ...) of runs (seeds, ...) drawn again, each task's from its own."""
    drawn = [each[rng.integers(len(each), size=(repetitions, len(each)))] for each in strata]
    means: FloatArray = interquartile_mean(np.concatenate(drawn, axis=1), axis=1)
    return means


def curve(values: FloatArray, *, repetitions: int = REPETITIONS) -> Band:
    """Interquartile means (points,) of curves (seeds, points); intervals hold point by point."""
    centre = interquartile_mean(values, axis=0)
    return (centre, *(_ends(_means(_generator(), [values], repetitions)) if _enough(values) else _unknown(centre)))


def performance_profile(scores: Sequence[FloatArray], taus: FloatArray, *, repetitions: int = REPETITIONS) -> Band:
    """The share of runs that score above each τ."""
    above = [_numbers("scores", each)[:, None] > taus for each in scores]
    centre = np.concatenate(above).mean(axis=0)
    if not _enough(*above):
        return (centre, *_unknown(centre))
    rng = _generator()
    counts = np.sum([_draws(rng, len(each), repetitions) @ each for each in above], axis=0)
    return (centre, *_ends(counts / sum(map(len, above))))


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> Estimate:
    """The probability that a run of x beats a run of y; a tie counts half.

    Its interval is Newcombe's (2006, method 5): all θ that are less than z standard errors away from what was seen,
    with the standard error that θ itself implies. Unlike a bootstrap it has a width where every run of x beats every
    run of y.
    """
    mine, theirs = _numbers("x", x), _numbers("y", y)
    n, m = len(mine), len(theirs)
    value = float(((mine[:, None] > theirs) + 0.5 * (mine[:, None] == theirs)).mean())
    if not _enough(mine, theirs):
        return Estimate(value, np.nan, np.nan)
    from scipy.optimize import brentq  # slow to load, and no command but a summary needs it

    z, more = NormalDist().inv_cdf(0.5 + LEVEL / 2.0), (n + m) / 2.0 - 1.0

    def excess(theta: float) -> float:
        spread = 1.0 + more * ((1.0 - theta) / (2.0 - theta) + theta / (1.0 + theta))
        return (theta - value) ** 2 - z**2 * theta * (1.0 - theta) / (n * m) * spread

    inner = min(max(value, 1e-9), 1.0 - 1e-9)  # at 0 and 1 there is no variance, and so no change of sign
    low = 0.0 if value == 0.0 else float(brentq(excess, 0.0, inner))
    high = 1.0 if value == 1.0 else float(brentq(excess, inner, 1.0))
    return Estimate(value, low, high)


# -- times ------------------------------------------------------------------------------------------------------------


def censored_median(times: ArrayLike, reached: ArrayLike, *, repetitions: int = REPETITIONS) -> Estimate:
    """Kaplan–Meier median, `inf` unless more than half of the runs reach the threshold, with its interval.

    If no run was cut off before the slowest success, this is the plain median with "never" as infinity.
    """
    clock, events = _runs(times, reached)
    value = median_time(clock, events)
    if not _enough(clock):
        return Estimate(value, np.nan, np.nan)
    low, high = _ends(_medians(clock, events, _draws(_generator(), len(clock), repetitions)))
    return Estimate(value, float(low), float(high))


def median_time(times: ArrayLike, reached: ArrayLike) -> float:
    """`censored_median` without its interval."""
    clock, events = _runs(times, reached)
    return float(_medians(clock, events, np.ones((1, len(clock)), dtype=np.int64))[0])


def speed_up(
    times_a: ArrayLike,
    reached_a: ArrayLike,
    times_b: ArrayLike,
    reached_b: ArrayLike,
    *,
    repetitions: int = REPETITIONS,
) -> Estimate:
    """How many times as many steps b needs as a: the ratio of their censored medians, with its interval.

    `inf`: b's median lies beyond its budget, and all that can be said is *at least* `low`. `0`: a's does, *at most*
    `high`. `nan`: both do. For the limits a median beyond the budget is somewhere between the budget and infinity.
    """
    a, b = _runs(times_a, reached_a), _runs(times_b, reached_b)
    mine, theirs = median_time(*a), median_time(*b)
    value = np.nan if np.isinf(mine) and np.isinf(theirs) else theirs / mine
    if not _enough(a[0], b[0]):
        return Estimate(value, np.nan, np.nan)
    rng = _generator()
    samples_a, samples_b = (_medians(*each, _draws(rng, len(each[0]), repetitions)) for each in (a, b))
    least = np.minimum(samples_b, b[0].max()) / samples_a
    most = samples_b / np.minimum(samples_a, a[0].max())
    return Estimate(value, float(_ends(least)[0]), float(_ends(most)[1]))


def _medians(times: FloatArray, reached: NDArray[np.bool_], weights: NDArray[np.int64]) -> FloatArray:
    """(B,) medians of B samples of the runs with `weights` (B, n).

    S(t) = Π (1 − dⱼ/nⱼ) after each distinct success; the median is where it first falls below ½, half-way along a step
    at exactly ½, like the plain median. A run cut off at the time of another's success was still at risk then.
    """
    at = np.unique(times[reached])
    deaths = weights @ ((times[:, None] == at) & reached[:, None])
    at_risk = weights @ (times[:, None] >= at)
    survival = np.cumprod(1.0 - deaths / np.maximum(at_risk, 1), axis=1)
    survival, later = np.append(survival, np.zeros((len(survival), 1)), axis=1), np.append(at, np.inf)
    first, last = ((survival < 0.5 + margin).argmax(axis=1) for margin in (1e-9, -1e-9))
    return np.asarray(0.5 * (later[first] + later[last]))


# -- parts ------------------------------------------------------------------------------------------------------------


def _numbers(name: str, values: Any) -> FloatArray:
    """`values` as a row of finite numbers, of which there is at least one."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        remedy = "Leave out runs that failed, and say so; never average over NaN."
        raise invalid(name, "must be one finite number per run", values, remedy)
    return array


def _strata(scores: Any) -> list[FloatArray]:
    """One array of seeds per task."""
    several = isinstance(scores, list) and scores and isinstance(scores[0], np.ndarray)
    return [_numbers("scores", each) for each in (scores if several else [scores])]


def _runs(times: ArrayLike, reached: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
    clock, events = _numbers("times", times), np.asarray(reached)
    if (clock <= 0).any() or events.shape != clock.shape or events.dtype.kind != "b":
        rule = "must be one positive number per run, with a truth value each"
        raise invalid("times", rule, clock, "Count steps from 1, and pass a bool array.")
    return clock, events


def _enough(*strata: NDArray[Any]) -> bool:
    """Whether each of the samples is large enough for an interval."""
    return min(map(len, strata)) >= LEAST_RUNS


def _unknown(centre: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.full(len(centre), np.nan), np.full(len(centre), np.nan)


def _generator() -> np.random.Generator:
    """The same draws, and so the same interval, every time."""
    return stream(0, "statistics")


def _draws(rng: np.random.Generator, n: int, repetitions: int) -> NDArray[np.int64]:
    """(repetitions, n): how often each of n runs is in a sample drawn with replacement."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=repetitions)


def _ends(samples: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The interval that holds LEVEL of the samples (B, ...); ranks are rounded outwards, so that infinities survive."""
    tail, last = (1.0 - LEVEL) / 2.0, len(samples) - 1
    ordered = np.sort(samples, axis=0)
    return ordered[int(np.floor(tail * last))], ordered[int(np.ceil((1.0 - tail) * last))]
