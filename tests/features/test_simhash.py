"""SimHash: near states share rows, seeds repeat, rows cost nothing until visited."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug.errors import InvalidInputError
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
