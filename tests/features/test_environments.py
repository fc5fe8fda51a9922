"""Gymnasium's own environments, batched by its vector environment, with no setting at all."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from polaug.features import action_features, state_features

NAMES = [
    "Acrobot-v1",
    "Blackjack-v1",
    "CartPole-v1",
    "CliffWalking-v1",
    "FrozenLake-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3",
]


@pytest.mark.parametrize("name", NAMES)
def test_states_and_actions_of_a_real_environment(name):
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(name)] * 2)
    try:
        states = state_features("auto", envs.single_observation_space)
        actions = action_features("auto", envs.single_action_space)
        observations, _ = envs.reset(seed=0)
        rng = np.random.default_rng(0)
        for _ in range(30):
            states.observe(observations)
            x = states(observations)
            assert x.shape == (2, states.size)
            assert np.isfinite(x).all()
            assert np.abs(x).max() <= 1
            chosen = rng.integers(actions.n_actions, size=2)
            sent = actions.to_environment(chosen)
            np.testing.assert_array_equal(actions.to_indices(sent), chosen)
            observations = envs.step(sent)[0]
    finally:
        envs.close()
