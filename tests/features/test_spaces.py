"""What environments send: flat arrays for what is supported, errors with a remedy for the rest."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from polaug import Transitions, make_explorer
from polaug.errors import InvalidInputError, UnsupportedSpaceError
from polaug.features import state_features
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
    for name in ("random_fourier", "fourier", "grid", "simhash"):
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
        (spaces.Dict(a=UNBOUNDED), np.zeros((1, 3)), "dict with the keys 'a'"),
        (spaces.Dict(a=UNBOUNDED, b=spaces.Discrete(2)), {"a": np.zeros((1, 3))}, "must have the key 'b'"),
        (
            spaces.Dict(a=spaces.Dict(b=UNBOUNDED)),
            {"a": {"b": np.zeros((1, 2))}},
            r"observations\['a'\]\['b'\].*\(n, 3\)",
        ),
        (spaces.Dict(a=spaces.Text(3)), {"a": np.zeros(1)}, r"\['a'\]: must be n texts"),
    ],
)
def test_malformed_batches_are_refused_with_the_rule(space, batch, rule):
    with pytest.raises(InvalidInputError, match=rule):
        Flattener(space)(batch)


def test_a_dict_becomes_the_columns_of_its_parts():
    space = spaces.Dict(
        {
            "observation": spaces.Box(-1, 1, (2,)),
            "goals": spaces.Tuple((spaces.Discrete(3, start=1), spaces.Dict(at=spaces.MultiDiscrete([4, 5])))),
        }
    )
    batch = {
        "observation": np.array([[0.5, -0.5], [1.0, 0.0]], np.float32),
        "goals": (np.array([1, 3]), {"at": np.array([[0, 4], [3, 1]])}),
        "what the space does not know": None,
    }
    flatten = Flattener(space)
    by_key = {"goals": [[1, 0, 4], [3, 3, 1]], "observation": [[0.5, -0.5], [1.0, 0.0]]}
    expected = np.concatenate([by_key[key] for key in space.spaces], axis=1)
    np.testing.assert_array_equal(flatten(batch), expected)
    assert flatten.categorical.sum() == 3
    np.testing.assert_array_equal(Flattener(flatten.columns)(expected), expected)
    for name in ("low", "high", "categorical", "resolution"):
        np.testing.assert_array_equal(getattr(Flattener(flatten.columns), name), getattr(flatten, name))


def test_a_text_among_other_parts_is_a_category():
    flatten = Flattener(spaces.Dict(at=spaces.Discrete(4), mission=spaces.Text(20)))
    batches = [("go", "stop", "go"), ["go", "stop", "go"], np.array(["go", "stop", "go"])]
    flat = [flatten({"at": np.array([0, 0, 1]), "mission": texts}) for texts in batches]
    assert flat[0][0, 1] == flat[0][2, 1] != flat[0][1, 1]
    assert all(np.array_equal(flat[0], each) for each in flat)


NUMBERS = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Told(gym.Env):
    """An environment that shows and takes anything, to try on it what a message advises."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


def tried(env, **options):
    """Some steps with an explorer."""
    explorer = make_explorer("committee", env.observation_space, env.action_space, seed=0, **options)
    space, (observation, _) = env.observation_space, env.reset()
    for _ in range(5):
        action = explorer.act(batched(space, observation))
        following, *_ = env.step(action[0])
        explorer.observe(
            Transitions(batched(space, observation), action, [0.0], batched(space, following), [False], [False])
        )
        observation = following
    return explorer


def batched(space, observation):
    if isinstance(space, spaces.Text):
        return (observation,)
    return concatenate(space, [observation], create_empty_array(space, 1))


def lengths(observations):
    return np.ones((1, 2))


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (spaces.Text(5), "text"),
        (spaces.Graph(spaces.Box(-1, 1, (2,)), None), "graph"),
        (spaces.Sequence(spaces.Discrete(2)), "sequence"),
        (spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3))), "every alternative"),
    ],
)
def test_the_remedies_for_observations_work(space, kind):
    env = Told(space, spaces.Discrete(2))
    with pytest.raises(UnsupportedSpaceError, match=f"features=f.*{kind}"):
        make_explorer("committee", env.observation_space, env.action_space)
    assert tried(env, features=lengths).steps == 5
    if kind == "text":  # which is a category among others
        return
    inside = Told(spaces.Dict(numbers=NUMBERS, odd=space), spaces.Discrete(2))
    with pytest.raises(UnsupportedSpaceError, match=rf"'odd'.*FilterObservation.*features=f.*{kind}"):
        make_explorer("committee", inside.observation_space, inside.action_space)
    assert tried(gym.wrappers.FilterObservation(inside, ["numbers"])).steps == 5
    assert tried(inside, features=lengths).steps == 5


@pytest.mark.parametrize("space", [spaces.Dict(a=spaces.Discrete(2)), spaces.Text(3), spaces.Tuple((NUMBERS, NUMBERS))])
def test_the_remedy_for_actions_works(space):
    env = Told(NUMBERS, space)
    with pytest.raises(UnsupportedSpaceError, match=r"Instead, wrap.*gymnasium.ActionWrapper"):
        make_explorer("committee", env.observation_space, env.action_space)

    class Two(gym.ActionWrapper):
        action_space = spaces.Discrete(2)

        def action(self, action):
            return env.action_space.sample()

    assert tried(Two(env)).steps == 5


@pytest.mark.parametrize("high", [np.inf, np.finfo(np.float32).max])
def test_the_remedy_for_unbounded_actions_works(high):
    env = Told(NUMBERS, spaces.Box(-1, high, (2,)))
    with pytest.raises(UnsupportedSpaceError, match=r"dimension 0.*gymnasium.wrappers.TransformAction\(env, .*Box\("):
        make_explorer("committee", env.observation_space, env.action_space)
    bounded = spaces.Box(-1.0, 1.0, env.action_space.shape)
    assert tried(gym.wrappers.TransformAction(env, lambda action: action, bounded)).steps == 5


def test_what_is_no_space_is_refused():
    with pytest.raises(InvalidInputError, match="must be a gymnasium space"):
        state_features("auto", (2, 3))


def test_no_environments_is_an_empty_batch():
    for name in ("random_fourier", "fourier", "grid", "simhash"):
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
