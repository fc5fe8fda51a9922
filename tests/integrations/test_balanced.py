"""Replay buffers that draw as much from high-value as from low-value rollouts."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from polaug.config import Augmentation
from polaug.errors import InvalidInputError
from polaug.integrations import augment
from polaug.integrations.sb3 import balanced
from polaug.integrations.sb3.balanced import BalancedNStepReplayBuffer, BalancedReplayBuffer, BalancedSampling

BALANCE = Augmentation("random", transfer="balance")


def filled(size, good=20):
    """A full buffer of episodes of ten steps, of which only the first few rows are `good`: their reward is 1."""
    space = gym.spaces.Box(-1.0, 1.0, (1,))
    buffer = BalancedReplayBuffer(size, space, gym.spaces.Discrete(2), device="cpu", handle_timeout_termination=False)
    for row in range(size):
        extend(buffer, float(row < good), row % 10 == 9)
    return buffer


def extend(buffer, reward, done):
    state = np.zeros((1, 1), np.float32)
    buffer.add(state, state, np.zeros((1, 1)), np.array([reward]), np.array([done]), [{}])


def test_half_of_a_minibatch_is_of_the_rarer_kind():
    assert float(filled(1000).sample(2000).rewards.mean()) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("n_steps", [1, 5])
@pytest.mark.parametrize("n_envs", [1, 2, 8])
def test_also_where_it_is_rare_in_each_of_several_environments(n_envs, n_steps, normalized):
    """A good rollout of one environment lies beside bad ones of the others."""
    space = gym.spaces.Box(-1.0, 1.0, (2,))
    kwargs = {"device": "cpu", "n_envs": n_envs, "handle_timeout_termination": False}
    cls = BalancedReplayBuffer if n_steps == 1 else BalancedNStepReplayBuffer
    kwargs |= {} if n_steps == 1 else {"n_steps": n_steps, "gamma": 1.0}
    buffer = cls(1000 * n_envs, space, gym.spaces.Discrete(2), **kwargs)
    good = np.random.default_rng(0).random((100, n_envs)) < 0.05
    for t in range(1000):
        rewards, now = good[t // 10].astype(float), np.full(n_envs, t / 1000)
        states = [np.stack([now + ahead, np.arange(n_envs) / 8], axis=1).astype(np.float32) for ahead in (0, 0.001)]
        buffer.add(*states, np.zeros((n_envs, 1)), rewards, np.full(n_envs, t % 10 == 9), [{}] * n_envs)
    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]), norm_obs=False) if normalized else None
    samples = buffer.sample(4000, env=env)
    assert len(samples.rewards) == len(samples.observations) == 4000
    assert float((samples.rewards > 0).float().mean()) == pytest.approx(0.5, abs=0.05)
    t, k = np.rint(samples.observations.numpy() * [1000, 8]).astype(int).T
    assert set(k) == set(range(n_envs))
    n = np.minimum(n_steps, 10 - t % 10)  # to the end of the episode
    np.testing.assert_allclose(samples.rewards[:, 0], good[t // 10, k] * n, rtol=1e-4)
    np.testing.assert_allclose(samples.next_observations, np.stack([(t + n) / 1000, k / 8], axis=1), atol=1e-5)
    np.testing.assert_array_equal(samples.dones[:, 0], (t + n) % 10 == 0)


def test_rows_are_sorted_once_in_a_while(monkeypatch):
    sorts, plain = [], balanced.balanced
    monkeypatch.setattr(balanced, "balanced", lambda *args: sorts.append(1) or plain(*args))
    buffer = filled(5000)
    for k in range(50):
        buffer.sample(8)
        extend(buffer, 0.0, k % 10 == 9)
    assert len(sorts) == 9  # after every six of the 50 rows
    small = filled(500)
    sorts.clear()
    for _ in range(5):
        small.sample(8)
        small.sample(8)
        extend(small, 0.0, False)
    assert len(sorts) == 5


def test_an_empty_buffer_has_no_rows_of_the_past():
    buffer = filled(1000)
    buffer.sample(8)
    buffer.reset()
    extend(buffer, 5.0, False)
    assert (buffer.sample(16).rewards == 5.0).all()


def test_no_return_is_of_two_episodes(corridor, guide):
    settings = Augmentation(guide, transfer="balance")
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, buffer_size=50, learning_starts=50, seed=0)
    model.learn(8)  # too few to reach the end
    model.learn(12)
    returns = model.replay_buffer.episode_returns[:20, 0]
    assert np.isnan(returns[:8]).all()
    np.testing.assert_allclose(returns[8:18], 0.9, atol=1e-6)


@pytest.mark.parametrize("cls", [DQN, SAC])
def test_an_agent_loaded_before_its_environment_still_balances(cls, corridor, tmp_path):
    env = corridor(cls is SAC)
    options = {"buffer_size": 500, "device": "cpu", "seed": 0, "policy_kwargs": {"net_arch": [8]}}
    augment(cls)("MlpPolicy", env, augmentation=BALANCE, **options).save(tmp_path / "a")
    model = augment(cls).load(tmp_path / "a")
    model.set_env(env)
    assert isinstance(model.replay_buffer, BalancedSampling)
    model.learn(150)


def test_a_buffer_that_shares_its_rows_is_refused(corridor):
    kwargs = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
    with pytest.raises(
        InvalidInputError, match='optimize_memory_usage: must be False with transfer="balance", got True'
    ):
        augment(DQN)("MlpPolicy", corridor(), augmentation=BALANCE, buffer_size=500, **kwargs)
    augment(DQN)("MlpPolicy", corridor(), buffer_size=500, **kwargs)
