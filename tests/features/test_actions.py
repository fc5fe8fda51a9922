"""Action features: the paper's Y, bins of continuous actions, and the way there and back."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.features import reference_features as reference

from polaug.errors import InvalidInputError
from polaug.features import ActionFeatures, action_features

SPACES = [
    spaces.Discrete(2),
    spaces.Discrete(5, start=-2),
    spaces.Discrete(1),
    spaces.MultiDiscrete([3, 2, 4]),
    spaces.MultiDiscrete([3, 2], start=[1, -1]),
    spaces.MultiBinary(4),
    spaces.Box(-2, 2, (1,)),
    spaces.Box(np.array([0.0, -3.0]), np.array([1.0, 5.0]), dtype=np.float64),
    spaces.Box(-1, 1, (3,)),
    spaces.Box(-1, 1, (2, 2)),
    spaces.Box(-0.4, 0.4, (17,)),
    spaces.Box(0, 3, (2,), np.int32),
    spaces.Box(np.array([0.1, -1.0], np.float32), np.array([0.1, 1.0], np.float32)),
    spaces.Box(1e6 - 0.5, 1e6 + 0.5, (1,), np.float64),
    spaces.Box(-0.3, 0.3, (2,), np.float16),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("name", ["one_hot", "ordinal", "polynomial", "auto"])
def test_listed_actions_belong_to_the_space_and_come_back_as_themselves(space, name):
    features = action_features(name, space)
    assert isinstance(features, ActionFeatures)
    indices = np.arange(features.n_actions)
    actions = features.to_environment(indices)
    assert actions.dtype == space.dtype
    assert all(space.contains(action) for action in actions)
    np.testing.assert_array_equal(features.to_indices(actions), indices)
    assert features.Y.shape == (features.n_actions, features.size)
    assert np.isfinite(features.Y).all()
    assert len(np.unique(actions.reshape(len(actions), -1), axis=0)) == features.n_actions
    with pytest.raises(ValueError, match="read-only"):
        features.Y[0, 0] = 3


def test_the_papers_y():
    np.testing.assert_array_equal(action_features("ordinal", spaces.Discrete(2)).Y, [[-10], [10]])
    np.testing.assert_array_equal(action_features("ordinal", spaces.Discrete(3), epsilon=1).Y, [[-9], [1], [11]])
    np.testing.assert_array_equal(action_features("ordinal", spaces.Discrete(3)).Y, [[-9], [1], [11]])
    np.testing.assert_array_equal(action_features("ordinal", spaces.Discrete(3), epsilon=0).Y, [[-10], [0], [10]])
    np.testing.assert_allclose(action_features("ordinal", spaces.Discrete(4), spread=3).Y[:, 0], [-3, -1, 1, 3])


def test_one_hot_of_several_choices_adds_up():
    features = action_features("auto", spaces.MultiDiscrete([2, 3]))
    assert (features.n_actions, features.size) == (6, 5)
    np.testing.assert_array_equal(features.Y[4], [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(features.to_environment(np.array([4])), [[1, 1]])


def test_polynomial_over_torques_and_choices():
    features = action_features("auto", spaces.Box(-2, 2, (1,)))
    u = np.linspace(-1, 1, 9)
    np.testing.assert_allclose(features.Y, np.stack([u**0, u, u**2], axis=1))
    np.testing.assert_allclose(features.to_environment(np.arange(9))[:, 0], 2 * u)
    two = action_features("polynomial", spaces.MultiDiscrete([2, 3]))
    assert two.n_actions == 6
    assert two.size == 5  # 1, u, v, uv, v²: u² is 1 for two choices
    assert np.linalg.matrix_rank(two.Y) == 5


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_polynomial_equals_the_definition(d):
    features = action_features("polynomial", spaces.Box(-1, 1, (d,), np.float64))
    u = np.random.default_rng(d).uniform(-1, 1, (5, d))
    values = features.describe(u, features.to_indices(u))
    expected = np.stack(list(reference.monomials(u, 2, 2).values()), axis=1)
    assert values.shape == expected.shape
    np.testing.assert_array_equal(values[:, 0], 1.0)
    in_order = [columns[:, np.lexsort(columns.round(9))] for columns in (values, expected)]
    np.testing.assert_allclose(*in_order, atol=1e-12)


@pytest.mark.parametrize(("d", "expected"), [(1, 9), (2, 81), (3, 27), (4, 81), (5, 37), (6, 41), (17, 133)])
def test_automatic_lists_stay_short_and_hold_zero(d, expected):
    features = action_features("auto", spaces.Box(-1, 1, (d,)))
    assert features.n_actions == expected
    actions = features.to_environment(np.arange(expected))
    assert (actions == 0).all(axis=1).any()
    assert (np.abs(actions) == 1).all(axis=1).any()
    assert np.linalg.matrix_rank(features.Y) == features.size


@settings(max_examples=30, deadline=None)
@given(d=st.integers(1, 6), seed=st.integers(0, 999))
def test_continuous_actions_go_to_the_nearest_listed_one(d, seed):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-5, 0, d)
    high = low + rng.uniform(0.1, 5, d)
    features = action_features("auto", spaces.Box(low, high, dtype=np.float64))
    actions = rng.uniform(low, high, (4, d))
    listed = features.to_environment(np.arange(features.n_actions))
    expected = [reference.nearest_action(action, listed, low, high) for action in actions]
    np.testing.assert_array_equal(features.to_indices(actions), expected)


def test_actions_outside_the_space_are_named():
    box = action_features("auto", spaces.Box(-1, 1, (3,)))
    with pytest.raises(InvalidInputError, match=r"environment 1, dimension 2: must be in \[-1, 1\], got 1.5.*Clip"):
        box.to_indices(np.array([[0, 0, 0], [0, 0, 1.5]]))
    with pytest.raises(InvalidInputError, match=r"actions: environment 0, dimension 0.*got 3"):
        action_features("auto", spaces.Discrete(3)).to_indices(np.array([3]))
    with pytest.raises(InvalidInputError, match=r"indices.*\[0, 27\).*got -1"):
        box.to_environment(np.array([-1]))
    with pytest.raises(InvalidInputError, match=r"shape \(k,\)"):
        box.to_environment(np.array([0.5]))
    assert box.to_environment(np.empty(0, np.int64)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("n", [1, 200])
def test_choices_are_columns_whatever_their_type_and_number(dtype, n):
    features = action_features("auto", spaces.Discrete(5, start=2))
    actions = (2 + np.arange(n) % 5).astype(dtype)
    np.testing.assert_array_equal(features.to_indices(actions), np.arange(n) % 5)
    for wrong in (1, 7):
        actions[-1] = wrong
        with pytest.raises(
            InvalidInputError, match=rf"environment {n - 1}, dimension 0: must be in \[2, 6\], got {wrong}"
        ):
            features.to_indices(actions)


def test_too_many_actions_are_refused_before_they_are_listed():
    with pytest.raises(InvalidInputError, match=r"at most 1000.*fewer choices"):
        action_features("auto", spaces.Discrete(10**12))
    with pytest.raises(InvalidInputError, match=r"at most 1000.*fewer dimensions"):
        action_features("auto", spaces.Box(-1, 1, (200,)))


@pytest.mark.parametrize(
    "space", [spaces.MultiBinary(100), spaces.MultiDiscrete([7] * 5), spaces.MultiDiscrete([3, 2000])]
)
@pytest.mark.parametrize("name", ["one_hot", "polynomial"])
def test_too_many_combinations_are_sampled(space, name):
    features = action_features(name, space)
    assert 100 < features.n_actions <= 256
    indices = np.arange(features.n_actions)
    listed = features.to_environment(indices)
    assert all(space.contains(action) for action in listed)
    np.testing.assert_array_equal(features.to_indices(listed), indices)
    counts = [2] * 100 if isinstance(space, spaces.MultiBinary) else space.nvec
    for factor, count in zip(listed.T, counts, strict=True):  # every choice, or as many as there are rows
        assert len(np.unique(factor)) >= min(count, 200)
    # An action that is not listed is told apart from the one whose column it shares, if the features can.
    other = listed[-1:].copy()
    other[0, 0] = 1 - other[0, 0] if other[0, 0] < 2 else 0
    column = features.to_indices(other)
    if name == "one_hot" and not (listed[column] == other).all():
        assert not np.array_equal(features.describe(other, column), features.Y[column])
