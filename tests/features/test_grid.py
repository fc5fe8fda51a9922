"""Grid hashing: the paper's rows exactly, nearest points, and bins that follow the observed range."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from tests.features import reference_features as reference

from polaug.errors import InvalidInputError
from polaug.features import HashedStates, state_features

POSITIONS = [round(-1.2 + 0.1 * i, 1) for i in range(19)]
VELOCITIES = [round(-0.07 + 0.01 * i, 2) for i in range(15)]


def test_the_papers_mountain_car_grid_has_exactly_285_rows_of_exact_centres(mountain_car):
    grid = state_features("grid", mountain_car, step=(0.1, 0.01))
    assert isinstance(grid, HashedStates)
    assert grid.n_rows == 285
    expected = [[p, v] for p in POSITIONS for v in VELOCITIES]
    np.testing.assert_array_equal(grid.row_features(), expected)


def test_observations_go_to_the_nearest_point(mountain_car):
    grid = state_features("grid", mountain_car, step=(0.1, 0.01))
    rng = np.random.default_rng(0)
    observations = rng.uniform([-1.4, -0.09], [0.8, 0.09], (200, 2)).astype(np.float32)  # some beyond the bounds
    expected = [
        reference.nearest_point(p, POSITIONS) * 15 + reference.nearest_point(v, VELOCITIES) for p, v in observations
    ]
    np.testing.assert_array_equal(grid.rows(observations), expected)
    np.testing.assert_array_equal(grid(observations), grid.row_features()[grid.rows(observations)])


def test_every_centre_lies_in_its_own_row(mountain_car):
    for options in ({"step": (0.1, 0.01)}, {"bins": (7, 4), "scaled": False}):
        grid = state_features("grid", mountain_car, **options)
        np.testing.assert_array_equal(grid.rows(grid.row_features()), np.arange(grid.n_rows))


def test_infinite_bounds_follow_the_observed_range(cart_pole):
    grid = state_features("grid", cart_pole, bins=4)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (500, 4)) * [4.8, 3.0, 0.4, 2.0]
    assert len(np.unique(grid(x)[:, 1])) == 1
    assert grid.observe(x)
    assert all(len(np.unique(grid(x)[:, d])) == 4 for d in range(4))
    np.testing.assert_allclose(np.unique(grid(x)[:, 1]), [-0.75, -0.25, 0.25, 0.75])
    raw = state_features("grid", cart_pole, bins=4, scaled=False)
    raw.observe(x)
    np.testing.assert_allclose(np.unique(raw(x)[:, 1]), [-2.25, -0.75, 0.75, 2.25], atol=0.05)


def test_a_step_without_bounds_says_what_to_pass(cart_pole):
    with pytest.raises(InvalidInputError, match=r"dimension 1.*bins="):
        state_features("grid", cart_pole, step=0.5)


def test_the_automatic_grid_stays_small(mountain_car, cart_pole):
    assert state_features("grid", mountain_car).n_rows == 400
    assert state_features("grid", cart_pole).n_rows == 5**4
    assert state_features("grid", spaces.Discrete(3)).n_rows == 3


def test_scaled_centres_are_within_one(mountain_car):
    X = state_features("grid", mountain_car, step=(0.1, 0.01), scaled=True).row_features()
    np.testing.assert_allclose(np.abs(X).max(axis=0), 1)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"step": 0.1, "bins": 3}, "at most one of step and bins"),
        ({"step": 0}, "above 0"),
        ({"step": 1e-9}, "at most 1048576 points"),
        ({"step": (0.1, 0.1, 0.1)}, "each of the 2 dimensions"),
        ({"bins": 0}, "bins.*at least 1"),
        ({"bins": (2, 3, 4)}, "each of the 2 dimensions"),
    ],
)
def test_bad_options_are_refused(mountain_car, options, rule):
    with pytest.raises(InvalidInputError, match=rule):
        state_features("grid", mountain_car, **options)


def test_rows_are_listed_only_while_they_fit():
    grid = state_features("grid", spaces.Box(-1, 1, (30,)), bins=2)
    assert grid.rows(np.ones((1, 30)))[0] == 2**30 - 1
    with pytest.raises(InvalidInputError, match=r"row_features.*fewer bins"):
        grid.row_features()
    huge = state_features("grid", spaces.Box(-1, 1, (80,)), bins=2)
    assert huge(np.ones((1, 80))).shape == (1, 80)
    with pytest.raises(InvalidInputError, match=r"64-bit.*simhash"):
        huge.rows(np.ones((1, 80)))
