"""A stopped run goes on as if it had not been stopped; files are arrays; damaged ones are refused."""

import copy
import dataclasses
import io
import json
import pickle
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed

from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.sb3 import augment, saving
from polaug.sb3.bridge import Bridge
from polaug.snapshot import with_checksums

PAPER = Augmentation(explorer="paper", explorer_options={"max_iterations": 5}, teach_every=100)


def small():
    return {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}  # fresh: SB3 changes policy_kwargs


def parameters(model):
    return torch.cat([p.detach().flatten() for p in model.policy.parameters()])


def go_on(model, steps):
    """Continue in a fresh environment with the generators that SB3 does not save set by hand."""
    env = gym.make("CartPole-v1")
    model.set_env(env)
    set_random_seed(7)
    model.action_space.seed(7)
    model.env.seed(7)
    return model.learn(steps, reset_num_timesteps=False)


@pytest.mark.parametrize(
    ("cls", "options"), [(PPO, {"n_steps": 128}), (DQN, {"buffer_size": 5000, "learning_starts": 100})]
)
def test_a_resumed_run_continues_exactly(cls, options, tmp_path):
    model = augment(cls)("MlpPolicy", "CartPole-v1", augmentation=PAPER, **options, **small()).learn(600)
    model.save(tmp_path / "half")
    loaded = augment(cls).load(tmp_path / "half", env=gym.make("CartPole-v1"))
    if cls is DQN:
        model.save_replay_buffer(tmp_path / "buffer")
        loaded.load_replay_buffer(tmp_path / "buffer")
    assert loaded._polaug.settings == PAPER
    go_on(model, 400)
    go_on(loaded, 400)
    assert torch.equal(parameters(model), parameters(loaded))
    first, second = model._polaug.state_dict(), loaded._polaug.state_dict()
    assert sorted(first) == sorted(second)
    for key in first:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


@pytest.mark.parametrize(
    ("cls", "options", "transfer"),
    [(PPO, {"n_steps": 64}, "kickstart"), (DQN, {"learning_starts": 100}, "distil")],
)
def test_a_run_resumed_in_mid_episode_continues_exactly(cls, options, transfer, corridor, tmp_path):
    settings = Augmentation("committee", transfer=transfer, teach_every=100)
    env = make_vec_env(corridor, 2, seed=0)
    model = augment(cls)("MlpPolicy", env, augmentation=settings, **options, **small()).learn(640)
    assert any(len(steps) for steps in model._polaug.coach.transfer._episodes._open)
    model.save(tmp_path / "half")
    loaded = augment(cls).load(tmp_path / "half", env=copy.deepcopy(env), force_reset=False)
    if cls is DQN:
        model.save_replay_buffer(tmp_path / "buffer")
        loaded.load_replay_buffer(tmp_path / "buffer", truncate_last_traj=False)
    for each in (model, loaded):
        set_random_seed(7)
        each.action_space.seed(7)
        each.learn(400, reset_num_timesteps=False)
    assert torch.equal(parameters(model), parameters(loaded))
    first, second = model._polaug.state_dict(), loaded._polaug.state_dict()
    assert sorted(first) == sorted(second)
    for key in first:
        np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def test_a_resumed_run_without_a_seed_has_the_explorer_it_had(tmp_path):
    # The planes of its hash come from the seed: they are more than what it has learnt.
    options = {"hashing": "simhash", "hashing_options": {"bits": 6}, "max_iterations": 5}
    settings = Augmentation("paper", explorer_options=options, teach_every=100)
    unseeded = small() | {"seed": None}
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=settings, **unseeded).learn(128)
    model.save(tmp_path / "a")
    for augmentation in ({}, {"augmentation": settings}):
        loaded = augment(PPO).load(tmp_path / "a", env=gym.make("CartPole-v1"), **augmentation)
        states = np.random.default_rng(0).normal(size=(50, 4))
        np.testing.assert_array_equal(model.explorer.q_values(states), loaded.explorer.q_values(states))
        assert loaded._polaug._seed == model._polaug._seed
    go_on(model, 128)
    go_on(loaded, 128)
    assert torch.equal(parameters(model), parameters(loaded))


@pytest.mark.parametrize("transfer", ["kickstart", "replay", "as_published"])
def test_every_transfer_resumes(transfer, corridor, tmp_path):
    settings = Augmentation("random", transfer=transfer, teach_every=50)
    model = augment(SAC)("MlpPolicy", corridor(True), buffer_size=1000, augmentation=settings, **small()).learn(200)
    model.save(tmp_path / "a")
    loaded = augment(SAC).load(tmp_path / "a", env=corridor(True))
    for key, array in model._polaug.state_dict().items():
        np.testing.assert_array_equal(array, loaded._polaug.state_dict()[key], err_msg=key)
    loaded.learn(60, reset_num_timesteps=False)


def test_the_file_is_sb3s_and_our_part_is_arrays(tmp_path):
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=PAPER, **small()).learn(128)
    model.save(tmp_path / "a")
    plain = PPO.load(tmp_path / "a", env=gym.make("CartPole-v1"))
    assert torch.equal(parameters(plain), parameters(model))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert "_polaug" not in json.loads(archive.read("data"))
        with np.load(io.BytesIO(archive.read("polaug.npz")), allow_pickle=False) as arrays:
            assert "coach.guide.method" in arrays


def test_loading_runs_nothing_from_our_part(tmp_path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("code from the file was run",))

    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=PAPER, **small()).learn(64)
    model.save(tmp_path / "a")
    _replace_entry(tmp_path / "a.zip", pickle.dumps(Evil()))
    with pytest.raises(StateError, match="damaged"):
        augment(PPO).load(tmp_path / "a")
    array = io.BytesIO()
    np.savez(array, version=np.array(Evil(), dtype=object))
    _replace_entry(tmp_path / "a.zip", array.getvalue())
    with pytest.raises(StateError, match="damaged"):
        augment(PPO).load(tmp_path / "a")


def _replace_entry(path, content):
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if name != "polaug.npz"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
        if content is not None:
            archive.writestr("polaug.npz", content)


def test_a_damaged_or_foreign_file_is_refused(corridor, tmp_path):
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=PAPER, **small()).learn(64)
    model.save(tmp_path / "a")
    whole = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StateError, match="damaged"):
        augment(PPO).load(tmp_path / "cut")
    with pytest.raises(FileNotFoundError):
        augment(PPO).load(tmp_path / "none")
    with pytest.raises(ValueError, match="spaces do not match"):
        augment(PPO).load(tmp_path / "a", env=corridor())
    _replace_entry(tmp_path / "a.zip", None)
    plain = augment(PPO).load(tmp_path / "a", env=gym.make("CartPole-v1"))
    assert plain._polaug is None
    plain.learn(64)


@pytest.mark.parametrize(
    ("change", "told"),
    [({"memory": 50}, r"memory=20000, got memory=50\. Pass memory=20000, or leave out augmentation="),
     ({"explorer": "random", "explorer_options": {}}, r"explorer='paper', explorer_options=.* got explorer='random'")],
)  # fmt: skip
def test_settings_that_do_not_fit_the_saved_agent_are_named(change, told, tmp_path):
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=PAPER, **small()).learn(128)
    model.save(tmp_path / "a")
    given = dataclasses.replace(PAPER, **change)
    with pytest.raises(StateError, match=told) as caught:
        augment(PPO).load(tmp_path / "a", env=gym.make("CartPole-v1"), augmentation=given)
    assert "damaged" not in str(caught.value)
    fits = dataclasses.replace(PAPER, memory=30_000, teach_rate=0.1)
    loaded = augment(PPO).load(tmp_path / "a", env=gym.make("CartPole-v1"), augmentation=fits)
    assert loaded.explorer.steps == 128


def test_load_without_environment_predicts_and_keeps_the_state(tmp_path):
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=PAPER, **small()).learn(128)
    model.save(tmp_path / "a")
    loaded = augment(PPO).load(tmp_path / "a")
    loaded.predict(np.zeros(4, np.float32))
    loaded.save(tmp_path / "b")
    again = augment(PPO).load(tmp_path / "b", env=gym.make("CartPole-v1"))
    assert again._polaug.explorer.steps == 128
    loaded.set_env(gym.make("CartPole-v1"))
    assert loaded._polaug.explorer.steps == 128


def test_open_files_and_failed_saves(tmp_path, monkeypatch):
    model = augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, augmentation=PAPER, **small()).learn(64)
    with (tmp_path / "f.zip").open("wb") as file:
        model.save(file)
    with (tmp_path / "f.zip").open("rb") as file:
        assert augment(PPO).load(file, env=gym.make("CartPole-v1"))._polaug.explorer.steps == 64
    before = (tmp_path / "f.zip").read_bytes()
    model._polaug.explorer._state = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        model.save(tmp_path / "f")
    assert (tmp_path / "f.zip").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["f.zip"]


def test_own_explorers_must_be_passed_again(corridor, guide, tmp_path):
    model = augment(PPO)("MlpPolicy", corridor(), n_steps=64, augmentation=Augmentation(guide), **small()).learn(64)
    model.save(tmp_path / "a")
    with pytest.raises(StateError, match="used its own guide"):
        augment(PPO).load(tmp_path / "a")
    again = augment(PPO).load(tmp_path / "a", env=corridor(), augmentation=Augmentation(guide))
    assert again._polaug.coach.steps == 64
    assert augment(PPO).load(tmp_path / "a", env=corridor(), augmentation=None)._polaug is None


def test_a_file_of_another_agent_says_so(tmp_path):
    augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, device="cpu").save(tmp_path / "ppo")
    with pytest.raises(StateError, match=r"holds a PPO, not a DQN. Load it with polaug.augment\(PPO\)"):
        augment(DQN).load(tmp_path / "ppo")
    assert isinstance(augment(PPO).load(tmp_path / "ppo"), PPO)


def test_a_file_of_another_version_says_so():
    model = augment(DQN)("MlpPolicy", "CartPole-v1", seed=0)
    model.learn(120)
    state = model._polaug.state_dict() | {"version": np.array(1)}
    other = Bridge(Augmentation(), state)
    with pytest.raises(StateError, match="format 1, not 12"):
        other.attach(model)


CELLS = [(PPO, False, {"n_steps": 64}), (DQN, False, {"learning_starts": 50}), (SAC, True, {"learning_starts": 50})]


COPIES = [(*cell, copy.deepcopy) for cell in CELLS] + [(*CELLS[1], lambda model: pickle.loads(pickle.dumps(model)))]


@pytest.mark.parametrize(("cls", "continuous", "options", "copied"), COPIES)
def test_a_copy_learns_as_the_original_would_and_leaves_it_alone(cls, continuous, options, copied):
    settings = Augmentation("committee", teach_every=50, teach_updates=5)
    env = "Pendulum-v1" if continuous else "CartPole-v1"
    model = augment(cls)("MlpPolicy", env, augmentation=settings, **options, **small()).learn(300)
    before = parameters(model).clone()
    model.predict(model.observation_space.sample())  # SB3's PPO can't be copied while it holds an update's graph
    twin = copied(model)
    assert type(twin) is type(model)
    ends = []
    for each in (twin, model):
        set_random_seed(7)
        each.action_space.seed(7)
        each.env.seed(7)
        assert torch.equal(parameters(each), before)  # also the original's, after the copy has learnt
        ends.append(parameters(each.learn(200)))
    assert torch.equal(*ends)
    assert not torch.equal(ends[0], before)
    if twin._polaug.averaged is not None:
        means = [each._polaug.averaged.state_dict() for each in (twin, model)]
        assert all(np.array_equal(means[0][name], means[1][name]) for name in means[0])
        twin._polaug.averaged.restart()
    owned = {tensor.data_ptr() for tensor in twin.policy.parameters()}
    assert {tensor.data_ptr() for tensor in twin._polaug.coach.pupil.parameters()} <= owned


class Mine(PPO):
    """An agent of somebody else's."""


@pytest.mark.parametrize("cls", [PPO, DQN, Mine])
def test_augmented_classes_can_be_pickled(cls):
    assert pickle.loads(pickle.dumps(augment(cls))) is augment(cls)


def test_the_augmentation_can_be_left_out_of_a_file(corridor, guide, tmp_path):
    model = augment(PPO)("MlpPolicy", corridor(), n_steps=64, augmentation=Augmentation(guide), **small()).learn(128)
    model.save(tmp_path / "whole")
    model.save(tmp_path / "agent", exclude=["explorer"])
    assert (tmp_path / "agent.zip").stat().st_size < (tmp_path / "whole.zip").stat().st_size
    alone = augment(PPO).load(tmp_path / "agent", env=corridor())
    assert alone.explorer is None
    seen = np.zeros((5, 2), np.float32)
    np.testing.assert_array_equal(alone.predict(seen)[0].shape, model.predict(seen)[0].shape)
    for mine, others in zip(alone.policy.parameters(), model.policy.parameters(), strict=True):
        assert torch.equal(mine, others)


@pytest.mark.parametrize("change", [lambda a: a[None], lambda a: a.ravel()[:0], np.zeros_like, lambda a: a + a])
def test_every_changed_array_of_the_augmentation_is_refused(change, corridor, tmp_path):
    """Whoever has changed it: a network's weights of 1e300 were taken over, and a lost seed was a foreign error."""
    settings = Augmentation("random", teach_every=50)
    model = augment(DQN)("MlpPolicy", corridor(), learning_starts=50, augmentation=settings, **small()).learn(120)
    model.save(tmp_path / "a")
    state = saving.read(tmp_path / "a")
    for key, array in state.items():
        if array.dtype.kind not in "fiu" or not array.size:
            continue
        content, changed = io.BytesIO(), change(array)
        if np.array_equal(changed, array):
            continue
        np.savez(content, **with_checksums(state) | {key: changed})
        _replace_entry(tmp_path / "a.zip", content.getvalue())
        with pytest.raises(StateError, match=r"is not what was saved"):
            augment(DQN).load(tmp_path / "a", env=corridor())
