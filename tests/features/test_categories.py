"""One-hot and product features of discrete and mixed spaces."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug.errors import InvalidInputError, StateError, UnknownNameError, UnsupportedSpaceError
from polaug.features import HashedStates, state_features

MIXED = spaces.Tuple((spaces.Discrete(3, start=5), spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)))
BATCH = (np.array([5, 7]), np.array([[0.5, -0.5], [0.0, 1.0]], np.float32), np.array([[0, 1], [1, 1]], np.int8))


def test_discrete_is_a_table():
    features = state_features("one_hot", spaces.Discrete(4, start=2))
    assert isinstance(features, HashedStates)
    np.testing.assert_array_equal(features(np.array([2, 5])), [[1, 0, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_array_equal(features.rows(np.array([2, 5])), [0, 3])
    np.testing.assert_array_equal(features.row_features(), np.eye(4))


@pytest.mark.parametrize(
    ("space", "batch"),
    [
        (spaces.MultiDiscrete([2, 3]), np.array([[1, 2], [0, 1]])),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), (np.array([1, 0]), np.array([2, 1]))),
    ],
)
def test_several_choices_are_side_by_side(space, batch):
    features = state_features("auto", space)
    np.testing.assert_array_equal(features(batch), [[0, 1, 0, 0, 1], [1, 0, 0, 1, 0]])
    np.testing.assert_array_equal(features.rows(batch), [5, 1])
    np.testing.assert_array_equal(features.row_features()[features.rows(batch)], features(batch))
    joint = state_features("one_hot", space, joint=True)
    np.testing.assert_array_equal(joint.row_features(), np.eye(6))
    np.testing.assert_array_equal(joint(batch), np.eye(6)[[5, 1]])


def test_many_binary_choices_need_no_numbering_of_their_combinations():
    features = state_features("auto", spaces.MultiBinary(100))
    assert features(np.ones((2, 100), np.int8)).sum() == 200
    with pytest.raises(InvalidInputError, match="64-bit"):
        features.rows(np.ones((2, 100), np.int8))


def test_a_product_joins_the_one_hots_and_the_map_of_the_numbers():
    features = state_features("auto", MIXED, numbers="polynomial")
    expected = [
        [1, 0, 0, 1, 0, 0, 1, 1, 0.5, -0.5, 0.25, -0.25, 0.25],
        [0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1],
    ]
    np.testing.assert_allclose(features(BATCH), expected)
    crossed = state_features("product", MIXED, numbers="polynomial", crossed=True)
    assert crossed.size == 7 + 6 + 7 * 6
    np.testing.assert_allclose(crossed(BATCH)[:, 13:19], [expected[0][7:], [0] * 6])


@pytest.mark.parametrize("numbers", ["fourier", "grid", "polynomial", "random_fourier", "simhash"])
def test_every_map_of_numbers_can_be_part_of_a_product(numbers):
    features = state_features("product", MIXED, numbers=numbers)
    features.observe(BATCH)
    assert features(BATCH).shape == (2, features.size)
    twin = state_features("product", MIXED, numbers=numbers, seed=9)
    twin.load_state_dict(features.state_dict())
    np.testing.assert_array_equal(twin(BATCH), features(BATCH))


def test_the_wrong_space_names_the_right_map():
    with pytest.raises(UnsupportedSpaceError, match="grid or simhash"):
        state_features("one_hot", spaces.Box(-1, 1, (2,)))
    with pytest.raises(UnsupportedSpaceError, match="Use one_hot"):
        state_features("product", spaces.Discrete(2))
    with pytest.raises(UnsupportedSpaceError, match="Use random_fourier"):
        state_features("product", spaces.Box(-1, 1, (2,)))
    with pytest.raises(UnknownNameError, match="'fourier'"):
        state_features("product", MIXED, numbers="furier")
    with pytest.raises(InvalidInputError, match="max_size"):
        state_features("auto", spaces.Discrete(100_000))


def test_states_of_other_categories_are_refused():
    with pytest.raises(StateError, match=r"\[3\].*\[4\]"):
        state_features("one_hot", spaces.Discrete(3)).load_state_dict(
            state_features("one_hot", spaces.Discrete(4)).state_dict()
        )
    other = spaces.Tuple((spaces.Discrete(9), spaces.Box(-1, 1, (2,))))
    with pytest.raises(StateError, match="categories"):
        state_features("product", MIXED).load_state_dict(state_features("product", other).state_dict())
