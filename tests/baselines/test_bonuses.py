"""Bonuses enter PPO where rewards do: its advantages are those of reward + bonus, and logged returns are raw."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import polaug

torch.set_num_threads(1)
GAMMA, LAMBDA, LENGTH, ENVIRONMENTS = 0.97, 0.9, 100, 3


class Tape(BaseCallback):
    """What the environments did, read after everybody has had their say; rewards come from the environments."""

    def __init__(self, tapes):
        super().__init__()
        self.tapes, self.dones, self.bootstraps = tapes, [], []

    def _on_step(self):
        dones, infos = self.locals["dones"], self.locals["infos"]
        truncated = np.array([info.get("TimeLimit.truncated", False) for info in infos])
        self.dones.append(dones.copy())
        ends = [
            self.model.policy.obs_to_tensor(info["terminal_observation"])[0] if cut else None
            for info, cut in zip(infos, truncated, strict=True)
        ]
        with torch.no_grad():
            self.bootstraps.append(
                [0.0 if end is None else GAMMA * self.model.policy.predict_values(end).item() for end in ends]
            )
        return True


class Recorder(gym.Wrapper):
    """Keeps the transitions of one environment as they were."""

    def __init__(self, env):
        super().__init__(env)
        self.rows = []

    def reset(self, **kwargs):
        self.last, info = self.env.reset(**kwargs)
        return self.last, info

    def step(self, action):
        following, reward, terminated, truncated, info = self.env.step(action)
        self.rows.append((self.last, action, reward, following, terminated, truncated and not terminated))
        self.last = following
        return following, reward, terminated, truncated, info


@pytest.mark.parametrize("explorer", ["counting", "rnd", "icm"])
def test_advantages_are_those_of_reward_plus_bonus(explorer):
    recorders = []

    def make():
        recorders.append(Recorder(gym.make("CartPole-v1", max_episode_steps=15)))
        return recorders[-1]

    env = make_vec_env(make, ENVIRONMENTS, seed=0)
    settings = polaug.Augmentation(explorer=explorer, explorer_options={"beta": 3.0}, seed=5)
    model = polaug.augment(PPO)(
        "MlpPolicy",
        env,
        n_steps=LENGTH,
        batch_size=50,
        gamma=GAMMA,
        gae_lambda=LAMBDA,
        seed=0,
        device="cpu",
        augmentation=settings,
    )
    tape = Tape(recorders)
    _, callback = model._setup_learn(LENGTH * ENVIRONMENTS, tape)
    callback.on_training_start({}, {})
    model.collect_rollouts(model.env, callback, model.rollout_buffer, LENGTH)
    buffer = model.rollout_buffer

    # A twin explorer that sees the recorded transitions pays the same.
    twin = polaug.make_explorer(explorer, env.observation_space, env.action_space, seed=5, beta=3.0)
    rewards = np.zeros((LENGTH, ENVIRONMENTS))
    bonuses = np.zeros_like(rewards)
    for t in range(LENGTH):
        columns = zip(*(recorder.rows[t] for recorder in recorders), strict=True)
        step = polaug.Transitions(*(np.array(column) for column in columns))
        twin.observe(step)
        rewards[t], bonuses[t] = step.rewards, twin.bonus(step)
    assert (bonuses[-20:] > 0.0).all()

    dones, cut = np.array(tape.dones), np.array(tape.bootstraps)
    assert (cut != 0.0).sum() > 3  # truncated episodes
    assert (dones & (cut == 0.0)).sum() > 3  # terminated ones
    with torch.no_grad():
        last = model.policy.predict_values(torch.as_tensor(model._last_obs)).numpy().flatten()
    values = np.concatenate([buffer.values, last[None]])
    advantages, following = np.zeros_like(rewards), np.zeros(ENVIRONMENTS)
    for t in reversed(range(LENGTH)):
        alive = ~dones[t]
        delta = rewards[t] + bonuses[t] + cut[t] + GAMMA * values[t + 1] * alive - values[t]
        following = advantages[t] = delta + GAMMA * LAMBDA * alive * following
    np.testing.assert_allclose(buffer.advantages, advantages, atol=1e-4)
    np.testing.assert_allclose(buffer.returns, advantages + values[:-1], atol=1e-4)

    lengths = [episode["l"] for episode in model.ep_info_buffer]
    assert [episode["r"] for episode in model.ep_info_buffer] == lengths  # CartPole's raw returns
