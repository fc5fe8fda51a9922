"""The compiled n-step buffer gives what Stable-Baselines3's own gives."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from polaug.config import Augmentation
from polaug.sb3 import augment
from polaug.sb3.n_step import CompiledNStepReplayBuffer

SPACES = (gym.spaces.Box(-1.0, 1.0, (3,)), gym.spaces.Discrete(2))


def filled(cls, rows, size, n_steps=5, seed=0):
    rng = np.random.default_rng(seed)
    buffer = cls(size, *SPACES, n_envs=2, n_steps=n_steps, gamma=0.9)
    for _ in range(rows):
        dones = rng.random(2) < 0.1
        infos = [{"TimeLimit.truncated": bool(done and rng.random() < 0.5)} for done in dones]
        states = rng.normal(size=(2, 2, 3))
        buffer.add(*states, rng.integers(2, size=2), rng.normal(size=2), dones, infos)
    return buffer


def sample(buffer, seed, env=None):
    np.random.seed(seed)  # noqa: NPY002 (SB3's own generator)
    return buffer.sample(64, env=env)


@pytest.mark.parametrize(("rows", "size"), [(40, 100), (250, 100), (200, 100)], ids=["young", "wrapped", "just full"])
@pytest.mark.parametrize("n_steps", [1, 5])
def test_samples_are_those_of_stable_baselines3(rows, size, n_steps):
    theirs, ours = (filled(cls, rows, size, n_steps) for cls in (NStepReplayBuffer, CompiledNStepReplayBuffer))
    for seed in range(20):
        expected, got = sample(theirs, seed), sample(ours, seed)
        for name in expected._fields:
            one, other = getattr(expected, name), getattr(got, name)
            assert one.dtype == other.dtype, name
            torch.testing.assert_close(other, one, atol=1e-6, rtol=1e-6)


def test_under_normalisation_each_reward_is_scaled_and_clipped_before_they_are_added_up():
    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]), norm_obs=False, clip_reward=0.5)
    env.ret_rms.var = np.array(9.0)
    buffer = filled(CompiledNStepReplayBuffer, 50, 100)
    buffer.rewards[:, 1], buffer.dones[:, 1], buffer.timeouts[:, 1] = buffer.rewards[:, 0], buffer.dones[:, 0], 0.0
    rows = np.arange(45)
    for normalizer in (env, None):
        returns = buffer._get_samples(rows, normalizer).rewards.numpy()[:, 0]
        for row in rows:
            expected = 0.0
            for step in range(5):
                reward = buffer.rewards[row + step, 0]
                reward = reward if normalizer is None else np.clip(reward / 3.0, -0.5, 0.5)
                expected += 0.9**step * reward
                if buffer.dones[row + step, 0]:
                    break
            assert returns[row] == pytest.approx(expected, abs=1e-5)


def augmented(corridor, guide, **options):
    options = {"buffer_size": 500, "learning_starts": 20, "policy_kwargs": {"net_arch": [8]}, "device": "cpu"} | options
    return augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide), seed=0, **options)


@pytest.mark.parametrize("own", [{}, {"replay_buffer_kwargs": {"handle_timeout_termination": False}}])
def test_returns_end_where_the_environments_were_reset(own, corridor, guide):
    model = augmented(corridor, guide, learning_starts=1000, buffer_size=12, **own).learn(8)
    rows = np.array([4, 5, 6, 7])
    model.learn(4, reset_num_timesteps=False)  # goes on
    assert (model.replay_buffer._get_samples(rows).discounts < 0.99**2).all()
    model.replay_buffer.reset()
    for _ in range(2):
        model.learn(8)  # too few to reach the end; the second time around the buffer is full
    buffer = model.replay_buffer
    samples = buffer._get_samples(rows)
    np.testing.assert_array_equal(samples.next_observations.numpy(), np.tile(buffer.next_observations[7], (4, 1)))
    np.testing.assert_allclose(samples.discounts.numpy()[:, 0], 0.99 ** np.array([4, 3, 2, 1]), rtol=1e-6)
    assert (samples.dones == float(bool(own))).all()  # the task went on, unless the user wants time limits to end it


def test_an_end_is_an_end_also_where_the_environments_were_reset(corridor, guide):
    model = augmented(corridor, guide, learning_starts=1000, train_freq=5).learn(10)
    assert model.replay_buffer.dones[9, 0]
    model.learn(5)
    assert model.replay_buffer._get_samples(np.array([9])).dones == 1.0


def test_a_buffer_that_was_saved_with_the_agent_keeps_its_rows(corridor, guide, tmp_path):
    model = augmented(corridor, guide).learn(100)
    model.save(tmp_path / "a", include=["replay_buffer"])
    loaded = augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=Augmentation(guide))
    assert loaded.replay_buffer.size() == 100


def test_a_buffer_class_of_the_users_own_is_saved_and_loaded(corridor, guide, tmp_path):
    own = {"replay_buffer_class": NStepReplayBuffer, "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.9}}
    augmented(corridor, guide, **own).save(tmp_path / "a")
    loaded = augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=Augmentation(guide))
    assert loaded.replay_buffer.n_steps == 3


@pytest.mark.parametrize("transfer", [None, "replay"])
def test_long_returns_of_ours_do_not_outlive_the_transfer_that_asked_for_them(transfer, corridor, guide, tmp_path):
    model = augmented(corridor, guide).learn(100)
    model.save(tmp_path / "a")
    model.save(tmp_path / "b", include=["replay_buffer"])
    model.save_replay_buffer(tmp_path / "buffer")
    settings = None if transfer is None else Augmentation(guide, transfer=transfer)
    loaded = augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=settings)
    assert (loaded.n_steps, loaded._n_steps_are_ours, loaded.replay_buffer_kwargs) == (1, False, {})
    assert not isinstance(loaded.replay_buffer, NStepReplayBuffer)
    loaded.learn(60)
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded.replay_buffer.n_steps == 1
    loaded.learn(60)
    again = augment(DQN).load(tmp_path / "b", env=corridor(), augmentation=settings)
    assert (again.replay_buffer.size(), again.replay_buffer.n_steps) == (100, 1)
    loaded.save(tmp_path / "c")
    assert augment(DQN).load(tmp_path / "c", augmentation=settings).n_steps == 1


def test_without_its_augmentation_a_loaded_agent_learns_as_the_plain_one(corridor, guide, tmp_path):
    augmented(corridor, guide).save(tmp_path / "a")
    plain = DQN("MlpPolicy", corridor(), seed=0, buffer_size=500, learning_starts=20, device="cpu",
                policy_kwargs={"net_arch": [8]})  # fmt: skip
    ends = []
    for model in (plain, augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=None)):
        set_random_seed(7)
        model.action_space.seed(7)
        model.env.seed(7)
        ends.append([tensor.clone() for tensor in model.learn(200).policy.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@pytest.mark.parametrize("own", [{"n_steps": 3}, {"replay_buffer_class": NStepReplayBuffer,
                                                  "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.9}}])  # fmt: skip
@pytest.mark.parametrize("transfer", [None, "replay", "distil"])
def test_long_returns_of_the_users_stay(own, transfer, corridor, guide, tmp_path):
    model = augmented(corridor, guide, **own)
    model.save(tmp_path / "a")
    model.save_replay_buffer(tmp_path / "buffer")
    settings = None if transfer is None else Augmentation(guide, transfer=transfer)
    loaded = augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=settings)
    assert (loaded.replay_buffer.n_steps, loaded._n_steps_are_ours) == (3, False)
    loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded.replay_buffer.n_steps == 3


@pytest.mark.filterwarnings("ignore:.n_steps=3. is ignored")  # SB3 warns when it loads a file of its own
def test_the_long_returns_of_a_plain_agent_stay_its_users(corridor, guide, tmp_path):
    DQN("MlpPolicy", corridor(), buffer_size=500, n_steps=3, device="cpu").save(tmp_path / "a")
    loaded = augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=Augmentation(guide))
    assert (loaded.n_steps, loaded._n_steps_are_ours) == (3, False)
    assert augmented(corridor, guide)._n_steps_are_ours
