"""What environments send: flat arrays for what is supported, errors with a remedy for the rest."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug.errors import InvalidInputError, UnsupportedSpaceError
from polaug.features import action_features, state_features
from polaug.features.spaces import Flattener, signature

UNBOUNDED = spaces.Box(-np.inf, np.inf, (3,))


def test_a_box_of_any_small_shape_is_flattened_in_order():
    flat = Flattener(spaces.Box(-1, 1, (2, 3)))(np.arange(12.0).reshape(2, 2, 3))
    assert flat.dtype == np.float64
    np.testing.assert_array_equal(flat, np.arange(12.0).reshape(2, 6))


def test_a_tuple_batched_as_a_vector_environment_does_becomes_columns():
    space = spaces.Tuple((spaces.Discrete(32), spaces.Tuple((spaces.Discrete(11), spaces.MultiBinary(2)))))
    batch = (np.array([4, 31]), (np.array([1, 10]), np.array([[0, 1], [1, 1]])))
    np.testing.assert_array_equal(Flattener(space)(batch), [[4, 1, 0, 1], [31, 10, 1, 1]])


def test_discrete_respects_start_and_a_trailing_axis():
    flatten = Flattener(spaces.Discrete(3, start=-1))
    np.testing.assert_array_equal(flatten(np.array([-1, 1])), [[-1], [1]])
    np.testing.assert_array_equal(flatten(np.array([[-1], [1]])), [[-1], [1]])
    with pytest.raises(InvalidInputError, match=r"environment 1, dimension 0: must be in \[-1, 1\], got 2"):
        flatten(np.array([0, 2]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_by_environment_and_dimension(bad):
    observations = np.zeros((3, 3), np.float32)
    observations[1, 2] = bad
    for name in ("random_fourier", "fourier", "polynomial", "grid", "simhash"):
        features = state_features(name, UNBOUNDED)
        for call in (features, features.observe):
            with pytest.raises(InvalidInputError, match="environment 1, dimension 2"):
                call(observations)


def test_dimensions_are_counted_across_the_parts_of_a_tuple():
    space = spaces.Tuple((spaces.Discrete(2), UNBOUNDED))
    with pytest.raises(InvalidInputError, match="environment 1, dimension 2"):
        Flattener(space)((np.array([0, 1]), np.array([[0.0, 0, 0], [0, np.nan, 0]])))


@pytest.mark.parametrize(
    ("space", "batch", "rule"),
    [
        (UNBOUNDED, np.zeros(3), r"shape \(n, 3\).*batch of one"),
        (UNBOUNDED, np.zeros((2, 4)), r"shape \(n, 3\)"),
        (UNBOUNDED, np.zeros((2, 3), complex), "real numbers"),
        (UNBOUNDED, [["a", "b", "c"]], "real numbers"),
        (UNBOUNDED, [[1.0, 2.0, 3.0], [1.0]], "rectangular"),
        (spaces.Discrete(3), 1, r"shape \(n,\)"),
        (spaces.Discrete(3), np.array([1.0]), "whole numbers"),
        (spaces.MultiDiscrete([2, 3]), np.array([[1, 3]]), r"dimension 1: must be in \[0, 2\]"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), np.array([[0, 1]]), "tuple of 2 arrays"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), (np.array([0]), np.array([0, 1])), "same n"),
    ],
)
def test_malformed_batches_are_refused_with_the_rule(space, batch, rule):
    with pytest.raises(InvalidInputError, match=rule):
        Flattener(space)(batch)


@pytest.mark.parametrize(
    ("space", "remedy"),
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), "features=f.*encode"),
        (spaces.Box(0, 255, (4, 4), np.uint8), "features=f"),
        (spaces.Box(-1, 1, (513,)), "features=f"),
        (spaces.Dict(a=spaces.Discrete(2)), "FlattenObservation"),
        (spaces.Text(5), "features=f.*text"),
        (spaces.Graph(spaces.Box(-1, 1, (2,)), None), "features=f.*graph"),
        (spaces.Sequence(spaces.Discrete(2)), "features=f.*sequence"),
        (spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3))), "features=f"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Dict(a=spaces.Discrete(2)))), "FlattenObservation"),
    ],
)
def test_spaces_that_cannot_work_say_what_to_pass_instead(space, remedy):
    with pytest.raises(UnsupportedSpaceError, match=remedy):
        state_features("auto", space)
    with pytest.raises(UnsupportedSpaceError, match="Instead, wrap"):
        action_features("auto", space)


@pytest.mark.parametrize("high", [np.inf, np.finfo(np.float32).max])
def test_unbounded_actions_name_the_wrappers(high):
    with pytest.raises(UnsupportedSpaceError, match=r"dimension 0.*RescaleAction or ClipAction"):
        action_features("auto", spaces.Box(-1, high, (2,)))


def test_what_is_no_space_is_refused():
    with pytest.raises(InvalidInputError, match="must be a gymnasium space"):
        state_features("auto", (2, 3))


def test_no_environments_is_an_empty_batch():
    for name in ("random_fourier", "fourier", "polynomial", "grid", "simhash"):
        features = state_features(name, UNBOUNDED)
        assert features(np.empty((0, 3))).shape == (0, features.size)
        assert features.observe(np.empty((0, 3))) is False


BOUNDS = np.arange(30.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (2,), np.float64)),
        (spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, np.float32(1.0 + 2e-7), (2,))),
        (spaces.Box(BOUNDS, BOUNDS + 1, dtype=float), spaces.Box(BOUNDS, np.nextafter(BOUNDS + 1, 99), dtype=float)),
        (spaces.Discrete(3), spaces.Discrete(3, start=1)),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([3, 2])),
        (spaces.MultiBinary(3), spaces.MultiBinary(4)),
        (
            spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))),
            spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))),
        ),
        (spaces.Dict(a=spaces.Discrete(2)), spaces.Dict(b=spaces.Discrete(2))),
        (spaces.Text(4), spaces.Text(5)),
        (spaces.Sequence(spaces.Discrete(2)), spaces.Sequence(spaces.Discrete(3))),
    ],
)
def test_signatures_tell_spaces_apart_however_numbers_are_printed(one, other):
    plain = signature(one)
    with np.printoptions(precision=1, threshold=3):
        assert signature(one) == plain
        assert signature(other) != plain
    assert len(plain) < 300
