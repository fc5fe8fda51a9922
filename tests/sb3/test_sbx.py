"""Agents of SBX, whose networks are JAX; run by `make sbx`, in an environment of its own."""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import NStepReplayBuffer

import polaug
from polaug.errors import InvalidInputError

sbx = pytest.importorskip("sbx", reason="`make sbx` runs this in an environment with sbx-rl")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # JAX's and SBX's

ENVS = {"DQN": "MountainCar-v0"} | dict.fromkeys(("SAC", "TQC", "CrossQ", "TD3", "DDPG"), "Pendulum-v1")
SHORT = {"learning_starts": 50, "batch_size": 32}


def push(observations):
    """MountainCar's classical controller: push where it moves."""
    return np.where(observations[:, 1] < 0.0, 0, 2)


def right(observations):
    return np.full((len(observations), 1), 1.5, np.float32)


def agent(name, **kwargs):
    return polaug.augment(getattr(sbx, name))("MlpPolicy", ENVS[name], seed=1, **kwargs)


def observations_of(model, n=20):
    return np.stack([model.observation_space.sample() for _ in range(n)])


def best(model, observations):
    """What the copy in PyTorch would do, as the environment sees it."""
    pupil = model._polaug.coach.pupil
    inputs = pupil.tensor(observations)
    with torch.no_grad():
        if pupil.values is not None:
            return pupil.values(inputs).argmax(dim=1).numpy()
        return model.policy.unscale_action(pupil.gaussian(inputs)[0].numpy())


@pytest.mark.parametrize("name", ENVS)
def test_the_copy_acts_as_the_agent_does(name):
    model = agent(name)
    rows = observations_of(model)
    twin = model._polaug.twin
    twin.pull()
    acted = model.predict(rows, deterministic=True)[0]
    assert best(model, rows) == pytest.approx(acted, abs=1e-5)
    if name != "CrossQ":  # it standardises by itself
        (standardise,) = model._polaug.coach.pupil.standardised()
        standardise.mean += 0.5
        standardise.width *= 0.1
        twin.pull()
        assert best(model, rows) == pytest.approx(acted, abs=1e-4)
    for parameter in model._polaug.coach.pupil.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    twin.push()
    changed = model.predict(rows, deterministic=True)[0]
    assert not np.array_equal(changed, acted)
    assert best(model, rows) == pytest.approx(changed, abs=1e-4)
    if name != "DQN":
        inputs = model._polaug.coach.pupil.tensor(rows)
        values = model._polaug.coach.pupil.critic(inputs, torch.zeros(20, 1))
        assert values.shape == (20, 1 if name == "DDPG" else 2)
        assert torch.isfinite(values).all()


def test_dqn_learns_from_a_guide_and_goes_on_from_a_file(tmp_path):
    model = agent("DQN", augmentation={"guide": push, "teach_updates": 40}, learning_rate=1e-3, **SHORT)
    assert isinstance(model.replay_buffer, NStepReplayBuffer)
    model.learn(752)  # DQN trains after every fourth step
    coach = model._polaug.coach
    assert coach.steps == 752
    assert coach.guide_steps > 300
    assert (model.replay_buffer.actions[:752] == 1).mean() < 0.2  # the guide never coasts: all steps are replayed
    assert coach.statistics()["teaching_disagreement"] < 0.2
    rows = observations_of(model, 200)
    assert (model.predict(rows, deterministic=True)[0] == push(rows)).mean() > 0.8
    model.save(tmp_path / "agent")
    again = type(model).load(tmp_path / "agent", env=gym.make("MountainCar-v0"), augmentation={"guide": push})
    assert np.array_equal(again.predict(rows, deterministic=True)[0], model.predict(rows, deterministic=True)[0])
    again._polaug.twin.pull()
    mine, theirs = ([p.detach().numpy() for p in each._polaug.coach.pupil.parameters()] for each in (model, again))
    model._polaug.twin.pull()
    assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
    again.learn(48, reset_num_timesteps=False)
    assert again._polaug.coach.steps == 800


@pytest.mark.parametrize("name", ["SAC", "TQC", "CrossQ"])
def test_actors_are_driven_and_taught(name):
    model = agent(name, augmentation={"guide": right, "teach_every": 100}, learning_starts=500)
    before = model.policy.actor_state.params
    model.learn(450)  # without an update of its own
    coach = model._polaug.coach
    assert coach.steps == 450
    assert coach.guide_steps > 0
    assert coach.statistics()["teaching_updates"] >= 1
    after = model.policy.actor_state.params
    layers = [tree.get("params", tree)["Dense_0"]["kernel"] for tree in (before, after)]
    assert not np.array_equal(*layers)


def test_the_code_of_the_page_runs_as_pasted():
    text = (Path(__file__).parents[2] / "docs" / "augment.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```py\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    names = {}
    exec(compile(block, "augment.md", "exec"), names)
    assert names["model"].explorer.steps == 500


def test_without_augmentation_it_is_the_plain_agent():
    plain = sbx.DQN("MlpPolicy", "CartPole-v1", seed=1, **SHORT).learn(150)
    model = polaug.augment(sbx.DQN)("MlpPolicy", "CartPole-v1", seed=1, augmentation=None, **SHORT).learn(150)
    kernels = [each.policy.qf_state.params["params"]["Dense_2"]["kernel"] for each in (plain, model)]
    assert np.array_equal(*kernels)


def test_what_cannot_be_copied_is_refused_by_name():
    with pytest.raises(InvalidInputError, match=r"got 'sbx.PPO'. Pass stable_baselines3.PPO"):
        polaug.augment(sbx.PPO)
    with pytest.raises(InvalidInputError, match=r"MlpPolicy.*SimbaSACPolicy"):
        polaug.augment(sbx.SAC)("SimbaPolicy", "Pendulum-v1")
