"""Without noise an agent of the DQN kind acts by the mean of its latest networks."""

import dataclasses

import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, PPO, SAC

from polaug import Augmentation, augment
from polaug.errors import StateError
from polaug.sb3.averaged import Averaged


def parameter(value):
    return torch.nn.Parameter(torch.full((2,), float(value)))


def test_it_is_the_plain_mean_at_first_and_then_forgets():
    network = [parameter(0.0)]
    averaged = Averaged(lambda: network)
    seen = []
    for k in range(120):
        with torch.no_grad():
            network[0].fill_(float(k % 7))
        averaged.follow(16)
        seen.append(k % 7)
    with averaged.in_place():
        assert network[0].tolist() == pytest.approx([np.mean(seen)] * 2, abs=1e-5)
    assert network[0].tolist() == [seen[-1]] * 2
    with torch.no_grad():
        network[0].fill_(100.0)
    for _ in range(1_000):
        averaged.follow(16)
    with averaged.in_place():
        assert network[0].tolist() == pytest.approx([100.0] * 2, abs=2.0)


def test_few_steps_are_not_looked_at_one_by_one():
    network = [parameter(1.0)]
    averaged = Averaged(lambda: network)
    averaged.follow(15)
    assert not averaged.state_dict()["counters"][2]
    averaged.follow(1)
    assert averaged.state_dict()["counters"][2] == 1


def test_the_network_comes_back_after_an_error_and_can_be_trained():
    network = [parameter(1.0)]
    averaged = Averaged(lambda: network)
    averaged.follow(16)
    optimizer = torch.optim.SGD(network, lr=1.0)
    with pytest.raises(ZeroDivisionError), averaged.in_place():
        raise ZeroDivisionError
    network[0].sum().backward()
    optimizer.step()
    assert network[0].tolist() == [0.0, 0.0]
    with averaged.in_place():
        assert network[0].tolist() == [1.0, 1.0]  # the mean was not trained with it


def test_who_has_become_another_one_starts_anew():
    network = [parameter(1.0)]
    averaged = Averaged(lambda: network)
    averaged.follow(16)
    averaged.restart()
    with torch.no_grad():
        network[0].fill_(5.0)
    with averaged.in_place():
        assert network[0].tolist() == [5.0, 5.0]  # nothing to put in its place yet


def test_it_goes_on_from_its_state_and_refuses_another_networks():
    network = [parameter(1.0)]
    averaged = Averaged(lambda: network)
    averaged.follow(20)
    with torch.no_grad():
        network[0].fill_(3.0)
    with averaged.in_place():
        saved = [parameter(network[0][0].item())]  # a file holds the mean
    assert saved[0].tolist() == [1.0, 1.0]
    state = averaged.state_dict()
    other = Averaged(lambda: saved)
    other.load_state_dict(state)
    assert saved[0].tolist() == [3.0, 3.0]  # and goes on from the network
    for each in (averaged, other):
        each.follow(17)
    for each, numbers in ((averaged, network), (other, saved)):
        with each.in_place():
            assert numbers[0].tolist() == pytest.approx([1 + 2 * 17 / 37] * 2)
    ours, theirs = averaged.state_dict(), other.state_dict()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    narrow = Averaged(lambda: [torch.nn.Parameter(torch.zeros(1))])
    with pytest.raises(StateError, match="not those of this agent"):
        narrow.load_state_dict(averaged.state_dict())
    assert not narrow.state_dict()["counters"].any()


@pytest.mark.parametrize("with_environment", [False, True])
def test_a_file_holds_the_agent_that_was_seen(with_environment, corridor, guide, tmp_path):
    agent = augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide), seed=0, device="cpu")
    agent.learn(60)
    agent._polaug.averaged.restart()
    agent._polaug.averaged.follow(16)
    with torch.no_grad():
        for weights in agent.q_net.parameters():
            weights.normal_()
    obs = np.array([[at, 0.1] for at in np.linspace(-1, 11, 200)], np.float32)
    agent.exploration_rate = 0.0
    seen, network = agent.predict(obs, deterministic=True)[0], agent.predict(obs)[0]
    assert (seen != network).any()
    agent.save(tmp_path / "agent")
    np.testing.assert_array_equal(agent.predict(obs)[0], network)  # it goes on as it was
    plain = DQN.load(tmp_path / "agent")
    np.testing.assert_array_equal(plain.predict(obs, deterministic=True)[0], seen)
    settings = Augmentation(guide)  # a callable of one's own is not in the file
    loaded = augment(DQN).load(tmp_path / "agent", env=corridor() if with_environment else None, augmentation=settings)
    np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], seen)
    np.testing.assert_array_equal(loaded.predict(obs)[0], network)
    loaded.save(tmp_path / "again")
    again = augment(DQN).load(tmp_path / "again", augmentation=settings)
    np.testing.assert_array_equal(again.predict(obs, deterministic=True)[0], seen)
    np.testing.assert_array_equal(again.predict(obs)[0], network)
    without = augment(DQN).load(tmp_path / "agent", augmentation=None)
    np.testing.assert_array_equal(without.predict(obs, deterministic=True)[0], seen)


def test_a_file_of_a_plain_agent_says_that_it_stays_one(corridor, tmp_path):
    DQN("MlpPolicy", corridor(), device="cpu").save(tmp_path / "plain")
    with pytest.warns(
        UserWarning, match=r"holds a plain DQN, and stays one. Pass augmentation=polaug.Augmentation\(\)"
    ):
        assert augment(DQN).load(tmp_path / "plain").explorer is None
    augment(DQN)("MlpPolicy", corridor(), device="cpu", augmentation=None).save(tmp_path / "none")
    for path, chosen in (("plain", {"augmentation": None}), ("none", {})):
        assert augment(DQN).load(tmp_path / path, **chosen).explorer is None  # warnings are errors here


@pytest.mark.parametrize("cls", [DQN, QRDQN])
def test_predictions_without_noise_are_the_means_and_exploration_is_the_networks(cls, corridor, guide):
    agent = augment(cls)("MlpPolicy", corridor(), augmentation=Augmentation(guide), seed=0, device="cpu")
    agent.learn(60)
    agent._polaug.averaged.restart()
    agent._polaug.averaged.follow(16)
    obs = np.array([[at, 0.1] for at in np.linspace(-1, 11, 200)], np.float32)
    mean, _ = agent.predict(obs, deterministic=True)
    with torch.no_grad():
        for weights in agent.policy.parameters():
            weights.normal_()
    agent.exploration_rate = 0.0
    now, _ = agent.predict(obs)
    assert (now != mean).any()
    np.testing.assert_array_equal(agent.predict(obs, deterministic=True)[0], mean)
    np.testing.assert_array_equal(agent.policy.predict(obs, deterministic=True)[0], now)  # the network is in place


def test_teaching_ends_the_mean_and_repeating_does_not(corridor, guide, monkeypatch):
    agent = augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide), seed=0, device="cpu")
    agent.learn(60)
    bridge = agent._polaug
    monkeypatch.setattr(type(bridge.coach), "teaching_due", property(lambda self: True))
    for weight, kept in ((0.0, True), (0.9, False)):
        bridge.averaged.follow(16)
        decision = dataclasses.replace(bridge.coach.decision, teaching=weight)
        monkeypatch.setattr(type(bridge.coach), "decision", property(lambda self, decision=decision: decision))
        bridge.teach_if_due()
        assert bool(bridge.averaged.state_dict()["counters"][2]) == kept


@pytest.mark.parametrize(("cls", "env"), [(PPO, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_agents_with_a_policy_of_their_own_act_by_it(cls, env):
    assert augment(cls)("MlpPolicy", env, seed=0, device="cpu")._polaug.averaged is None
