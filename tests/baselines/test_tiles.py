"""Sarsa(λ) with tile coding: by the book on a chain that can be worked out, and on the task it is known for."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from polaug.baselines.tiles import TileSarsa
from polaug.errors import InvalidInputError, UnsupportedSpaceError
from polaug.study import Study, task
from polaug.study.agents import build
from polaug.study.methods import method


class Corridor(gym.Env):
    """From 0.05 to beyond 1 in steps of 0.1, or back; every step costs 1."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._cell = 0
        return self._seen(), {}

    def step(self, action):
        self._cell = max(0, self._cell + 2 * int(action) - 1)
        return self._seen(), -1.0, self._cell == 10, False, {}

    def _seen(self):
        return np.array([min(0.05 + 0.1 * self._cell, 1.0)], np.float32)


def test_it_learns_the_way_out_and_what_it_costs():
    """With a tile per cell the values are the steps that are left."""
    agent = TileSarsa("MlpPolicy", Corridor(), tilings=1, tiles=10, step_size=0.5, seed=0)
    agent.learn(3_000)
    places = (0.05 + 0.1 * np.arange(10))[:, None]
    assert agent.predict(places)[0].tolist() == [1] * 10
    assert agent.q_values(places)[:, 1] == pytest.approx(np.arange(10, 0, -1) * -1.0, abs=0.2)
    assert agent.predict(np.array([0.3]))[0] == 1


def test_tilings_differ_and_neighbours_share_tiles():
    agent = TileSarsa("MlpPolicy", gym.make("MountainCar-v0"), seed=0)
    near, nearer, far = (set(agent.active(np.array([[x, 0.0]]))[0]) for x in (-0.5, -0.49, 0.4))
    assert len(near) == 16
    assert 8 <= len(near & nearer) <= 16
    assert not near & far


def test_it_solves_mountain_car_and_comes_back_from_a_file(tmp_path):
    model, _ = build(method("sarsa-tiles"), task("MountainCar-v0"), seed=1)
    model.learn(12_000)
    returns = [info["r"] for info in model.ep_info_buffer]
    assert np.mean(returns[:5]) < -190
    assert np.mean(returns[-10:]) > -125
    model.save(tmp_path / "model.zip")
    again = TileSarsa.load(tmp_path / "model.zip")
    states = np.random.default_rng(0).uniform((-1.2, -0.07), (0.6, 0.07), (50, 2))
    np.testing.assert_array_equal(again.q_values(states), model.q_values(states))


def test_what_it_cannot_see_is_refused():
    with pytest.raises(UnsupportedSpaceError, match="bounded vector"):
        TileSarsa("MlpPolicy", gym.make("FrozenLake-v1"))
    with pytest.raises(InvalidInputError, match="tiles: there may be"):
        TileSarsa("MlpPolicy", gym.make("Acrobot-v1"))
    TileSarsa("MlpPolicy", gym.make("Acrobot-v1"), tiles=3)
    for name in ("CartPole-v1", "Acrobot-v1"):
        with pytest.raises(UnsupportedSpaceError, match="sarsa-tiles needs a vector of at most 4 numbers with bounds"):
            Study.of([name], ["sarsa-tiles"], 1, steps=100)
