"""Revisit penalties: a loop that pays less than V promises lowers V where it closes, passing changes nothing."""

import numpy as np
import pytest

from polaug.explorers.revisits import Revisits, penalise, penalty_at

GAMMA, LENGTH = 0.9, 0.15


def revisits(*places, value=0.0, reward=-1.0):
    made = Revisits(2, LENGTH)
    for place in places:
        made.visit(0, np.array(place, dtype=float), value, reward, GAMMA)
    return made


def penalty(made, place):
    return penalty_at(*made.of(0), LENGTH, np.array(place, dtype=float))


def test_passing_costs_nothing_and_coming_back_does():
    once = revisits((0, 0), (0.5, 0), (1, 0))
    again = revisits((0, 0), (0.5, 0), (0, 0))
    assert penalty(once, (0, 0)) == 0.0
    assert penalty(again, (0, 0)) == pytest.approx((1 - GAMMA**2) * 10.0)  # for ever at −1: −10 instead of 0
    assert penalty(again, (0.5, 0)) < 0.05


def test_a_loop_lowers_the_value_to_what_it_pays_and_no_further():
    made = revisits(*[(0, 0)] * 400, value=5.0)
    assert penalty(made, (0, 0)) == pytest.approx(15.0)


@pytest.mark.parametrize(("value", "reward"), [(10.0, 1.0), (0.0, 0.0), (-20.0, -1.0)])
def test_staying_is_free_where_it_pays_what_was_promised(value, reward):
    assert penalty(revisits(*[(0, 0)] * 50, value=value, reward=reward), (0, 0)) == pytest.approx(0.0, abs=1e-9)


def test_penalties_are_gaussian_compiled_or_not():
    places, depths = revisits((0, 0), (0, 0), (0.3, 0.1), (0.3, 0.1), (0.3, 0.1)).of(0)
    here = np.array([0.1, 0.05])
    plain = sum(w * np.exp(-0.5 * ((p - here) ** 2).sum() / LENGTH**2) for p, w in zip(places, depths, strict=True))
    for kernel in (penalty_at, penalty_at.py_func):
        assert kernel(places, depths, LENGTH, here) == pytest.approx(plain)


@pytest.mark.parametrize("kernel", [penalise, penalise.py_func])
def test_the_oldest_places_are_forgotten(kernel):
    places, visits = np.zeros((4, 1)), np.zeros((3, 4))
    count = 0
    for x in range(6):
        count = kernel(places, visits, count, np.array([float(x)]), 0.0, 0.0, x, GAMMA, LENGTH)
    assert count == 6
    np.testing.assert_array_equal(np.sort(places[:, 0]), [2, 3, 4, 5])


def test_environments_and_episodes_are_apart():
    made = revisits((0, 0), (0, 0))
    assert len(made.of(1)[0]) == 0
    made.begin(0)
    assert len(made.of(0)[0]) == 0
