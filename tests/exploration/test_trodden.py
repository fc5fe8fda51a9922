"""Dents: coming back to a place costs, passing it does not, and only where every step costs until the task is done."""

import gymnasium as gym
import numpy as np
import pytest
from tests.exploration.test_committee import committee, play

import polaug
from polaug.errors import StateError
from polaug.exploration.trodden import LENGTH, Trodden, dent, depth_at


def trodden(*places, environment=0):
    made = Trodden(2)
    for place in places:
        made.tread(environment, np.array(place, dtype=float), 1.0)
    return made


def test_passing_costs_nothing_and_coming_back_does():
    once = trodden((0, 0), (0.5, 0), (1, 0))
    again = trodden((0, 0), (0.5, 0), (0, 0), (0, 0))
    assert depth_at(*once.of(0), np.zeros(2)) == 0.0
    assert depth_at(*again.of(0), np.zeros(2)) == pytest.approx(2.0)
    assert depth_at(*again.of(0), np.array([0.5, 0.0])) < 0.02


def test_a_dent_is_a_bump_and_the_compiled_sum_is_the_plain_one():
    made = trodden((0, 0), (0, 0), (0.3, 0.1), (0.3, 0.1), (0.3, 0.1))
    places, depths = made.of(0)
    here = np.array([0.1, 0.05])
    plain = sum(w * np.exp(-0.5 * ((p - here) ** 2).sum() / LENGTH**2) for p, w in zip(places, depths, strict=True))
    assert depth_at(places, depths, here) == pytest.approx(plain)
    assert depth_at.py_func(places, depths, here) == pytest.approx(plain)


def test_the_oldest_places_are_forgotten():
    places, depths = np.zeros((4, 1)), np.zeros(4)
    count = 0
    for x in range(6):
        count = dent(places, depths, count, np.array([float(x)]), 1.0)
    assert count == 6
    np.testing.assert_array_equal(np.sort(places[:, 0]), [2, 3, 4, 5])


def test_environments_and_episodes_are_apart():
    made = trodden((0, 0), (0, 0))
    assert len(made.of(1)[0]) == 0
    made.begin(0)
    assert len(made.of(0)[0]) == 0


def test_it_goes_on_from_its_state_and_refuses_a_damaged_one():
    made, twin = trodden((0, 0), (0, 0), (1, 0)), Trodden(2)
    twin.load_state_dict(made.state_dict())
    for a, b in zip(made.of(0), twin.of(0), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(StateError, match="places"):
        Trodden(3).load_state_dict(made.state_dict())


def test_who_stands_still_where_steps_cost_is_driven_away():
    """In a place that looks best from all around, the choice changes in the end."""
    env, explorer = committee("MountainCar-v0")
    play(env, explorer, episodes=10)
    model = explorer._model
    assert model._toll == 1.0
    state = np.array([-0.5, 0.0])
    model._trodden.begin(0)
    first = model._hopeful(0, state)
    for _ in range(200):
        model.choose(0, state)
    assert (model._hopeful(0, state) < first).any()


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_staying_is_free_where_it_may_be_right(env_id):
    env = gym.make(env_id)
    explorer = polaug.make_explorer("committee", env.observation_space, env.action_space, seed=0)
    play(env, explorer, episodes=3)
    assert explorer._model._toll == 0.0
