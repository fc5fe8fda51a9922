"""The latest returns and lengths of guide and agent."""

import math

import numpy as np
import pytest

from polaug.coach import Episode, Records
from polaug.errors import StateError


def test_only_the_window_counts_and_the_range_is_of_all():
    records = Records(3)
    for total in (100.0, 1.0, 2.0, 3.0):
        records.add(Episode(0, total, int(total), "guide"), 1)
    assert records.returns["guide"] == [1.0, 2.0, 3.0]
    assert (records.mean("guide"), records.length("guide"), records.scale) == (2.0, 2.0, 99.0)
    assert math.isnan(records.mean("agent"))
    assert math.isnan(records.length("agent"))


def test_the_agents_length_is_over_both_of_its_kinds():
    records = Records(8)
    for length, kind in ((10, "agent"), (30, "noisy"), (500, "guide")):
        records.add(Episode(0, 0.0, length, kind), 1)
    assert records.length("agent") == 20.0


def test_the_prior_holds_until_both_have_two_episodes_that_differ():
    records = Records(8, prior=0.4)
    for kind in ("guide", "guide", "agent", "agent"):
        assert records.p_guide(1) == 0.4
        records.add(Episode(0, 1.0, 1, kind), 1)
    assert records.p_guide(1) == 0.4  # all alike
    records.add(Episode(0, 9.0, 1, "agent"), 1)
    assert records.p_guide(1) != 0.4


def test_a_few_equal_returns_do_not_make_it_certain():
    records = Records(8)
    for total, kind, steps in (
        (0.0, "guide", 1),
        (100.0, "guide", 1),
        (51.0, "guide", 9),
        (51.0, "guide", 9),
        (50.0, "agent", 9),
        (50.0, "agent", 9),
    ):
        records.add(Episode(0, total, 1, kind), steps)
    assert 0.5 < records.p_guide(9) < 0.75  # one is little in a range of 100


def test_what_was_before_half_of_the_steps_does_not_count():
    records = Records(8)
    for total, kind, steps in (
        (-500.0, "guide", 100),
        (-500.0, "guide", 200),
        (-90.0, "guide", 400),
        (-90.0, "guide", 500),
    ):
        records.add(Episode(0, total, 1, kind), steps)
    for steps in (600, 700):
        records.add(Episode(0, -200.0, 1, "agent"), steps)
    assert records.p_guide(700) > 0.9
    assert records.p_guide(1_600) == 0.9  # nothing counts: the prior


def test_a_state_goes_on_alike_and_a_damaged_one_is_refused():
    first, second = Records(4, prior=0.0), Records(4)
    for k, kind in enumerate(["guide", "agent", "noisy"] * 3):
        first.add(Episode(0, float(k), k + 1, kind), 1)
    second.load_state_dict(first.state_dict())
    for each in (first, second):
        each.add(Episode(0, 2.5, 7, "agent"), 1)
    for key, array in first.state_dict().items():
        np.testing.assert_array_equal(array, second.state_dict()[key], err_msg=key)
    assert first.p_guide(1) == second.p_guide(1)
    with pytest.raises(StateError, match="damaged"):
        second.load_state_dict(first.state_dict() | {"agent": np.zeros(3)})
