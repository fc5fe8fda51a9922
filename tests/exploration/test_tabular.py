"""`tabular` solves what counting can solve, in few episodes."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import UnsupportedSpaceError
from polaug.study import explore, task
from polaug.study.explore import drive


def play(env, explorer, episodes, seed=0):
    made = polaug.make_explorer(explorer, env.observation_space, env.action_space, seed=seed)
    return drive(env, made, episodes=episodes, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_deep_sea_is_solved_and_not_by_random(seed):
    env = gym.make("polaug/DeepSea-v0", size=10)
    found = play(env, "tabular", 100, seed)
    assert max(found.returns) == pytest.approx(0.99)
    assert found.returns[-1] == pytest.approx(0.99)
    assert np.mean(play(env, "random", 100, seed).returns) < 0.05  # one episode in 2^10 finds the chest


@pytest.mark.parametrize("seed", range(2))
def test_the_cliff_is_walked_along_the_shortest_path(seed):
    returns = explore("CliffWalking-v1", "tabular", episodes=40, seed=seed).returns
    assert max(returns[:30]) == -13.0
    assert np.median(returns[-10:]) == -13.0


def test_the_lake_is_crossed_on_the_shortest_path():
    result = explore("FrozenLake8x8", "tabular", episodes=40)
    assert min(episode.length for episode in result.episodes if episode.return_ == 1.0) == 14


def test_slippery_ice_is_crossed_more_often_than_at_random():
    lake = task("FrozenLake-v1")
    ours = explore(lake, "tabular", episodes=200).returns
    chance = explore(lake, "random", episodes=200).returns
    assert np.mean(ours[100:]) > 0.4 > 4 * np.mean(chance)


def test_numbers_are_refused_with_a_remedy():
    with pytest.raises(UnsupportedSpaceError, match="committee"):
        polaug.make_explorer("tabular", spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2))
