"""What explorer and agent see of the environment is what happened."""

from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import TRPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from polaug.coach import coach
from polaug.config import Augmentation
from polaug.errors import InvalidInputError
from polaug.sb3 import augment


def small():
    return {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}  # fresh: SB3 changes policy_kwargs


class Tape(gym.Wrapper):
    """Writes down what the environment really did."""

    def __init__(self, env):
        super().__init__(env)
        self.rows = []

    def reset(self, **kwargs):
        self.last, info = self.env.reset(**kwargs)
        return self.last, info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.rows.append((self.last.copy(), np.array(action), reward, obs.copy(), terminated, truncated))
        self.last = obs
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("cls", "continuous"), [(PPO, False), (PPO, True), (DQN, False), (SAC, True)])
def test_the_explorer_sees_raw_transitions_of_either_actor(cls, continuous, normalized, corridor, guide):
    tapes = [Tape(gym.wrappers.TimeLimit(corridor(continuous), 15)) for _ in range(2)]
    env = DummyVecEnv([lambda tape=tape: tape for tape in tapes])
    if normalized:
        env = VecNormalize(env)
    options = {"n_steps": 32} if cls is PPO else {"buffer_size": 1000, "learning_starts": 20}
    settings = Augmentation(explorer=guide, explorer_options={"wrong": True})
    model = augment(cls)("MlpPolicy", env, augmentation=settings, **options, **small()).learn(256)
    bridge = model._polaug
    assert 0 < bridge.coach.guide_steps < bridge.coach.steps
    bridge.coach.catch_up()
    seen = bridge.explorer.seen
    assert len(seen) == len(tapes[0].rows) == 128
    truncations = 0
    for t, batch in enumerate(seen):
        for k, tape in enumerate(tapes):
            obs, action, reward, following, terminated, truncated = tape.rows[t]
            np.testing.assert_allclose(batch.flat[k], obs, atol=1e-5)
            np.testing.assert_allclose(batch.next_flat[k], following, atol=1e-5)
            assert batch.rewards[k] == pytest.approx(reward, abs=1e-6)
            assert (batch.terminated[k], batch.truncated[k]) == (terminated, truncated and not terminated)
            assert batch.actions[k] == bridge.explorer.actions.to_indices(action[None])[0]
            truncations += truncated
    assert truncations > 0


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_the_explorer_is_told_where_it_drives(cls, corridor, guide):
    told = []

    class Told(guide):
        def drive_only(self, where):
            told.append(where)

    options = {"n_steps": 32} if cls is PPO else {"buffer_size": 1000, "learning_starts": 20}
    env, settings = make_vec_env(corridor, 2), Augmentation(Told, explorer_options={"wrong": True})
    model = augment(cls)("MlpPolicy", env, augmentation=settings, **options, **small()).learn(384)
    assert sum(where.sum() for where in told) == model._polaug.coach.guide_steps
    assert any(where.sum() == 1 for where in told)


@pytest.mark.parametrize("continuous", [False, True])
def test_stored_log_probability_and_value_are_of_the_action_taken(continuous, corridor, guide):
    env = make_vec_env(lambda: corridor(continuous), 3)
    model = augment(PPO)(
        "MlpPolicy", env, n_steps=40, batch_size=60, augmentation=Augmentation(guide, teach_every=10**6), **small()
    )
    model._setup_learn(120, None)
    callback = model._init_callback(None)
    callback.on_training_start({}, {})
    model.collect_rollouts(env, callback, model.rollout_buffer, 40)
    buffer = model.rollout_buffer
    assert 0 < buffer.driven.sum() < buffer.driven.size
    observations = torch.as_tensor(buffer.observations.reshape(-1, 2))
    actions = torch.as_tensor(buffer.actions.reshape(120, -1))
    with torch.no_grad():
        values, log_probs, _ = model.policy.evaluate_actions(
            observations, actions if continuous else actions.flatten().long()
        )
    np.testing.assert_allclose(buffer.log_probs.reshape(-1), log_probs.numpy(), atol=1e-5)
    np.testing.assert_allclose(buffer.values.reshape(-1), values.numpy().reshape(-1), atol=1e-5)
    by_explorer = [
        batch.actions == model._polaug.explorer.actions.n_actions - 1 for batch in model._polaug.explorer.seen
    ]
    assert np.mean(by_explorer) > 0.4


def test_the_loss_sees_only_steps_that_the_agent_took(corridor, guide):
    model = augment(PPO)(
        "MlpPolicy", make_vec_env(corridor, 2), n_steps=64, batch_size=16, augmentation=Augmentation(guide), **small()
    )
    passes, buffer_class = [], type(model.rollout_buffer)
    get = buffer_class.get

    class Spy(buffer_class):
        def get(self, batch_size=None):
            rows = 0
            for batch in get(self, batch_size):
                rows += len(batch.actions)
                yield batch
            passes.append((rows, int((~self.driven).sum())))

    model.rollout_buffer.__class__ = Spy
    model.learn(512)
    assert any(own < 2 * 64 for _, own in passes)  # so some steps were left out
    assert all(own - 8 < rows <= own for rows, own in passes)  # less than half a minibatch is dropped


def test_drivers_are_chosen_per_episode_and_environment(corridor, guide):
    model = augment(A2C)("MlpPolicy", make_vec_env(corridor, 4), augmentation=Augmentation(guide), **small())
    rows = []

    def note(locals_, _):
        rows.append(
            (locals_["dones"].copy(), model._polaug.coach.drivers.copy(), [i.get("actor") for i in locals_["infos"]])
        )
        return True

    model.learn(800, callback=note)
    changes = 0
    for (_, before, _), (dones, after, actors) in pairwise(rows):
        assert (before == after)[~dones].all()
        assert [a is not None for a in actors] == dones.tolist()
        changes += (before != after).sum()
        for k in np.flatnonzero(dones):
            assert actors[k] == ("explorer" if before[k] else "agent")
    assert changes > 3


PAID = [(PPO, {"n_steps": 64}), (DQN, {"buffer_size": 500})]


@pytest.mark.parametrize(("cls", "options"), PAID)
def test_bonuses_reach_the_buffer_before_anything_is_computed(cls, options, corridor, payer):
    model = augment(cls)("MlpPolicy", corridor(), augmentation=Augmentation(payer), **options, **small()).learn(64)
    buffer = model.rollout_buffer if cls is PPO else model.replay_buffer
    assert np.median(buffer.rewards[:64]) == pytest.approx(0.99, abs=1e-5)
    assert model._polaug.coach.guide_steps == 0


class Paying(gym.Wrapper):
    """Pays itself what the explorer would add."""

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, reward + 1.0, *rest


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("cls", "options"), PAID)
def test_vecnormalize_scales_bonuses_as_if_the_environment_had_paid_them(cls, options, training, corridor, payer):
    """Where there are no rewards, their spread would have made the most of every bonus, however small."""
    ends = []
    for wrap, explorer in ((Paying, "random"), (gym.Wrapper, payer)):
        env = DummyVecEnv([lambda wrap=wrap: wrap(gym.wrappers.TimeLimit(corridor(), 15)) for _ in range(2)])
        env = VecNormalize(env, norm_obs=False, training=training)
        model = augment(cls)(
            "MlpPolicy", env, augmentation=Augmentation(explorer, tau_e=0, teach_every=10**6), **options, **small()
        )
        buffer = model.learn(128).rollout_buffer if cls is PPO else model.learn(128).replay_buffer
        ends.append((buffer.rewards[:64], env.returns, env.ret_rms.mean, env.ret_rms.var, env.ret_rms.count))
    for expected, got in zip(*ends, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert np.ptp(ends[0][0]) > 0
    assert (env.ret_rms.count > 100) is training


def test_a_bonus_is_not_rounded_to_a_whole_number(payer):
    def counting():
        return gym.wrappers.TransformReward(gym.make("CartPole-v1"), round)

    def build(env):
        return augment(DQN)("MlpPolicy", env, buffer_size=500, augmentation=Augmentation(payer), **small())

    env = SubprocVecEnv([counting])
    try:
        model = build(env)
        with pytest.raises(InvalidInputError, match=r"rewards: must be floats.*dtype int64\. Return float"):
            model.learn(64)
        assert model.explorer.steps == model._polaug.coach.steps == 0
        build(VecNormalize(env, norm_obs=False)).learn(64)  # which makes floats of them
    finally:
        env.close()
    build(DummyVecEnv([counting])).learn(64)


def test_the_explorer_replaces_the_random_warm_up(corridor, guide):
    model = augment(DQN)(
        "MlpPolicy",
        corridor(),
        learning_starts=100,
        buffer_size=500,
        augmentation=Augmentation(guide, tau_e=100),
        **small(),
    )
    model.learn(80)
    assert (model.replay_buffer.actions[:80] == 1).all()


def test_box_actions_are_stored_scaled(corridor, guide):
    model = augment(SAC)(
        "MlpPolicy",
        corridor(True),
        learning_starts=30,
        buffer_size=500,
        augmentation=Augmentation(guide, tau_e=30),
        **small(),
    )
    model.learn(30)
    assert (model.replay_buffer.actions[:30] == 1.0).all()  # 2.0 in the environment's units


def test_tau_e_and_tau_q_bound_driving_and_learning(corridor, guide):
    settings = Augmentation(guide, tau_e=100, tau_q=60)
    model = augment(PPO)("MlpPolicy", corridor(), n_steps=64, augmentation=settings, **small()).learn(256)
    coach = model._polaug.coach
    assert 100 <= coach.guide_steps < 125  # an episode that began before τ_e ends as it began
    assert not coach.drivers.any()
    assert model._polaug.explorer.steps == 60  # Q̂ is fixed after τ_q, whatever drives


@pytest.mark.parametrize("explorer", ["committee", "optimistic", "model"])
def test_q_is_frozen_after_tau_q_though_the_explorer_drives(explorer, corridor):
    settings = Augmentation(explorer, tau_e=1000, tau_q=60)
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, **small()).learn(60)
    states = np.random.default_rng(0).uniform(0, 10, (20, 2))
    before = model.explorer.q_values(states)
    model.learn(60, reset_num_timesteps=False)
    assert model._polaug.coach.guide_steps == 120
    assert model.explorer.steps == 60
    np.testing.assert_array_equal(model.explorer.q_values(states), before)


def test_explorers_that_pay_go_on_learning_after_tau_q(corridor, payer):
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(payer, tau_q=60), **small()).learn(120)
    assert model.explorer.steps == 120


def test_the_taus_of_algorithm_1_reach_the_paper_explorer():
    settings = Augmentation("paper", transfer="as_published", tau_e=100, tau_q=30)
    explorer = augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=settings, **small()).explorer
    assert (explorer._tau_e, explorer._tau_q) == (100, 30)
    # While it drives, Algorithm 1 freezes Q̂ by itself, and Q (Eq. 1) is learnt to the end.
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=settings, **small()).learn(64)
    assert model.explorer.steps == 64
    assert model.explorer._completion.n_entries <= 30 < sum(visits.sum() for visits in model.explorer._visits.values())
    given = Augmentation("paper", explorer_options={"tau_q": 7}, transfer="as_published", tau_e=100, tau_q=30)
    assert augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=given, **small()).explorer._tau_q == 7


class Jump(gym.Env):
    """Noise, and far away from it the end."""

    observation_space, action_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.normal(size=1), {}

    def step(self, action):
        self.t += 1
        over = self.t == 20
        return np.array([1000.0]) if over else self.np_random.normal(size=1), 0.0, over, False, {}


@pytest.mark.parametrize(("cls", "options"), [(PPO, {"n_steps": 64}), (DQN, {"buffer_size": 500})])
def test_last_observations_are_those_before_vecnormalize_clips_them(cls, options, guide):
    env = VecNormalize(DummyVecEnv([Jump, Jump]))
    model = augment(cls)("MlpPolicy", env, augmentation=Augmentation(guide), **options, **small()).learn(256)
    model._polaug.coach.catch_up()
    last = [batch.next_flat[batch.terminated] for batch in model.explorer.seen if batch.terminated.any()]
    assert len(last) > 3
    assert (np.concatenate(last) == 1000.0).all()
    assert "step_wait" not in vars(env.venv)  # and everything is as it was


class Pictures(gym.Env):
    """Images that are higher than wide; ten steps."""

    observation_space, action_space = gym.spaces.Box(0, 255, (40, 36, 3), np.uint8), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def _see(self):
        return np.full((40, 36, 3), self.t, np.uint8)

    def step(self, action):
        self.t += 1
        return self._see(), 1.0, self.t == 10, False, {}


def test_images_below_vecnormalize_are_seen_as_they_are(guide):
    env = VecNormalize(DummyVecEnv([Pictures, Pictures]), norm_obs=False)
    options = {"features": lambda images: np.asarray(images, float)[:, :2, 0, 0]}
    settings = Augmentation(guide, explorer_options=options, teach_updates=1)
    model = augment(PPO)("CnnPolicy", env, n_steps=32, device="cpu", seed=0, augmentation=settings).learn(64)
    model._polaug.coach.catch_up()
    for batch in model.explorer.seen:
        np.testing.assert_array_equal(batch.next_flat, batch.flat + 1)
        np.testing.assert_array_equal(batch.terminated, batch.next_flat[:, 0] == 10)


@pytest.mark.parametrize("cls", [PPO, TRPO])
def test_a_whole_rollout_as_one_minibatch_is_trained_on(cls, corridor, guide):
    model = augment(cls)("MlpPolicy", corridor(), n_steps=128, batch_size=128, augmentation=Augmentation(guide), seed=0,
                         device="cpu")  # fmt: skip
    before, trained = model._n_updates, 0
    for _ in range(12):
        model.learn(128, reset_num_timesteps=False)
        trained, before = trained + (model._n_updates > before), model._n_updates
    assert model._selective.selected is not None
    assert len(model._selective.selected) < 128  # the guide's steps and evaluation episodes are left out
    assert trained >= 6


def test_advantages_are_of_one_value_function_though_there_was_teaching_in_between(corridor, guide):
    settings = Augmentation(guide, teach_every=40, teach_updates=20)
    model = augment(PPO)("MlpPolicy", corridor(), n_steps=128, augmentation=settings, seed=0, device="cpu")
    kept = {}

    def train():
        buffer = model.rollout_buffer
        with torch.no_grad():
            present = model.policy.predict_values(torch.as_tensor(buffer.observations[:, 0]))
            last = model.policy.predict_values(torch.as_tensor(model._last_obs))
        kept["values"], kept["present"] = buffer.values[:, 0].copy(), present.numpy().ravel()
        advantages = buffer.advantages.copy()
        buffer.compute_returns_and_advantage(last, model._last_episode_starts)
        kept["advantages"] = advantages, buffer.advantages.copy()

    model.train = train
    model.learn(128)
    assert model._polaug.taught
    np.testing.assert_allclose(kept["values"], kept["present"], atol=1e-5)
    np.testing.assert_allclose(*kept["advantages"], atol=1e-5)


def test_advantages_end_where_the_driver_changes_within_an_episode(guide, monkeypatch):
    """An episode of more than SEGMENT steps has several drivers; each one's steps say nothing about another's."""

    class Endless(gym.Env):
        observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (1,)), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return self.np_random.uniform(-1, 1, 1).astype(np.float32), float(self.np_random.normal()), False, False, {}

    monkeypatch.setattr(coach, "SEGMENT", 7)
    settings = Augmentation(guide, teach_every=10**6)
    env = DummyVecEnv([Endless, Endless])
    model = augment(PPO)("MlpPolicy", env, n_steps=64, gamma=0.9, gae_lambda=0.8, augmentation=settings, **small())
    seen = []
    model.train = lambda: seen.append(model.rollout_buffer.advantages.copy())
    model.learn(128)
    buffer, ((advantages,)) = model.rollout_buffer, seen
    with torch.no_grad():
        last = model.policy.predict_values(torch.as_tensor(model._last_obs)).numpy().ravel()
    values = np.vstack([buffer.values, last])
    assert (buffer.driven[1:] != buffer.driven[:-1]).sum() > 2
    for env_ in range(2):
        ahead = 0.0
        for t in range(63, -1, -1):
            if t < 63 and buffer.driven[t + 1, env_] != buffer.driven[t, env_]:
                ahead = 0.0
            error = buffer.rewards[t, env_] + 0.9 * values[t + 1, env_] - values[t, env_]
            ahead = error + 0.9 * 0.8 * ahead
            assert advantages[t, env_] == pytest.approx(ahead, abs=1e-4)
