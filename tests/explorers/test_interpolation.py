"""Multilinear interpolation on a grid, and value iteration through it."""

import gymnasium as gym
import numpy as np
import pytest

import polaug
from polaug.explorers.interpolation import (
    back_up_nodes,
    corners,
    grid_nodes,
    grid_shape,
    interpolated,
    nearest,
)
from polaug.explorers.value_iteration import GridSolution, Solution
from polaug.study.explore import drive


def multilinear(z):
    return 1.0 + 2.0 * z[..., 0] - z[..., 2] + 0.5 * z[..., 0] * z[..., 2]


def test_a_multilinear_function_is_met_exactly():
    shape = np.array([4, 1, 7])
    nodes, rng = grid_nodes(shape), np.random.default_rng(0)
    states = rng.uniform(-1.0, 1.0, (200, 3))
    at, weights = corners(shape, states)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    np.testing.assert_allclose((weights * multilinear(nodes)[at]).sum(axis=1), multilinear(states))
    values = multilinear(nodes)
    assert interpolated(shape, values, states[0]) == pytest.approx(multilinear(states[0]))


def test_beyond_the_grid_the_border_counts():
    shape = np.array([5])
    values = grid_nodes(shape)[:, 0]
    assert interpolated(shape, values, np.array([7.0])) == 1.0
    assert interpolated(shape, values, np.array([-7.0])) == -1.0


def test_the_grid_leaves_out_what_is_irrelevant_and_gives_up_where_it_would_be_coarse():
    assert grid_shape(np.array([1.0, 0.0, 0.3]), 2500, 6).tolist() == [50, 1, 50]
    assert grid_shape(np.ones(4), 2500, 6).tolist() == [7, 7, 7, 7]
    assert grid_shape(np.ones(5), 2500, 6) is None
    assert grid_shape(np.zeros(2), 2500, 6) is None


def test_value_iteration_finds_the_way_along_a_corridor():
    """Steps of 0.1 to either side cost 1; the right end ends the task."""
    shape, gamma = np.array([21]), 0.95
    here = grid_nodes(shape)[:, 0]
    there = np.stack([here - 0.1, here + 0.1], axis=1)
    ends = (there > 0.999).astype(float)
    nodes, weights = corners(shape, np.clip(there, -1.0, 1.0).reshape(-1, 1))
    values = np.zeros(len(here))
    for sweep in range(200):
        if (
            back_up_nodes(values, nodes, weights, -np.ones((21, 2)), gamma * (1 - ends), -100.0, 0.0, sweep % 2 == 0)
            < 1e-12
        ):
            break
    steps = np.ceil((1.0 - here) / 0.1 - 1e-9).clip(1)
    np.testing.assert_allclose(values, -(1 - gamma**steps) / (1 - gamma), atol=1e-9)


def test_nearest():
    states, seen = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.9], [0.1, 0.0], [-1.0, 0.0]])
    assert nearest(states, seen).tolist() == [1, 0]


@pytest.mark.parametrize(("task", "solution"), [("MountainCar-v0", GridSolution), ("Acrobot-v1", Solution)])
def test_the_grid_is_for_few_dimensions(task, solution):
    env = gym.make(task)
    explorer = polaug.make_explorer("model", env.observation_space, env.action_space, seed=1)
    seen = set()
    for episode in range(2):
        observation, _ = env.reset(seed=episode)
        for _ in range(100):
            action = explorer.act(observation[None])
            following, reward, terminated, truncated, _ = env.step(action[0])
            explorer.observe(polaug.Transitions(observation[None], action, np.array([reward]), following[None],
                                                np.array([terminated]), np.array([truncated])))  # fmt: skip
            seen.add(type(explorer._solution))
            observation = following
    assert solution in seen
    assert seen <= {solution, type(None)}


def test_predicted_states_lie_in_the_observation_space():
    """Speeds are cut off at 0.07; the smooth model alone would go beyond."""
    env = gym.make("MountainCar-v0")
    explorer = polaug.make_explorer("model", env.observation_space, env.action_space, seed=3)
    drive(env, explorer, episodes=3, seed=3)
    model = explorer.experience.dynamics.model
    space = env.observation_space
    np.testing.assert_allclose(model.low, np.clip((space.low - model.centre) * model.inverse, -1.2, 1.2))
    np.testing.assert_allclose(model.high, np.clip((space.high - model.centre) * model.inverse, -1.2, 1.2))
