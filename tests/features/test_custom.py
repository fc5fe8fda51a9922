"""A user's callable: any space, and mistakes blamed on it by name."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug.errors import InvalidInputError, StateError
from polaug.features import StateFeatures, state_features


class Graphed:
    """Like a tensor that requires a gradient."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("can't call numpy() on a tensor that requires grad")


SPACE = spaces.Box(-np.inf, np.inf, (2,))


def test_a_callable_serves_spaces_that_nothing_else_does():
    space = spaces.Dict(camera=spaces.Box(0, 255, (8, 8), np.uint8), speed=spaces.Box(-1, 1, (2,)))

    def glance(observations):
        return np.column_stack([observations["camera"].mean(axis=(1, 2)) / 255, observations["speed"]])

    features = state_features(glance, space)
    assert isinstance(features, StateFeatures)
    assert features.size == 3
    batch = {"camera": np.full((4, 8, 8), 51, np.uint8), "speed": np.ones((4, 2), np.float32)}
    np.testing.assert_allclose(features(batch), [[0.2, 1, 1]] * 4)
    assert features.observe(batch) is False


@pytest.mark.parametrize(
    ("result", "rule"),
    [
        (lambda x: x[0], r"array \(n, m\)"),
        (lambda x: np.ones((len(x) + 1, 2)), r"n = 1"),
        (lambda x: np.full((len(x), 2), np.nan), "environment 0, feature 0: must be finite"),
        (lambda x: "features", "array of numbers"),
        (lambda x: Graphed(), "array of numbers"),
        (lambda x: np.empty((len(x), 0)), "at least one feature"),
    ],
)
def test_a_wrong_output_is_blamed_on_the_callable_by_name(result, rule):
    def my_features(observations):
        return result(observations)

    with pytest.raises(InvalidInputError, match=rf"my_features.*{rule}"):
        state_features(my_features, SPACE)


def test_the_number_of_features_must_not_change():
    features = state_features(lambda x: np.ones((len(x), len(x))), SPACE)
    with pytest.raises(InvalidInputError, match="same m = 1"):
        features(np.ones((2, 2)))


def test_a_given_size_saves_the_trial_call():
    calls = []

    def counted(observations):
        calls.append(1)
        return observations

    features = state_features(counted, SPACE, size=2)
    assert not calls
    features(np.ones((1, 2)))
    assert len(calls) == 1
    with pytest.raises(StateError, match="counted has 2 features, the state has 3"):
        features.load_state_dict({"size": np.array(3)})


def test_the_callable_cannot_spoil_what_it_returned():
    kept = np.ones((1, 2))
    features = state_features(lambda x: kept, SPACE)
    features(kept)[:] = 7
    np.testing.assert_array_equal(kept, 1)


def test_what_is_not_callable_is_refused():
    with pytest.raises(InvalidInputError, match="name, a callable or a StateFeatures"):
        state_features(3, SPACE)
    with pytest.raises(InvalidInputError, match="Pass features=f"):
        state_features("custom", SPACE)
