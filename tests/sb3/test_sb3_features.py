"""Callbacks, Monitor, loggers, the progress bar, learning again, and faults."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import (
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from polaug.config import Augmentation
from polaug.errors import ExplorerError, InvalidInputError
from polaug.sb3 import augment


def small():
    return {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}  # fresh: SB3 changes policy_kwargs


def build(cls, env, guide, **options):
    extra = {"n_steps": 64} if cls is PPO else {"buffer_size": 2000}
    return augment(cls)("MlpPolicy", env, augmentation=Augmentation(guide), **small(), **extra, **options)


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_callbacks_and_monitor_work_unchanged(cls, corridor, guide, tmp_path):
    env = Monitor(corridor(), str(tmp_path / "m"))
    model = build(cls, env, guide)
    calls = []
    evaluation = EvalCallback(Monitor(corridor()), eval_freq=100, best_model_save_path=str(tmp_path), verbose=0)
    saving = CheckpointCallback(100, str(tmp_path), name_prefix="part")
    model.learn(300, callback=[evaluation, saving, lambda locals_, globals_: calls.append(locals_["self"]) or True])
    assert len(calls) == model.num_timesteps
    assert (tmp_path / "part_100_steps.zip").exists()
    assert evaluation.best_mean_reward > 0.8  # once it was taught; −0.25 is the worst
    env.close()
    assert len((tmp_path / "m.monitor.csv").read_text().splitlines()) >= 10
    augment(cls).load(tmp_path / "part_200_steps.zip", env=corridor(), augmentation=Augmentation(guide)).learn(64)


def test_a_callback_can_stop_training(corridor, guide):
    model = build(PPO, corridor(), guide)
    model.learn(10_000, callback=CallbackList([StopTrainingOnMaxEpisodes(5)]))
    assert model.num_timesteps < 150


def test_learning_again_goes_on(corridor, guide):
    model = build(PPO, corridor(), guide).learn(128)
    model.learn(128, reset_num_timesteps=False)
    assert model.num_timesteps == model._polaug.coach.steps == 256
    model.learn(64)
    assert model.num_timesteps == 64
    model._polaug.coach.catch_up()
    assert model._polaug.explorer.steps == 320


def test_the_log_says_who_acts_and_what_is_taught(corridor, guide, tmp_path):
    model = build(PPO, corridor(), guide)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(600)
    model.logger.close()
    header = (tmp_path / "progress.csv").read_text()
    for name in (
        "p_guide",
        "guide_share",
        "target_share",
        "guide_drives",
        "guide_return",
        "agent_return",
        "noisy_return",
        "guide_steps",
        "teaching",
        "teaching_loss",
        "teaching_updates",
        "teaching_disagreement",
        "teaching_q_mean",
        "teaching_q_spread",
        "teaching_q_gap",
    ):
        assert f"augmentation/{name}" in header


@pytest.mark.filterwarnings("ignore:rich is experimental")  # SB3's own choice of progress bar
def test_tensorboard_and_progress_bar(corridor, guide, tmp_path):
    model = build(PPO, corridor(), guide, tensorboard_log=str(tmp_path))
    model.learn(128, progress_bar=True)
    assert list(tmp_path.rglob("events*"))


def test_an_explorer_that_raises_leaves_the_agent_usable(corridor, guide, tmp_path):
    settings = Augmentation(guide, explorer_options={"break_at": 50})
    for cls in (PPO, DQN):
        extra = {"n_steps": 64} if cls is PPO else {"buffer_size": 2000}
        model = augment(cls)("MlpPolicy", corridor(), augmentation=settings, **small(), **extra)
        with pytest.raises(ExplorerError, match="observe failed with ZeroDivisionError: bad explorer"):
            model.learn(200)
        model.save(tmp_path / "a")
        plain = cls.load(tmp_path / "a", env=corridor())
        plain.learn(64)
        assert "forward" not in vars(model.policy)


class Sick(gym.Wrapper):
    """Sends NaN once, as its hundredth reward or observation."""

    def __init__(self, env, part):
        super().__init__(env)
        self.part, self.count = part, 0

    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        self.count += 1
        if self.count == 100:
            obs, reward = (obs, np.nan) if self.part == "rewards" else (obs * [1.0, np.nan], reward)
        return np.asarray(obs, np.float32), reward, *rest


@pytest.mark.parametrize("part", ["rewards", "observations"])
@pytest.mark.parametrize("tau_e", [0, 1000])
def test_nan_is_told_at_once_with_its_environment_and_nothing_is_lost(part, tau_e, corridor, guide):
    env = DummyVecEnv([corridor, lambda: Sick(corridor(), part)])
    settings = Augmentation(guide, tau_e=tau_e, teach_every=10**6)
    model = augment(PPO)("MlpPolicy", env, n_steps=512, augmentation=settings, **small())
    with pytest.raises(InvalidInputError, match=f"{part}: environment 1.* must be finite, got nan"):
        model.learn(2000)
    bridge = model._polaug
    assert env.envs[1].count == 100
    assert bridge.explorer.steps + 2 * len(bridge.coach._queue) == bridge.coach.steps == 2 * 99


def test_missing_readings_are_left_to_features_that_know_them(corridor, guide):
    settings = Augmentation(guide, explorer_options={"features": np.nan_to_num}, teach_every=10**6)
    agent = augment(DQN)(
        "MlpPolicy", Sick(corridor(), "observations"), learning_starts=500, augmentation=settings, **small()
    )
    agent.learn(200)
    assert agent.explorer.steps + len(agent._polaug.coach._queue) == 200


def test_what_a_failing_explorer_has_not_taken_in_stays_in_the_queue(corridor, guide):
    settings = Augmentation(guide, explorer_options={"break_at": 250}, tau_e=0)
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, **small())
    with pytest.raises(ExplorerError, match="bad explorer"):
        model.learn(1000)
    assert model.explorer.steps == 250
    assert len(model._polaug.coach._queue) == 250  # five hundred are shown at a time
    model.explorer._break_at = None  # mended
    model._polaug.coach.catch_up()
    assert model.explorer.steps == 500


def test_learning_anew_ends_the_episodes_under_way(corridor, guide):
    class Following(guide):
        resets = 0

        def reset(self):
            self.resets += 1

    model = build(DQN, corridor(), Following)
    model.learn(50)
    explorer = model._polaug.explorer
    started = explorer.resets
    assert started > 0  # environments start
    model.learn(50, reset_num_timesteps=False)
    assert explorer.resets == started  # and go on
    model.learn(50)
    assert explorer.resets == started + 1


def test_an_environment_that_raises_leaves_the_agent_saveable(corridor, guide, tmp_path):
    model = build(PPO, corridor(fail_at=100), guide)
    with pytest.raises(OSError, match="simulator died"):
        model.learn(200)
    model.save(tmp_path / "a")
    again = augment(PPO).load(tmp_path / "a", env=corridor(), augmentation=Augmentation(guide))
    again.learn(64, reset_num_timesteps=False)
    assert again._polaug.coach.steps == 99 + 64


@pytest.mark.parametrize("seed", [0, 1])
def test_a_guide_worse_than_the_agent_has_its_trials_and_teaches_nothing(seed, guide):
    """Always left: the pole falls sooner than under an agent that knows nothing, but tries both."""
    settings = Augmentation(guide, explorer_options={"wrong": True})
    options = small() | {"n_steps": 64, "seed": seed}
    model = augment(PPO)("MlpPolicy", "CartPole-v1", augmentation=settings, **options).learn(1000)
    coach = model._polaug.coach
    before = coach.guide_steps
    model.learn(3000, reset_num_timesteps=False)
    assert 0 < coach.guide_steps - before < 0.12 * 3000
    assert coach.decision.teaching == 0


class Endless(gym.Env):
    """Neither the task nor anybody else ends an episode."""

    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), False, False, {}


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_the_wheel_changes_hands_in_an_environment_whose_episodes_never_end(cls, guide):
    actors = []

    def see(locals_, globals_):
        coach = locals_["self"]._polaug.coach
        actors.append((bool(coach.drivers[0]), bool(coach.evaluating[0])))
        assert "actor" not in locals_["infos"][0]  # no episode is over
        return True

    model = build(cls, Endless(), guide).learn(3200, callback=see)
    assert set(actors) >= {(True, False), (False, True)}
    assert model._polaug.coach.guide_steps < 3200
    # With τ_e the explorer goes as well, at the end of its spell.
    fixed = Augmentation(guide, tau_e=500)
    model = augment(DQN)("MlpPolicy", Endless(), augmentation=fixed, **small()).learn(1200)
    assert model._polaug.coach.guide_steps == 1000


def test_discrete_observations(guide):
    model = build(PPO, gym.make("FrozenLake-v1", is_slippery=False), guide).learn(128)
    assert model._polaug.explorer.seen[0].flat.shape == (1, 1)
    assert np.isfinite(model._polaug.coach.records.mean("guide"))


class Far(gym.Env):
    """The ninth observation is further away than a 32-bit float can say."""

    observation_space, action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        return self.np_random.normal(size=2) * (1e60 if self.t == 9 else 1.0), 1.0, False, self.t >= 20, {}


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_numbers_beyond_32_bit_floats_are_refused_with_a_remedy_that_works(cls, guide):
    """SB3's networks turn them into infinity, and their weights into NaN."""
    with pytest.raises(InvalidInputError, match=r"observations: .*at most 3.4e\+38.*wrappers.TransformObservation"):
        build(cls, Far(), guide).learn(200)
    near = gym.wrappers.TransformObservation(Far(), lambda seen: np.clip(seen, -10, 10), Far.observation_space)
    for env in (near, VecNormalize(DummyVecEnv([Far]))):
        model = build(cls, env, guide).learn(200)
        assert all(parameter.isfinite().all() for parameter in model.policy.parameters())
