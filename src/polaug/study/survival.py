"""Steps until the threshold, with runs that never got there counted as censored: neither dropped nor called solved.

A run gives a time and whether the threshold was `reached` then; if not, the time is how long was looked. Medians are
Kaplan and Meier's, intervals are bootstraps over LEAST_RUNS runs or more (Efron, 1981). `inf` means beyond what was
observed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.checks import finite, whole
from polaug.errors import invalid
from polaug.study.statistics import (
    LEVEL,
    REPETITIONS,
    Estimate,
    FloatArray,
    enough,
    finite_array,
    generator,
    percentiles,
)

KEEP_STEPS = 20_000
"""Steps after the threshold over which the level must be kept."""
KEEP_TOLERANCE = 0.1
"""How far below the threshold, as a share of it, still counts as kept; of the way up to it if it is 0."""


def steps_to_threshold(steps: ArrayLike, values: ArrayLike, threshold: float) -> tuple[int, bool]:
    """The first of `steps` at which `values` is at least the threshold, and True; else the last of them, and False.

    An evaluation every k steps sees a crossing up to k steps late: times are rounded up, for every method alike.
    """
    at, level = _evaluations(steps, values)
    found = np.flatnonzero(level >= finite("threshold", threshold))
    return (int(at[found[0]]), True) if len(found) else (int(at[-1]), False)


def kept(steps: ArrayLike, values: ArrayLike, threshold: float, *, over: int = KEEP_STEPS) -> bool | None:
    """True if the mean over the `over` steps after reaching the threshold is at most a tenth of it below it.

    A tenth of 0 is no tolerance: there it is a tenth of the way from the first evaluation to the threshold. Judged on
    what there is, if the run ended before; None if the threshold was not reached or nothing came after it.
    """
    at, level = _evaluations(steps, values)
    start, reached = steps_to_threshold(steps, values, threshold)
    after = level[(at > start) & (at <= start + over)]
    if not reached or not len(after):
        return None
    return bool(after.mean() >= threshold - KEEP_TOLERANCE * abs(threshold or level[0]))


def watched(steps: ArrayLike, values: ArrayLike, threshold: float, *, over: int = KEEP_STEPS) -> int:
    """For how many steps after the threshold was reached `kept` could look: `over`, or what was left of the run."""
    at, _ = _evaluations(steps, values)
    start, reached = steps_to_threshold(steps, values, threshold)
    return int(min(over, at[-1] - start)) if reached else 0


def area_under_first(returns: ArrayLike, episodes: int = 100) -> float:
    """The area under the first so many returns, per episode: their mean."""
    values = finite_array("returns", returns)
    if len(values) < whole("episodes", episodes, 1):
        remedy = "Compare over as many episodes as every run has."
        raise invalid("returns", f"must hold at least {episodes} episodes", len(values), remedy)
    return float(values[:episodes].mean())


def censored_median(
    times: ArrayLike, reached: ArrayLike, *, repetitions: int = REPETITIONS, seed: int = 0, level: float = LEVEL
) -> Estimate:
    """Kaplan–Meier median, `inf` unless more than half of the runs reach the threshold, with its interval.

    If no run was cut off before the slowest success, this is the plain median with "never" as infinity.
    """
    clock, events = _runs("times", times, "reached", reached)
    value = float(_medians(clock, events, np.ones((1, len(clock)), dtype=np.int64))[0])
    rng = generator(repetitions, seed)
    if not enough(level, clock):
        return Estimate(value, np.nan, np.nan)
    return Estimate(value, *percentiles(_medians(clock, events, _draws(len(clock), rng, repetitions)), level))


def speed_up(
    times_a: ArrayLike,
    reached_a: ArrayLike,
    times_b: ArrayLike,
    reached_b: ArrayLike,
    *,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """How many times as many steps b needs as a: the ratio of their censored medians, with its interval.

    `inf`: b's median lies beyond its budget, and all that can be said is *at least* `low`. `0`: a's does, *at most*
    `high`. `nan`: both do. For the limits a median beyond the budget is somewhere between the budget and infinity.
    """
    a, b = _runs("times_a", times_a, "reached_a", reached_a), _runs("times_b", times_b, "reached_b", reached_b)
    ones = (np.ones((1, len(each[0])), dtype=np.int64) for each in (a, b))
    mine, theirs = (float(_medians(*each, one)[0]) for each, one in zip((a, b), ones, strict=True))
    value = np.nan if np.isinf(mine) and np.isinf(theirs) else theirs / mine
    if not enough(level, a[0], b[0]):
        return Estimate(value, np.nan, np.nan)
    rng = generator(repetitions, seed)
    samples_a, samples_b = (_medians(*each, _draws(len(each[0]), rng, repetitions)) for each in (a, b))
    least = np.minimum(samples_b, b[0].max()) / samples_a
    most = samples_b / np.minimum(samples_a, a[0].max())
    return Estimate(value, percentiles(least, level)[0], percentiles(most, level)[1])


def survival(times: ArrayLike, reached: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Kaplan–Meier: the distinct times of success (k,), and the share of runs that take longer than each (k,)."""
    clock, events = _runs("times", times, "reached", reached)
    at, curves = _kaplan_meier(clock, events, np.ones((1, len(clock)), dtype=np.int64))
    return at, curves[0]


def _kaplan_meier(
    times: FloatArray, reached: NDArray[np.bool_], weights: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """S(t) = Π (1 − dⱼ/nⱼ) after each distinct success (B, k), for B samples of the runs with `weights` (B, n).

    A run cut off at the very time of another's success was still at risk then, as is the custom.
    """
    at = np.unique(times[reached])
    deaths = weights @ ((times[:, None] == at) & reached[:, None])
    at_risk = weights @ (times[:, None] >= at)
    return at, np.cumprod(1.0 - deaths / np.maximum(at_risk, 1), axis=1)


def _medians(times: FloatArray, reached: NDArray[np.bool_], weights: NDArray[np.int64]) -> FloatArray:
    """(B,) medians: where S first falls below ½; half-way along a step at exactly ½, like the plain median."""
    at, curves = _kaplan_meier(times, reached, weights)
    later = np.append(at, np.inf)
    at_most_half = np.concatenate([curves <= 0.5 + 1e-9, np.ones((len(curves), 1), dtype=bool)], axis=1)
    below_half = np.concatenate([curves < 0.5 - 1e-9, np.ones((len(curves), 1), dtype=bool)], axis=1)
    return np.asarray(0.5 * (later[at_most_half.argmax(axis=1)] + later[below_half.argmax(axis=1)]))


def _draws(n: int, rng: np.random.Generator, repetitions: int) -> NDArray[np.int64]:
    return rng.multinomial(n, np.full(n, 1.0 / n), size=repetitions)


def _runs(name: str, times: ArrayLike, flag: str, reached: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
    clock, events = finite_array(name, times), np.asarray(reached)
    if clock.ndim != 1 or (clock <= 0).any():
        raise invalid(name, "must be one positive number per run", clock, "Count steps from 1.")
    if events.shape != clock.shape or events.dtype.kind != "b":
        raise invalid(flag, f"must be {len(clock)} truth values, one per run", events, "Pass a bool array.")
    return clock, events


def _evaluations(steps: ArrayLike, values: ArrayLike) -> tuple[FloatArray, FloatArray]:
    at, level = finite_array("steps", steps), finite_array("values", values)
    if at.ndim != 1 or at.shape != level.shape:
        raise invalid("values", f"must be one for each of the {at.size} steps", level, "Pass two columns.")
    if (np.diff(at) <= 0).any():
        raise invalid("steps", "must increase", at, "Sort the evaluations, and leave out repeated ones.")
    return at, level
