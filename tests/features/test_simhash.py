"""SimHash: near states share rows, seeds repeat, rows cost nothing until visited."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug.errors import InvalidInputError, StateError, UnknownNameError
from polaug.features import HashedStates, state_features

SPACE = spaces.Box(-np.inf, np.inf, (4,), np.float64)


def trained(**options):
    features = state_features("simhash", SPACE, **options)
    x = np.random.default_rng(0).standard_normal((400, 4)) * [1, 10, 0.1, 5] + [0, 100, 3, -50]
    features.observe(x)
    return features, x


def test_features_are_the_bits_of_the_row():
    features, x = trained(bits=10)
    assert isinstance(features, HashedStates)
    assert (features.n_rows, features.size) == (1024, 10)
    assert set(np.unique(features(x))) == {-1.0, 1.0}
    np.testing.assert_array_equal(features(x), features.row_features()[features.rows(x)])


def test_rows_are_spread_and_near_states_share_more_bits_than_far_ones():
    features, x = trained(bits=32)
    bits = features(x)
    assert len(np.unique(features.rows(x))) > 100
    assert np.abs(bits.mean(axis=0)).max() < 0.2  # centred: every plane halves the states
    near = (bits == features(x + np.array([0.01, 0.1, 0.001, 0.05]))).mean()
    far = (bits == bits[::-1]).mean()
    assert near > 0.98 > 0.6 > far


def test_bias_tells_apart_states_in_the_same_direction():
    for bias, equal in ((False, True), (True, False)):
        features, x = trained(bits=40, bias=bias)
        centre = x.mean(axis=0)
        rows = features.rows(np.stack([centre + 0.1 * (x[0] - centre), centre + (x[0] - centre)]))
        assert (rows[0] == rows[1]) == equal


def test_rows_fit_an_int64_and_are_listed_only_while_they_fit_the_memory():
    features, x = trained(bits=62)
    rows = features.rows(x)
    assert rows.dtype == np.int64
    assert rows.min() >= 0
    assert features.n_rows == 2**62
    with pytest.raises(InvalidInputError, match=r"row_features.*bits"):
        features.row_features()
    with pytest.raises(InvalidInputError, match="at most 62"):
        state_features("simhash", SPACE, bits=63)


def test_means_of_the_cells():
    features, x = trained(bits=3, row_values="means", bounds=False)
    rows = features.rows(x)
    assert features.size == 4
    z = (x - x.mean(axis=0)) / (np.sqrt(3) * x.std(axis=0))
    for row in np.unique(rows):
        np.testing.assert_allclose(
            features(x)[rows == row], np.tile(z[rows == row].mean(axis=0), ((rows == row).sum(), 1))
        )
    np.testing.assert_array_equal(features(x), features.row_features()[rows])


def test_means_change_only_when_observe_says_so_and_that_is_seldom():
    features, x = trained(bits=4, row_values="means")
    rng, before, changes = np.random.default_rng(5), features(x), 0
    for _ in range(1500):
        changed = features.observe(x[rng.integers(400)][None] + rng.standard_normal((1, 4)))
        after = features(x)
        assert changed or np.array_equal(before, after)
        before, changes = after, changes + changed
    assert 1 <= changes <= 12


def test_means_follow_their_observations_when_the_scale_moves():
    features = state_features("simhash", SPACE, bits=8, row_values="means")
    rng = np.random.default_rng(0)
    here, there = rng.normal(0, 0.1, (40, 4)), rng.normal(50, 0.1, (40, 4))
    features.observe(here)
    features.observe(there)  # the centre is now half-way, and `here` is hashed to another row than before
    assert (features(here) < -0.3).all()
    assert (features(there) > 0.3).all()


def test_an_unseen_cell_is_at_the_centre():
    features = state_features("simhash", SPACE, bits=20, row_values="means")
    np.testing.assert_array_equal(features(np.ones((2, 4))), 0)


def test_damaged_cells_change_nothing():
    features, x = trained(bits=4, row_values="means")
    before, good = features(x), features.state_dict()
    for damage in (
        good | {"cells.rows": good["cells.rows"][::-1]},
        good | {"cells.seen": good["cells.seen"][1:]},
        good | {"planes": good["planes"][:, 1:]},
        {k: v for k, v in good.items() if k != "cells.means"},
        {k: v for k, v in good.items() if k != "planes"},
    ):
        with pytest.raises(StateError):
            features.load_state_dict(damage)
        np.testing.assert_array_equal(features(x), before)
    with pytest.raises(UnknownNameError, match="'means'"):
        state_features("simhash", SPACE, row_values="mean")
