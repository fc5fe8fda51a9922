"""What polaug hooks of Stable-Baselines3, by name, and what users see of it: logs, episodes, masks, file sizes."""

import ast
import inspect
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import CrossQ, MaskablePPO
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common import base_class, buffers, callbacks, off_policy_algorithm, on_policy_algorithm, policies
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from polaug.config import Augmentation
from polaug.errors import PolaugError
from polaug.sb3 import augment

HOOKED = {
    base_class.BaseAlgorithm: ["_setup_model", "_setup_learn", "_init_callback", "_update_info_buffer",
                               "_excluded_save_params"],
    on_policy_algorithm.OnPolicyAlgorithm: ["_setup_model", "collect_rollouts"],
    off_policy_algorithm.OffPolicyAlgorithm: ["_setup_model", "_sample_action", "collect_rollouts"],
    policies.ActorCriticPolicy: ["forward", "evaluate_actions", "get_distribution", "predict_values"],
    policies.BasePolicy: ["_predict", "obs_to_tensor", "set_training_mode"],
    buffers.RolloutBuffer: ["_get_samples", "get", "add", "reset", "compute_returns_and_advantage"],
    buffers.NStepReplayBuffer: ["_get_samples"],
    callbacks.BaseCallback: ["_on_step", "_on_training_start", "_on_training_end"],
}  # fmt: skip


@pytest.mark.parametrize("owner", HOOKED, ids=lambda owner: owner.__name__)
def test_what_is_hooked_is_there(owner):
    for name in HOOKED[owner]:
        assert callable(getattr(owner, name)), f"{owner.__name__}.{name} is gone: find what took its place"


READ_ATTRIBUTES = {"_last_obs"}


def test_nothing_else_that_is_private_to_sb3_is_used():
    modules = {inspect.getmodule(owner) for owner in HOOKED} | {inspect.getmodule(VecNormalize)}
    theirs = set(re.findall(r"(?:def |self\.)(_[a-z]\w+)", "".join(map(inspect.getsource, modules))))
    files = Path(inspect.getfile(augment)).parent.glob("*.py")
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert used & theirs <= {name for names in HOOKED.values() for name in names} | READ_ATTRIBUTES
    assert used >= READ_ATTRIBUTES


READ = ["new_obs", "rewards", "dones", "infos"]


@pytest.mark.parametrize(("method", "names"), [
    (on_policy_algorithm.OnPolicyAlgorithm.collect_rollouts, ["clipped_actions", *READ]),
    (off_policy_algorithm.OffPolicyAlgorithm.collect_rollouts, ["actions", *READ]),
])  # fmt: skip
def test_collection_loops_still_have_the_local_variables_that_the_callback_reads(method, names):
    assert set(names) <= set(method.__code__.co_varnames)


def test_collection_loops_still_call_what_is_replaced():
    on_policy = inspect.getsource(on_policy_algorithm.OnPolicyAlgorithm.collect_rollouts)
    assert "self.policy(obs_tensor)" in on_policy  # the forward pass
    off_policy = inspect.getsource(off_policy_algorithm.OffPolicyAlgorithm.collect_rollouts)
    assert "self._sample_action(" in off_policy
    for source in (on_policy, off_policy):
        assert "self._update_info_buffer(infos" in source


@pytest.mark.parametrize("attribute", ["old_reward", "ret_rms", "returns", "gamma", "venv", "get_original_obs"])
def test_vecnormalize_still_has_what_bonuses_are_paid_by(attribute, corridor):
    assert hasattr(VecNormalize(DummyVecEnv([corridor])), attribute)


# -- logs --------------------


@pytest.mark.parametrize("cls", [A2C, DQN])
def test_mean_returns_are_the_agents_alone_and_the_guides_have_their_own(cls, corridor, guide, tmp_path):
    options = {} if cls is A2C else {"learning_starts": 10_000, "exploration_fraction": 1.0}
    settings = Augmentation(guide, teach_every=10**6)  # nobody learns: the guide's 0.9 against what chance gives
    model = augment(cls)(
        "MlpPolicy", corridor(), augmentation=settings, seed=0, device="cpu", learning_rate=0.0, **options
    )
    model.set_logger(configure(str(tmp_path), ["csv"]))
    seen = []

    def note(locals_, _):
        seen.extend((info["actor"], info["episode"]["r"]) for info in locals_["infos"] if "episode" in info)
        return True

    model.learn(2_000, callback=note, log_interval=1)
    for kind, buffer in (("agent", model.ep_info_buffer), ("explorer", model._guide_episodes)):
        expected = [total for actor, total in seen if actor == kind][-len(buffer) :]
        assert [episode["r"] for episode in buffer] == expected
        assert len(expected) > 3
    model.logger.close()
    header, *rows = (tmp_path / "progress.csv").read_text().splitlines()
    names = header.split(",")
    assert {"rollout/ep_rew_mean", "rollout/guide_ep_rew_mean"} <= set(names)
    assert float(rows[-1].split(",")[names.index("rollout/guide_ep_rew_mean")]) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(("given", "folder"), [({}, "DQN_PA_1"), ({"tb_log_name": "mine"}, "mine_1")])
def test_folders_of_logs_say_that_the_agent_is_augmented(given, folder, corridor, guide, tmp_path):
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide), tensorboard_log=str(tmp_path))
    model.learn(30, **given)
    assert [path.name for path in tmp_path.iterdir()] == [folder]
    plain = augment(DQN)("MlpPolicy", corridor(), augmentation=None, tensorboard_log=str(tmp_path / "plain"))
    plain.learn(30)
    assert [path.name for path in (tmp_path / "plain").iterdir()] == ["DQN_1"]


def test_an_augmentation_that_saw_no_step_is_an_error(corridor, guide, tmp_path):
    class Own(PPO):
        """An agent with a loop of its own, which calls nobody's callback."""

        def collect_rollouts(self, env, callback, rollout_buffer, n_rollout_steps):
            self.num_timesteps += n_rollout_steps
            rollout_buffer.reset()
            return True

        def train(self):
            pass

    model = augment(Own)("MlpPolicy", corridor(), n_steps=64, augmentation=Augmentation(guide))
    with pytest.raises(PolaugError, match="augmentation: the coach saw no step of this training"):
        model.learn(64)


# -- what acts -------------------


class Coin(gym.Env):
    """Guess the coin that is tossed after the guess; 50 steps."""

    observation_space, action_space = spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        right = int(action) == int(self.np_random.integers(2))
        return np.zeros(1, np.float32), float(right), False, self.t >= 50, {}


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_an_explorer_does_not_know_the_environments_random_numbers(cls):
    """With one seed for both, `default_rng(seed)` would guess every toss."""
    rates = []
    for seed in range(5):
        options = {"n_steps": 64} if cls is PPO else {}
        settings = Augmentation("random", tau_e=10**6)
        model = augment(cls)("MlpPolicy", Coin(), augmentation=settings, seed=seed, device="cpu", **options).learn(200)
        rates.append(np.mean([episode["r"] for episode in model._guide_episodes]) / 50)
    assert 0.4 < np.mean(rates) < 0.6
    assert max(rates) < 0.75


class Masked(gym.Env):
    """Walk right; of five actions only two are allowed, which ones depends on the cell."""

    observation_space, action_space = spaces.Box(-1.0, 11.0, (1,), np.float32), spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = 0, 0
        return np.zeros(1, np.float32), {}

    def action_masks(self):
        mask = np.zeros(5, bool)
        mask[[self.at % 5, (self.at + 1) % 5]] = True
        return mask

    def step(self, action):
        assert self.action_masks()[action], f"action {action} is forbidden in cell {self.at}"
        self.t += 1
        self.at = max(self.at + (1 if action == (self.at + 1) % 5 else -1), 0)
        return np.array([self.at], np.float32), float(self.at >= 10) - 0.01, self.at >= 10, self.t >= 40, {}


@pytest.mark.parametrize("guide_of", ["random", "function"])
def test_maskable_agents_are_taught_and_a_forbidden_action_is_never_chosen(guide_of, tmp_path):
    given = "random" if guide_of == "random" else (lambda observations: (observations[:, 0].astype(int) + 1) % 5)
    settings = Augmentation(given, teach_every=50)
    model = augment(MaskablePPO)("MlpPolicy", Masked(), n_steps=64, augmentation=settings, seed=0, device="cpu",
                                 policy_kwargs={"net_arch": [32]}).learn(1200)  # fmt: skip
    assert model._polaug.coach.guide_steps > 100
    if guide_of == "function":
        env, total = Masked(), 0
        observation, _ = env.reset()
        for _ in range(10):
            action, _ = model.predict(observation, deterministic=True, action_masks=env.action_masks())
            observation, reward, *_ = env.step(int(action))
            total += reward
        assert total == pytest.approx(0.9)
    model.save(tmp_path / "agent")
    augment(MaskablePPO).load(tmp_path / "agent", env=Masked(), augmentation=settings).learn(64)


def test_log_probabilities_of_guided_steps_are_of_what_the_masks_leave():
    """One action of two is allowed, and the function takes it: far more probable than one of five."""
    settings = Augmentation(lambda observations: (observations[:, 0].astype(int) + 1) % 5, teach_every=10**6, tau_e=128)
    model = augment(MaskablePPO)("MlpPolicy", Masked(), n_steps=256, augmentation=settings, seed=0, device="cpu")
    stored = {}

    def train():
        buffer = model.rollout_buffer
        assert 0 < buffer.driven.sum() < 256
        with torch.no_grad():
            values, log_probs, _ = model.policy.evaluate_actions(
                torch.as_tensor(buffer.observations[:, 0]), torch.as_tensor(buffer.actions[:, 0, 0]).long(),
                action_masks=buffer.action_masks[:, 0],
            )  # fmt: skip
        stored["values"] = buffer.values[:, 0], values.numpy()[:, 0]
        stored["log_probs"] = buffer.log_probs[:, 0], log_probs.numpy()

    model.train = train
    model.learn(256)
    for name in ("values", "log_probs"):
        np.testing.assert_allclose(*stored[name], atol=1e-5)
    assert stored["log_probs"][0].mean() > np.log(0.4)


def test_crossq_is_taught(corridor, guide):
    model = augment(CrossQ)("MlpPolicy", corridor(continuous=True), augmentation=Augmentation(guide, teach_every=50),
                            seed=0, device="cpu", learning_starts=50, policy_kwargs={"net_arch": [32]})  # fmt: skip
    model.learn(500)
    assert model._polaug.coach.guide_steps > 0
    assert model._polaug.taught
    assert evaluate_policy(model, corridor(continuous=True), n_eval_episodes=2, warn=False)[0] > 0.8


# -- files --------------------


@pytest.mark.parametrize("cls", [PPO, DQN, SAC])
def test_the_coachs_part_of_a_file_is_small(cls, corridor, guide, tmp_path):
    """A guide without a memory: what is left is labels, states and their returns."""
    options = {"n_steps": 64} if cls is PPO else {"learning_starts": 10_000, "buffer_size": 5_000}
    model = augment(cls)(
        "MlpPolicy", corridor(cls is SAC), augmentation=Augmentation(guide), seed=0, device="cpu", **options
    )
    model._polaug.coach.guide._learn = lambda batch: None
    model.learn(4_000)
    model.save(tmp_path / "agent")
    cls("MlpPolicy", corridor(cls is SAC), **options).save(tmp_path / "plain")
    sizes = [(tmp_path / f"{name}.zip").stat().st_size for name in ("agent", "plain")]
    assert sizes[0] < sizes[1] + 600_000
