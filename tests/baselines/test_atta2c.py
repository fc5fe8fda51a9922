"""AttA2C's one step is that of its joint loss; its two variants differ in the reward and in nothing else."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env

import polaug
from polaug.baselines import AttA2C
from polaug.baselines.atta2c import FollowingBuffer
from polaug.baselines.attention import Attention, AttentionPolicy
from polaug.errors import InvalidInputError, UnsupportedSpaceError

torch.set_num_threads(1)


class Drift(gym.Env):
    """Eight steps, the last one a termination or a time limit in turn; any action space, vectors or categories."""

    def __init__(self, action_space=None, observation_space=None):
        self.action_space = action_space or spaces.Discrete(3)
        self.observation_space = observation_space or spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.episode = 0

    def _see(self):
        if isinstance(self.observation_space, spaces.Discrete):
            return int(self.np_random.integers(self.observation_space.n))
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.episode = 0, self.episode + 1
        return self._see(), {}

    def step(self, action):
        self.t += 1
        last, odd = self.t == 8, self.episode % 2 == 1
        return self._see(), float(np.sum(action)), last and odd, last and not odd, {}


ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-2.0, 2.0, (2,), np.float32),
    "several": spaces.MultiDiscrete([2, 3]),
    "switches": spaces.MultiBinary(2),
}


def build(actions=None, observations=None, **options):
    env = make_vec_env(lambda: Drift(actions, observations), 2, seed=0)
    return AttA2C(env=env, **{"seed": 0, "device": "cpu", "features": 8, "n_steps": 20} | options)


def collect(model):
    _, callback = model._setup_learn(40, None)
    callback.on_training_start({}, {})
    assert model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    return model.rollout_buffer


def parameters(model):
    return {name: value.detach().clone() for name, value in model.policy.named_parameters()}


@pytest.mark.parametrize("curiosity", [False, True])
@pytest.mark.parametrize("actions", [ACTIONS["discrete"], ACTIONS["box"]], ids=["discrete", "box"])
def test_an_update_is_one_step_of_the_joint_loss(actions, curiosity):
    model = build(actions, curiosity=curiosity, eta=1.0, learning_rate=1e-2)
    buffer = collect(model)
    policy = copy.deepcopy(model.policy)
    obs, taken, after, advantages, returns = (
        torch.as_tensor(array.reshape(40, -1)).squeeze(-1)
        for array in (buffer.observations, buffer.actions, buffer.next_observations, buffer.advantages, buffer.returns)
    )
    discrete = isinstance(actions, spaces.Discrete)
    values, log_prob, entropy = policy.evaluate_actions(obs, taken.long() if discrete else taken)
    curious = policy.curiosity
    now, then = curious.encoder(obs), curious.encoder(after)
    if discrete:
        described = torch.nn.functional.one_hot(taken.long(), 3).float()
        inverse = torch.nn.functional.cross_entropy(curious.inverse_model(torch.cat([now, then], 1)), taken.long())
    else:
        described = taken.clamp(-2.0, 2.0) / 2.0
        inverse = (curious.inverse_model(torch.cat([now, then], 1)) - described).square().mean()
    forward = (curious.forward_model(torch.cat([now, described], 1)) - then).square().mean()
    loss = (
        -(advantages * log_prob).mean() + 0.5 * (returns - values.flatten()).square().mean() - 0.02 * entropy.mean()
        + forward + inverse
    )  # fmt: skip
    policy.optimizer.zero_grad()
    loss.backward()
    assert torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5) > 0.5  # the joint gradient is really clipped
    policy.optimizer.step()

    before = parameters(model)
    model.train()
    wanted = dict(policy.named_parameters())
    for name, value in parameters(model).items():
        torch.testing.assert_close(value, wanted[name].detach(), rtol=1e-4, atol=1e-6)
        assert not torch.equal(value, before[name]), f"{name} did not learn"


def test_where_steps_led_to_is_the_last_state_of_an_episode():
    buffer = collect(build())
    starts = buffer.episode_starts.astype(bool)
    same = (buffer.next_observations[:-1] == buffer.observations[1:]).all(axis=-1)
    assert starts[1:].sum() == 4
    assert np.array_equal(same, ~starts[1:])


def test_the_paper_s_variant_pays_the_forward_error_before_returns_are_computed():
    plain = build(eta=2.0)
    first = collect(plain)
    curious = build(curiosity=True, eta=2.0)
    second = collect(curious)
    assert np.array_equal(first.observations, second.observations)  # same seed, nothing learnt yet
    bonus = curious.intrinsic_rewards(
        *(array.reshape(40, -1) for array in (second.observations, second.actions, second.next_observations))
    ).reshape(20, 2)
    assert (bonus > 0.0).all()
    np.testing.assert_allclose(second.rewards - first.rewards, bonus, atol=1e-5)
    features = [
        curious.policy.curiosity.encoder(torch.as_tensor(a[0])) for a in (second.observations, second.next_observations)
    ]
    described = torch.nn.functional.one_hot(torch.as_tensor(second.actions[0, :, 0]).long(), 3).float()
    error = curious.policy.curiosity.forward_model(torch.cat([features[0], described], 1)) - features[1]
    np.testing.assert_allclose(bonus[0], (error.square().sum(1) * 0.5 * 2.0).detach(), rtol=1e-4)
    raw = [episode["r"] for episode in curious.ep_info_buffer]
    assert raw == [episode["r"] for episode in plain.ep_info_buffer]


def test_attention_is_x_times_softmax_of_wx_for_actor_and_critic_apart():
    attention, x = Attention(5), torch.randn(4, 5)
    actor, critic = attention(x)
    for got, layer in ((actor, attention.actor), (critic, attention.critic)):
        weights = torch.exp(x @ layer.weight.T + layer.bias)
        torch.testing.assert_close(got, x * weights / weights.sum(dim=1, keepdim=True))
    assert not torch.equal(actor, critic)


def test_defaults_are_the_authors():
    model = AttA2C(env="CartPole-v1", device="cpu")
    assert (model.learning_rate, model.n_steps, model.gamma, model.gae_lambda) == (1e-4, 5, 0.99, 1.0)
    assert (model.ent_coef, model.vf_coef, model.max_grad_norm, model.n_envs) == (0.02, 0.5, 0.5, 4)
    assert isinstance(model.policy.optimizer, torch.optim.Adam)
    assert model.policy.optimizer.defaults["eps"] == 1e-8
    assert isinstance(model, A2C)
    assert not model.curiosity
    shapes = [layer.weight.shape for layer in model.policy.curiosity.forward_model]
    assert shapes == [(57, 66), (64, 57)]  # 288 + |A| → 256 → 288, scaled to 64 features


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("observations", [None, spaces.Discrete(4)], ids=["vectors", "categories"])
def test_seeds_repeat_and_files_keep_everything(actions, observations, tmp_path):
    model = build(actions, observations, curiosity=True, n_steps=5).learn(100)
    again = build(actions, observations, curiosity=True, n_steps=5).learn(100)
    other = build(actions, observations, curiosity=True, n_steps=5, seed=1).learn(100)
    ours, same, different = parameters(model), parameters(again), parameters(other)
    assert all(torch.equal(ours[name], same[name]) for name in ours)
    assert not all(torch.equal(ours[name], different[name]) for name in ours)
    model.save(tmp_path / "model")
    loaded = AttA2C.load(tmp_path / "model", env=model.env, device="cpu")
    assert (loaded.curiosity, loaded.eta, loaded.n_steps) == (True, 0.01, 5)
    assert isinstance(loaded.rollout_buffer, FollowingBuffer)
    assert all(torch.equal(ours[name], value) for name, value in parameters(loaded).items())
    seen = model.env.reset()
    assert np.array_equal(model.predict(seen, deterministic=True)[0], loaded.predict(seen, deterministic=True)[0])
    loaded.learn(40, reset_num_timesteps=False)
    policy = AttentionPolicy.load(_saved(model.policy, tmp_path / "policy"), device="cpu")
    assert np.array_equal(model.predict(seen, deterministic=True)[0], policy.predict(seen, deterministic=True)[0])


def _saved(policy, path):
    policy.save(str(path))
    return str(path)


def test_user_callbacks_run_and_a_user_may_stop():
    seen = []
    build().learn(80, callback=lambda local, _: seen.append(local["rewards"].copy()) or len(seen) < 10)
    assert len(seen) == 10


def test_it_can_be_augmented():
    settings = polaug.Augmentation(explorer="counting")
    model = polaug.augment(AttA2C)(env=make_vec_env(Drift, 2), seed=0, device="cpu", augmentation=settings).learn(60)
    assert model.rollout_buffer.next_observations.shape == (10, 2)
    assert model._polaug.explorer.steps == 60


def test_bad_settings_are_refused():
    with pytest.raises(InvalidInputError, match="eta"):
        build(eta=-1.0)
    with pytest.raises(InvalidInputError, match="features"):
        build(features=0)
    with pytest.raises(UnsupportedSpaceError, match="FlattenObservation"):
        build(observations=spaces.Dict({"a": spaces.Discrete(2)}))
