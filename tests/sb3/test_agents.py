"""Every supported agent learns from an explorer; the plain agent is untouched; the rest is refused clearly."""

import inspect
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN, TQC, TRPO, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecMonitor, VecNormalize

from polaug.config import Augmentation
from polaug.errors import InvalidInputError, UnknownNameError, UnsupportedSpaceError
from polaug.explorers.random import RandomExplorer
from polaug.sb3 import augment


def small():
    return {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}  # fresh: SB3 changes policy_kwargs


CELLS = [(PPO, False, {"n_steps": 64}), (A2C, False, {}), (TRPO, False, {"n_steps": 64, "batch_size": 64}),
         (DQN, False, {"buffer_size": 5000}), (QRDQN, False, {"buffer_size": 5000}), (PPO, True, {"n_steps": 64}),
         (SAC, True, {"buffer_size": 5000}), (TD3, True, {"buffer_size": 5000}), (DDPG, True, {"buffer_size": 5000}),
         (TQC, True, {"buffer_size": 5000, "train_freq": 4})]  # fmt: skip
IDS = [f"{cls.__name__}-{'box' if box else 'discrete'}" for cls, box, _ in CELLS]


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.policy.parameters()])


@pytest.mark.parametrize(("cls", "continuous", "options"), CELLS, ids=IDS)
def test_every_agent_is_taught(cls, continuous, options, corridor, guide):
    # The explorer walks to the goal at once; an untaught agent would need thousands of steps.
    settings = Augmentation(explorer=guide, teach_every=50)
    model = augment(cls)("MlpPolicy", corridor(continuous), augmentation=settings, **small(), **options)
    assert isinstance(model, cls)
    model.learn(500)
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=3)
    assert mean > 0.8


_SDE = {"n_steps": 64, "batch_size": 16, "use_sde": True}
OTHERS = {"PPO-sde": (PPO, _SDE), "PPO-squashed": (PPO, _SDE | {"policy_kwargs": {"squash_output": True}}),
          "SAC-sde": (SAC, {"use_sde": True}),
          "TD3-episodes": (TD3, {"train_freq": (1, "episode"), "gradient_steps": -1})}  # fmt: skip


@pytest.mark.parametrize(("cls", "options"), OTHERS.values(), ids=OTHERS)
def test_agents_that_explore_by_their_state_or_train_after_episodes_are_taught(cls, options, corridor, guide):
    settings = Augmentation(explorer=guide, teach_every=50)
    model = augment(cls)("MlpPolicy", corridor(True), augmentation=settings, **small() | options).learn(600)
    assert evaluate_policy(model, model.get_env(), n_eval_episodes=3)[0] > 0.8
    assert model._n_updates > 0
    if cls is PPO:
        assert np.isfinite(model.rollout_buffer.log_probs).all()


def test_environments_in_other_processes_are_the_same_environments(guide):
    settings = Augmentation(explorer=guide, teach_every=50)
    here, there = (vectorized([lambda: gym.make("CartPole-v1")] * 2) for vectorized in (DummyVecEnv, SubprocVecEnv))
    try:
        for cls, options in ((PPO, {"n_steps": 64}), (DQN, {"learning_starts": 50})):
            near, far = (augment(cls)("MlpPolicy", env, augmentation=settings, **small(), **options).learn(256)
                         for env in (here, there))  # fmt: skip
            assert 0 < far._polaug.coach.guide_steps == near._polaug.coach.guide_steps
            assert torch.equal(parameters(far), parameters(near))
    finally:
        there.close()


@pytest.mark.parametrize(("cls", "env", "options"), [
    (PPO, "CartPole-v1", {"n_steps": 64}), (A2C, "CartPole-v1", {}), (DQN, "CartPole-v1", {}), (SAC, "Pendulum-v1", {}),
])  # fmt: skip
def test_without_augmentation_it_is_the_plain_agent_to_the_bit(cls, env, options):
    plain = cls("MlpPolicy", env, **small(), **options).learn(300)
    other = augment(cls)("MlpPolicy", env, augmentation=None, **small(), **options).learn(300)
    assert torch.equal(parameters(plain), parameters(other))
    assert plain.num_timesteps == other.num_timesteps


def test_an_agent_that_drives_alone_is_the_plain_agent_to_the_bit():
    """tau_e=0 never lets the explorer act, and hooks that only watch change nothing."""
    options = {"n_steps": 64, **small()}
    plain = PPO("MlpPolicy", "CartPole-v1", **options).learn(300)
    watched = augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=Augmentation("random", tau_e=0), **options).learn(
        300
    )
    assert torch.equal(parameters(plain), parameters(watched))


def test_the_explorer_is_public_and_read_only(tmp_path):
    model = augment(DQN)("MlpPolicy", "CartPole-v1", augmentation=Augmentation("random"), **small())
    assert isinstance(model.explorer, RandomExplorer)
    with pytest.raises(AttributeError):
        model.explorer = None
    model.save(tmp_path / "agent")
    assert isinstance(augment(DQN).load(tmp_path / "agent", env=gym.make("CartPole-v1")).explorer, RandomExplorer)
    assert augment(DQN).load(tmp_path / "agent").explorer is None  # it is built for an environment
    plain = augment(DQN)("MlpPolicy", "CartPole-v1", augmentation=None, **small())
    assert plain.explorer is None


def test_same_seed_repeats_and_another_differs():
    def run(seed):
        model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, seed=seed, device="cpu",
                             augmentation=Augmentation("random"))  # fmt: skip
        return parameters(model.learn(300))

    assert torch.equal(run(3), run(3))
    assert not torch.equal(run(3), run(4))


def test_agents_without_a_seed_have_explorers_that_differ():
    def actions(model):
        return model.explorer.act(np.zeros((64, 4)))

    unseeded = small() | {"seed": None}
    first, second = (augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=Augmentation("random"), **unseeded)
                     for _ in range(2))  # fmt: skip
    assert not np.array_equal(actions(first), actions(second))
    zero = augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=Augmentation("random"), **small())
    given = augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=Augmentation("random", seed=0), **unseeded)
    assert np.array_equal(actions(zero), actions(given))


def test_the_class_is_cached_and_its_signature_is_the_parents_plus_one():
    assert augment(PPO) is augment(PPO)
    assert augment(augment(PPO)) is augment(PPO)
    assert augment(PPO).__name__ == "AugmentedPPO"
    names, parents = list(inspect.signature(augment(DQN)).parameters), list(inspect.signature(DQN).parameters)
    assert names == [*parents, "augmentation"]


def test_recurrent_agents_and_on_policy_ones_of_sbx_are_refused_by_name():
    with pytest.raises(InvalidInputError, match=r"recurrent agents cannot be augmented, got 'RecurrentPPO'"):
        augment(RecurrentPPO)
    foreign = type("PPO", (PPO,), {"__module__": "sbx.ppo.ppo"})  # sbx needs JAX; its agents derive from SB3's bases
    with pytest.raises(InvalidInputError, match=r"of SBX.*, got 'sbx.PPO'. Pass stable_baselines3.PPO"):
        augment(foreign)


def test_what_is_no_agent_is_refused():
    with pytest.raises(InvalidInputError, match="Stable-Baselines3"):
        augment(dict)


def test_bad_settings_are_refused_before_training(corridor):
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        augment(PPO)("MlpPolicy", corridor(), augmentation=Augmentation("randon"))
    with pytest.raises(UnknownNameError, match="kickstart"):
        augment(PPO)("MlpPolicy", corridor(), augmentation=Augmentation("random", transfer="kickstrat"))
    with pytest.raises(InvalidInputError, match="PPO, A2C and TRPO can be taught by"):
        augment(PPO)("MlpPolicy", corridor(), augmentation=Augmentation("random", transfer="distil"))
    with pytest.raises(InvalidInputError, match="augmentation: must be"):
        augment(PPO)("MlpPolicy", corridor(), augmentation=3)
    with pytest.raises(InvalidInputError, match=r"polaug\.Explorer"):
        augment(PPO)("MlpPolicy", corridor(), augmentation=Augmentation(explorer=lambda *a, **k: 3))


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_wrappers_that_change_observations_belong_below_the_normalisation(cls, corridor, guide):
    settings = Augmentation(guide)
    options = {"n_steps": 64} if cls is PPO else {"buffer_size": 500}

    def bare():
        return DummyVecEnv([corridor])

    wrong = VecFrameStack(VecNormalize(bare()), 2)
    with pytest.raises(UnsupportedSpaceError, match=r"VecFrameStack.*Put VecNormalize outermost"):
        augment(cls)("MlpPolicy", VecMonitor(wrong), augmentation=settings, **small(), **options)
    right = VecNormalize(VecFrameStack(bare(), 2))
    model = augment(cls)("MlpPolicy", VecMonitor(right), augmentation=settings, **small(), **options).learn(100)
    with pytest.raises(UnsupportedSpaceError, match="VecNormalize outermost"):
        model.set_env(wrong)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)])
def test_other_discrete_action_spaces(space, corridor, guide):
    settings = Augmentation(explorer=guide, teach_every=50)
    model = augment(PPO)("MlpPolicy", corridor(space=space), n_steps=64, augmentation=settings, **small()).learn(500)
    assert evaluate_policy(model, model.get_env(), n_eval_episodes=2)[0] > 0.8


FIXED = spaces.Box(np.array([[-2.0, 0.0], [1.0, -1.0]], np.float32), np.array([[2.0, 0.0], [3.0, 1.0]], np.float32))


@pytest.mark.parametrize("transfer", ["kickstart", "balance"])
@pytest.mark.parametrize(("cls", "options"), [(c, o) for c, box, o in CELLS if c in (PPO, A2C, TRPO) and not box])
def test_actions_of_several_axes_one_of_them_without_a_choice(cls, options, transfer, corridor, guide):
    settings = Augmentation(explorer=guide, teach_every=50, transfer=transfer)
    model = augment(cls)("MlpPolicy", corridor(space=FIXED), augmentation=settings, **small(), **options).learn(200)
    assert torch.isfinite(parameters(model)).all()
    assert np.isfinite(list(model._polaug.coach.statistics().values())).all()
    if transfer == "kickstart":
        model.learn(300, reset_num_timesteps=False)
        assert evaluate_policy(model, model.get_env(), n_eval_episodes=3)[0] > 0.8
    action, _ = model.predict(np.array([1.0, 0.0], np.float32), deterministic=True)
    assert FIXED.contains(action)


@pytest.mark.parametrize("cls", [SAC, TD3])
def test_off_policy_actions_of_several_axes(cls, corridor, guide):
    space = spaces.Box(-2.0, 2.0, (2, 2))
    settings = Augmentation(explorer=guide, teach_every=50)
    model = augment(cls)("MlpPolicy", corridor(space=space), augmentation=settings, **small()).learn(300)
    assert evaluate_policy(model, model.get_env(), n_eval_episodes=3)[0] > 0.8


def test_value_based_agents_get_n_step_returns_unless_told_otherwise(corridor, guide, tmp_path):
    settings = Augmentation(explorer=guide)
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, buffer_size=1000, **small())
    assert (model.n_steps, model.replay_buffer.n_steps) == (5, 5)
    told = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, buffer_size=1000, n_steps=1, **small())
    assert told.n_steps == 1
    model.save(tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = augment(DQN).load(tmp_path / "a", env=corridor(), augmentation=settings)
    assert type(again.replay_buffer) is type(model.replay_buffer)
    assert again.replay_buffer.n_steps == 5


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_whole_numbers_as_observations_are_taught_from(cls):
    class Counter(gym.Env):
        observation_space = gym.spaces.MultiDiscrete([30, 4])
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.array([0, 0]), {}

        def step(self, action):
            self.t += 1
            return np.array([self.t % 30, self.t % 4]), float(action), self.t >= 20, False, {}

    options = small() | ({"n_steps": 64, "batch_size": 32} if cls is PPO else {})
    model = augment(cls)("MlpPolicy", Counter(), **options)
    model.learn(600)
    assert model._polaug.coach.statistics()["teaching_updates"] > 0


def test_teaching_an_actor_leaves_what_its_critics_say_as_it_was(corridor, guide):
    model = augment(SAC)("MlpPolicy", corridor(True), augmentation=Augmentation(explorer=guide), **small())
    model.learn(150)
    states, actions = torch.rand(50, 2) * 10, torch.rand(50, 1) * 2 - 1

    def outputs():
        with torch.no_grad():
            return [*model.critic_target(states, actions), *model.critic(states, actions)], model.actor(states, True)

    before, actor = outputs()
    assert model._polaug.coach.transfer.teach(1.0)
    after, taught = outputs()
    torch.testing.assert_close(after, before, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(actor, taught, atol=0.01)


@pytest.mark.parametrize(("cls", "space", "zero"), [
    (PPO, spaces.Discrete(2, start=1), spaces.Discrete(2)), (DQN, spaces.Discrete(2, start=-1), spaces.Discrete(2)),
    (PPO, spaces.MultiDiscrete([2, 3], start=[0, 1]), spaces.MultiDiscrete([2, 3])),
])  # fmt: skip
def test_actions_that_do_not_count_from_zero_are_refused(cls, space, zero, corridor, guide):
    env = corridor(space=space)
    with pytest.raises(UnsupportedSpaceError, match=r"action_space: actions must start at 0.*TransformAction"):
        augment(cls)("MlpPolicy", env, augmentation=Augmentation(guide), **small())
    remedy = gym.wrappers.TransformAction(env, lambda action: action + space.start, zero)
    augment(cls)("MlpPolicy", remedy, augmentation=Augmentation(guide), **small()).learn(64)


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_an_agent_that_comes_with_experience_is_not_ruined(cls, corridor, guide, tmp_path):
    options = {"n_steps": 128} if cls is PPO else {"learning_starts": 50}
    plain = cls("MlpPolicy", corridor(), seed=0, device="cpu", **options)
    with torch.no_grad():  # it always walks right
        head = plain.policy.action_net if cls is PPO else plain.q_net.q_net[-1]
        head.weight.zero_()
        head.bias.copy_(torch.tensor([-5.0, 5.0]))
    plain.num_timesteps = 10_000
    plain.save(tmp_path / "good")
    settings = Augmentation(guide, explorer_options={"wrong": True}, teach_every=25)
    model = augment(cls).load(tmp_path / "good", env=corridor(), augmentation=settings, learning_rate=0.0)
    model.learn(300, reset_num_timesteps=False)
    obs = np.array([[at, 0.2] for at in range(10)], np.float32)
    assert (model.predict(obs, deterministic=True)[0] == 1).all()
    assert model._polaug.coach.guide_steps > 0  # it had its turn, later
    assert not model._polaug.taught


def test_a_long_warm_up_is_the_explorers_only_while_it_is_trusted(corridor, guide):
    settings = Augmentation(guide, explorer_options={"wrong": True})
    model = augment(DQN)("MlpPolicy", corridor(), learning_starts=2_000, augmentation=settings, seed=0, device="cpu")
    model.learn(1_500)
    assert model._polaug.coach.guide_steps < 750


def test_images_need_no_features_and_which_transfers_suit_is_said(corridor):
    space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    env = gym.wrappers.TransformObservation(corridor(), lambda obs: np.zeros(space.shape, np.uint8), space)
    model = augment(PPO)("CnnPolicy", env, n_steps=32, batch_size=32, device="cpu", seed=0).learn(64)
    assert model._polaug.explorer.steps == 64
    for cls, wrong, suits in ((PPO, "distil", "kickstart"), (DQN, "kickstart", "distil")):
        with pytest.raises(InvalidInputError, match=f"can be taught by .*{suits}.*, got '{wrong}'"):
            augment(cls)("MlpPolicy", corridor(), augmentation=Augmentation(transfer=wrong), device="cpu")


def test_settings_of_the_augmentation_are_not_parameters_of_the_agent():
    with pytest.raises(InvalidInputError, match=r'guide: is a setting of the augmentation.*augmentation=\{"guide"'):
        augment(PPO)("MlpPolicy", "CartPole-v1", guide="model")


def test_the_explorer_has_learnt_every_step_when_learn_returns():
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, seed=0)
    model.learn(640)
    assert model.explorer.steps == model.num_timesteps
