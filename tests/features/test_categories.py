"""One-hot features of discrete spaces."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug.errors import InvalidInputError, StateError, UnsupportedSpaceError
from polaug.features import HashedStates, state_features


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


def test_many_binary_choices_need_no_numbering_of_their_combinations():
    features = state_features("auto", spaces.MultiBinary(100))
    assert features(np.ones((2, 100), np.int8)).sum() == 200
    with pytest.raises(InvalidInputError, match="64-bit"):
        features.rows(np.ones((2, 100), np.int8))


def test_the_wrong_space_names_the_right_map():
    with pytest.raises(UnsupportedSpaceError, match="grid or simhash"):
        state_features("one_hot", spaces.Box(-1, 1, (2,)))
    with pytest.raises(InvalidInputError, match="max_size"):
        state_features("auto", spaces.Discrete(100_000))


def test_states_of_other_categories_are_refused():
    with pytest.raises(StateError, match=r"\[3\].*\[4\]"):
        state_features("one_hot", spaces.Discrete(3)).load_state_dict(
            state_features("one_hot", spaces.Discrete(4)).state_dict()
        )
