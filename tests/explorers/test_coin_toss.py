"""No explorer predicts an environment's own random numbers, although both have the same seed."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.streams import stream

TOSSES = 100


class Coin(gym.Env):
    """A coin is tossed at every step, by Gymnasium's own generator; who calls it gets 1."""

    observation_space = spaces.Box(-1.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        right = int(self.np_random.integers(2)) == int(action)
        return np.zeros(1, np.float32), float(right), False, False, {}


def called(explorer, seed):
    """The share of the tosses that the explorer calls."""
    env, right = Coin(), 0.0
    observation, _ = env.reset(seed=seed)
    never = np.array([False])
    for _ in range(TOSSES):
        action = explorer.act(observation[None])
        following, reward, *_ = env.step(action[0])
        step = polaug.Transitions(observation[None], action, np.array([reward]), following[None], never, never)
        explorer.observe(step)
        observation, right = following, right + reward
    return right / TOSSES


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", polaug.explorers())
def test_no_explorer_predicts_the_coin(name, seed):
    """Three quarters of a hundred tosses or more are called by chance once in four million times."""
    explorer = polaug.make_explorer(name, Coin.observation_space, Coin.action_space, seed=seed)
    assert called(explorer, seed) < 0.75


def test_an_explorer_with_the_environments_numbers_predicts_every_toss():
    """The coin finds what it is for: a generator seeded as Gymnasium seeds its own."""
    explorer = polaug.make_explorer("random", Coin.observation_space, Coin.action_space, seed=7)
    explorer._rng = np.random.default_rng(7)
    assert called(explorer, 7) == 1.0
    explorer._rng = stream(7, "explorer")
    assert called(explorer, 7) < 0.75
