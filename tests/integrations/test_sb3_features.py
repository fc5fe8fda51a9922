"""Callbacks, Monitor, loggers, the progress bar, learning again, and faults."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import (
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from polaug.config import Augmentation
from polaug.errors import ExplorerError, InvalidInputError
from polaug.integrations import augment
from polaug.integrations.handover import Handover


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
    assert model.num_timesteps == model._polaug.handover.steps == 256
    model.learn(64)
    assert model.num_timesteps == 64
    model._polaug.catch_up()
    assert model._polaug.explorer.steps == 320


def test_the_log_says_who_acts_and_what_is_taught(corridor, guide, tmp_path):
    model = build(PPO, corridor(), guide)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(600)
    model.logger.close()
    header = (tmp_path / "progress.csv").read_text()
    for name in (
        "explorer_share",
        "explorer_return",
        "agent_return",
        "teaching",
        "explorer_steps",
        "lesson_loss",
        "q_mean",
        "q_spread",
        "q_gap",
        "target_share",
    ):
        assert f"augment/{name}" in header


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
    companion = model._polaug
    assert env.envs[1].count == 100
    assert companion.explorer.steps + 2 * len(companion._queue) == companion.handover.steps == 2 * 99


def test_missing_readings_are_left_to_features_that_know_them(corridor, guide):
    settings = Augmentation(guide, explorer_options={"features": np.nan_to_num}, teach_every=10**6)
    agent = augment(DQN)(
        "MlpPolicy", Sick(corridor(), "observations"), learning_starts=500, augmentation=settings, **small()
    )
    agent.learn(200)
    assert agent.explorer.steps + len(agent._polaug._queue) == 200


def test_what_a_failing_explorer_has_not_taken_in_stays_in_the_queue(corridor, guide):
    settings = Augmentation(guide, explorer_options={"break_at": 250}, tau_e=0)
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, **small())
    with pytest.raises(ExplorerError, match="bad explorer"):
        model.learn(1000)
    assert model.explorer.steps == 250
    assert len(model._polaug._queue) == 250  # five hundred are shown at a time
    model.explorer._break_at = None  # mended
    model._polaug.catch_up()
    assert model.explorer.steps == 500


def test_learning_anew_ends_the_episodes_under_way(corridor, guide):
    class Following(guide):
        resets = 0

        def reset(self):
            self.resets += 1

    model = build(DQN, corridor(), Following)
    model.learn(50)
    explorer = model._polaug.explorer
    assert explorer.resets == 1  # environments start
    model.learn(50, reset_num_timesteps=False)
    assert explorer.resets == 1  # and go on
    model.learn(50)
    assert explorer.resets == 2


@pytest.mark.parametrize("share", [1.0, 0.0])
def test_learning_anew_glues_no_episodes_together(share, corridor):
    settings = Augmentation("committee", tau_e=int(share * 1000))
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, **small())
    for _ in range(3):
        model.learn(8)  # too few to reach the end
    model._polaug.catch_up()
    assert model.explorer._runs[0].length == 8
    assert model.explorer.steps == 24


def test_an_environment_that_raises_leaves_the_agent_saveable(corridor, guide, tmp_path):
    model = build(PPO, corridor(fail_at=100), guide)
    with pytest.raises(OSError, match="simulator died"):
        model.learn(200)
    model.save(tmp_path / "a")
    again = augment(PPO).load(tmp_path / "a", env=corridor(), augmentation=Augmentation(guide))
    again.learn(64, reset_num_timesteps=False)
    assert again._polaug.handover.steps == 99 + 64


def test_an_agent_better_than_its_explorer_keeps_the_wheel(corridor, guide):
    """The explorer walks the wrong way; it may cost its patience and rare trials, no more."""
    settings = Augmentation(guide, explorer_options={"wrong": True}, patience=200)
    model = augment(PPO)("MlpPolicy", corridor(), n_steps=64, augmentation=settings, **small()).learn(4096)
    assert model._polaug.handover.explorer_steps < 200 + 0.12 * 4096
    assert model._polaug.handover.teaching == 0


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
        handover = locals_["self"]._polaug.handover
        actors.append((bool(handover.drivers[0]), bool(handover.exams[0])))
        assert "actor" not in locals_["infos"][0]  # no episode is over
        return True

    model = build(cls, Endless(), guide).learn(3200, callback=see)
    assert set(actors) >= {(True, False), (False, True)}
    assert model._polaug.handover.explorer_steps < 3200
    # With τ_e the explorer goes as well, at the end of its spell.
    fixed = Augmentation(guide, tau_e=500)
    model = augment(DQN)("MlpPolicy", Endless(), augmentation=fixed, **small()).learn(1200)
    assert model._polaug.handover.explorer_steps == 1000


def test_discrete_observations(guide):
    model = build(PPO, gym.make("FrozenLake-v1", is_slippery=False), guide).learn(128)
    assert model._polaug.explorer.seen[0].flat.shape == (1, 1)
    assert np.isfinite(model._polaug.handover.explorer_return)


def test_a_ruined_agent_leaves_out_own_updates():
    model = augment(DQN)("MlpPolicy", "CartPole-v1", seed=0, learning_starts=10, device="cpu",
                         augmentation=Augmentation(tau_e=0))  # no exams, which might crown it again  # fmt: skip
    model.learn(110)
    every = model._n_updates
    model._polaug.champion._setbacks = 2
    model.learn(200, reset_num_timesteps=False)
    assert every == 26  # after each four steps from 12 to 112
    assert model._n_updates - every == pytest.approx(200 / 4 / 4, abs=1)


@pytest.mark.parametrize("anew", [False, True])
def test_who_starts_anew_explores_anew(anew, corridor, guide):
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide), seed=0, device="cpu",
                         exploration_fraction=0.2, learning_starts=20, policy_kwargs={"net_arch": [8]})  # fmt: skip
    rates = []

    def let_go_at_500(values, _):
        companion = values["self"]._polaug
        if anew and companion.handover.steps == 500:
            companion._anew_at = 500
        rates.append(values["self"].exploration_rate)
        return True

    model.learn(1000, callback=let_go_at_500)
    early, then = np.array(rates[1:200]), np.array(rates[501:700])
    assert early[0] > 0.9
    assert early[-1] < 0.1
    if anew:
        np.testing.assert_allclose(then, early, atol=0.02)
    assert rates[-1] == pytest.approx(0.05)
    assert anew or then.max() == pytest.approx(0.05)


def test_who_starts_anew_has_an_empty_buffer_and_waits_until_it_fills(corridor, guide, monkeypatch):
    options = {"learning_starts": 40, "policy_kwargs": {"net_arch": [8]}, "seed": 0, "device": "cpu"}
    model = augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide, teach_every=50), **options)

    def let_go(handover, taught_at):
        if handover.steps >= 200 and handover._champion.taught:
            handover._champion.let_go()

    monkeypatch.setattr(Handover, "let_go", let_go)
    monkeypatch.setattr(Handover, "teaching", property(lambda handover: float(handover.steps < 200)))
    seen = {}

    def look(values, _):
        anew = values["self"]._polaug.steps_anew
        if anew is not None:
            seen[anew] = [parameter.detach().clone() for parameter in values["self"].q_net.parameters()]
        return True

    model.learn(300, callback=look)
    anew = model._polaug.steps_anew
    assert 60 < anew <= 100
    assert model.replay_buffer.size() == anew + 1  # the step at which it was let go is the first
    assert all(torch.equal(one, other) for one, other in zip(seen[1], seen[39], strict=True))
    assert not all(torch.equal(one, other) for one, other in zip(seen[1], seen[60], strict=True))
