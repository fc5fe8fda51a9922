"""Statistics against slow, obvious versions, SciPy's, and what rliable 1.2.0 gave for the same scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from polaug.errors import InvalidInputError
from polaug.study.statistics import (
    censored_median,
    curve,
    estimate,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    speed_up,
)


def scores():
    """Ten seeds of x and seven of y on nine tasks."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, 9)).round(3) + np.arange(9) / 4
    return x, rng.normal(size=(7, 9)).round(3) + np.arange(9) / 4 - 0.3


# -- scores -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_interquartile_mean_is_the_trimmed_mean(values):
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-12, abs=1e-9)


def test_times_that_never_came_may_be_cut_off():
    assert interquartile_mean([1.0, 2.0, 3.0, np.inf]) == 2.5
    assert interquartile_mean([1.0, 2.0, np.inf, np.inf]) == np.inf


def test_interquartile_mean_along_an_axis():
    x, _ = scores()
    assert interquartile_mean(x, axis=1) == pytest.approx(stats.trim_mean(x, 0.25, axis=1))
    assert interquartile_mean(x) == pytest.approx(stats.trim_mean(x, 0.25, axis=None))


def test_intervals_are_those_of_rliable():
    """rliable.library.get_interval_estimates, 10,000 repetitions: an end of an interval varies by about 0.01."""
    x, _ = scores()
    found = estimate(list(x.T), repetitions=10_000)
    assert found == pytest.approx((0.99839, 0.77830, 1.20146), abs=0.025)
    assert found == estimate(list(x.T), repetitions=10_000)


def test_profile_is_that_of_rliable():
    centre, low, high = performance_profile(list(scores()[0].T), np.arange(3.0), repetitions=10_000)
    assert centre == pytest.approx([0.81111111, 0.52222222, 0.2], abs=1e-8)
    assert low == pytest.approx([0.73333, 0.43333, 0.13333], abs=0.012)
    assert high == pytest.approx([0.87778, 0.61111, 0.27778], abs=0.012)


def test_stratified_bootstrap_is_the_loop():
    """Tasks on very different levels: resampled together their spread would swamp that of the seeds."""
    x = np.random.default_rng(0).normal(size=(8, 4)) + 100 * np.arange(4)
    rng, slow = np.random.default_rng(1), []
    for _ in range(3000):
        sample = np.stack([rng.choice(x[:, task], len(x)) for task in range(4)], axis=1)
        slow.append(interquartile_mean(sample))
    _, low, high = estimate(list(x.T), repetitions=3000)
    assert (low, high) == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.06)
    assert high - low < 2.0


def test_improvement_counts_ties_half():
    assert probability_of_improvement([1.0, 1.0], [1.0, 1.0]).value == 0.5
    assert probability_of_improvement([2.0, 2.0, 3.0], [1.0, 1.0]).value == 1.0
    u = stats.mannwhitneyu([1.0, 2.0, 2.0, 5.0], [2.0, 3.0, 0.0]).statistic
    assert probability_of_improvement([1.0, 2.0, 2.0, 5.0], [2.0, 3.0, 0.0]).value == pytest.approx(u / 12)


def test_tasks_may_have_different_numbers_of_seeds():
    many = [np.arange(7.0), 10.0 + np.arange(5.0)]
    value, low, high = estimate(many)
    assert low < value == interquartile_mean(np.concatenate(many)) < high
    ragged = [np.array([0.0, 1.0, 2.0]), np.array([10.0, 11.0])]
    assert performance_profile(ragged, np.array([1.5]))[0] == pytest.approx([3 / 5])


def test_one_seed_has_no_interval():
    assert np.isnan(estimate([3.0])[1:]).all()
    assert np.isnan(estimate([np.array([3.0]), np.array([4.0])])[1:]).all()
    assert estimate([3.0]).value == 3.0
    assert np.isnan(probability_of_improvement([3.0], [1.0, 2.0])[1:]).all()
    centre, low, _ = curve(np.array([[1.0, 2.0]]))
    assert centre.tolist() == [1.0, 2.0]
    assert np.isnan(low).all()


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_fewer_than_five_runs_have_no_interval(n):
    """Nominal 95% from 2, 3 and 4 runs held the truth in 50, 75 and 85% of trials."""
    x, y, yes = np.arange(1.0, n + 1), np.arange(11.0, 21.0), np.ones(10, bool)
    found = [
        estimate(x)[1:], estimate([y, x])[1:],
        probability_of_improvement(x, y)[1:], probability_of_improvement(y, x)[1:], curve(np.stack([x, x], axis=1))[1],
        performance_profile([x, y], np.ones(1))[1], censored_median(x, yes[:n])[1:], speed_up(x, yes[:n], y, yes)[1:],
        speed_up(y, yes, x, yes[:n])[1:],
    ]  # fmt: skip
    assert [bool(np.isnan(each).all()) for each in found] == [n < 5] * len(found)
    assert [bool(np.isfinite(each).all()) for each in found] == [n == 5] * len(found)


def test_who_always_wins_is_not_certain_to():
    """A bootstrap of five runs that all beat five others would say 1 to 1."""
    value, low, high = probability_of_improvement(np.arange(5.0) + 10, np.arange(5.0))
    assert (value, high) == (1.0, 1.0)
    assert 0.6 < low < 0.7
    assert probability_of_improvement(np.arange(5.0), np.arange(5.0) + 10) == pytest.approx((0.0, 0.0, 1.0 - low))
    more = probability_of_improvement(np.arange(20.0) + 30, np.arange(20.0))
    assert low < more.low < 1.0
    tied = probability_of_improvement(np.ones(5), np.ones(5))
    assert tied.value == 0.5
    assert tied.low == pytest.approx(1.0 - tied.high)


@pytest.mark.parametrize("shift", [0.0, 1.2, 2.3])
def test_the_interval_of_who_is_better_holds_it(shift):
    """95% nominal; 94 to 97 of 100 with five runs against five."""
    rng, truth, hits = np.random.default_rng(0), stats.norm.cdf(shift / np.sqrt(2)), 0
    for _ in range(400):
        _, low, high = probability_of_improvement(rng.normal(size=5) + shift, rng.normal(size=5))
        hits += low <= truth <= high
    assert hits >= 0.93 * 400


def test_curves_point_by_point():
    x = np.random.default_rng(2).normal(size=(10, 300)) + np.linspace(0, 5, 300)
    centre, low, high = curve(x, repetitions=500)
    assert centre == pytest.approx(interquartile_mean(x, axis=0))
    assert (low <= centre).all()
    assert (centre <= high).all()
    assert (low[7], high[7]) == pytest.approx(estimate(x[:, 7])[1:], abs=0.25)


@pytest.mark.parametrize("call", [
    estimate, lambda bad: probability_of_improvement([1.0, 2.0], bad),
    lambda bad: censored_median(bad, [True, True, True]),
])  # fmt: skip
@pytest.mark.parametrize("bad", [[1.0, np.nan, 2.0], [1.0, np.inf, 2.0], [], ["a", "b", "c"], [[1.0, 2.0]]])
def test_bad_numbers_are_named(call, bad):
    with pytest.raises(InvalidInputError, match="one finite number per run"):
        call(bad)


# -- times ------------------------------------------------------------------------------------------------------------


def slow_median(times, reached):
    """Kaplan–Meier by the book, one time after the other."""
    share, before = 1.0, None
    for time in sorted({t for t, event in zip(times, reached, strict=True) if event}):
        at_risk = sum(t >= time for t in times)
        share *= 1 - sum(t == time and e for t, e in zip(times, reached, strict=True)) / at_risk
        if share < 0.5 - 1e-9:
            return time if before is None else (before + time) / 2
        if share <= 0.5 + 1e-9 and before is None:
            before = time
    return np.inf


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=1, max_size=15))
def test_censored_median_by_the_book(runs):
    times, reached = (np.array(column) for column in zip(*runs, strict=True))
    assert censored_median(times, reached, repetitions=10).value == slow_median(times, reached)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=12), st.integers(1, 25))
def test_one_budget_for_all_gives_the_plain_median(times, budget):
    never = np.array(times) > budget
    found = censored_median(np.minimum(times, budget), ~never, repetitions=10).value
    plain = np.median(np.where(never, 1e9, times))
    assert found == (plain if plain < 1e8 else np.inf)


def test_the_median_is_where_scipys_survival_falls_below_a_half():
    times, reached = np.array([3, 5, 5, 6, 8, 8, 9, 12]), np.array([1, 1, 0, 1, 1, 0, 0, 1], dtype=bool)
    theirs = stats.ecdf(stats.CensoredData(uncensored=times[reached], right=times[~reached])).sf
    median = censored_median(times, reached).value
    assert theirs.evaluate(median) < 0.5 < theirs.evaluate(median - 1e-6)


def test_runs_that_never_get_there_push_the_median_up():
    times = np.array([1000, 2000, 3000, 4000, 5000])
    assert censored_median(times, np.ones(5, bool)).value == 3000  # dropping two would have given 2000
    assert censored_median([1000, 2000, 3000, 9000, 9000], np.array([1, 1, 1, 0, 0], bool)).value == 3000
    assert censored_median([1000, 2000, 9000, 9000, 9000], np.array([1, 1, 0, 0, 0], bool)).value == np.inf


def test_all_or_none_censored():
    assert censored_median([9000] * 5, np.zeros(5, bool)) == (np.inf, np.inf, np.inf)
    assert censored_median([1000] * 5, np.ones(5, bool)) == (1000, 1000, 1000)
    one = censored_median([1000], [True])
    assert one.value == 1000
    assert np.isnan(one.low)


def test_the_interval_of_the_median_holds_it():
    """95% nominal; with ten runs and one in five censored about 94 of 100 hold it."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        times = 1.0 + rng.exponential(1000.0, size=10)
        found = censored_median(np.minimum(times, 1600.0), times <= 1600.0, repetitions=300)
        hits += found.low <= 1.0 + 1000.0 * np.log(2) <= found.high
    assert 170 <= hits <= 199


def test_speed_up():
    fast, slow, yes, no = np.arange(900, 1101, 20), np.arange(9000, 11_001, 200), np.ones(11, bool), np.zeros(11, bool)
    ratio, low, high = speed_up(fast, yes, slow, yes)
    assert ratio == 10.0
    assert 8.5 < low <= 10 <= high < 12
    assert speed_up(slow, yes, fast, yes).value == pytest.approx(0.1)

    ratio, low, high = speed_up(fast, yes, np.full(11, 40_000), no)  # the baseline never gets there: at least …
    assert (ratio, high) == (np.inf, np.inf)
    assert 36 < low < 44

    ratio, low, high = speed_up(np.full(11, 40_000), no, slow, yes)  # we never get there: at most …
    assert (ratio, low) == (0.0, 0.0)
    assert 0.22 < high < 0.28

    ratio, low, high = speed_up(slow, no, slow, no)
    assert np.isnan(ratio)
    assert (low, high) == (0.0, np.inf)
    assert np.isnan(speed_up([1000], [True], slow, yes)[1:]).all()


def test_times_are_checked():
    with pytest.raises(InvalidInputError, match="positive"):
        censored_median([0.0, 1.0], np.ones(2, bool))
    with pytest.raises(InvalidInputError, match="truth value"):
        censored_median([1.0, 2.0], [1.0, 0.5])
