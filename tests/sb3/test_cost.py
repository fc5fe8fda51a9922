"""What keeps an augmented agent cheap, told without a clock."""

import itertools

import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.env_util import make_vec_env

from polaug.config import Augmentation
from polaug.sb3 import augment


def model(corridor, guide, **settings):
    options = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 0, "learning_starts": 20}
    return augment(DQN)("MlpPolicy", corridor(), augmentation=Augmentation(guide, **settings), **options)


def test_the_agents_steps_reach_the_explorer_in_bulk(corridor, guide):
    agent = model(corridor, guide, tau_e=100, teach_every=10_000)
    explorer, calls = agent._polaug.explorer, []
    plain = explorer.observe_past
    explorer.observe_past = lambda steps: calls.append(len(steps)) or plain(steps)
    agent.learn(1200)
    assert calls
    assert min(calls[:-1]) >= 500  # the last ones when `learn` returns
    assert explorer.steps == 1200
    driven = agent._polaug.coach.guide_steps
    assert len(explorer.seen) >= driven
    # In the order in which they happened: each observation is the one that the step before led to.
    flat = [(batch.flat[0], batch.next_flat[0], bool(batch.ended[0])) for batch in explorer.seen]
    for (_, then, ended), (now, _, _) in itertools.pairwise(flat):
        assert ended or np.array_equal(then, now)


def own_and_teaching_updates(agent, steps):
    """Number of the agent's own gradient steps, and of those of each teaching."""
    taught, repeat = [], agent._polaug.coach.transfer.repeat

    def counted(weight):
        log = repeat(weight)
        taught.append(log.get("updates", 0.0))
        return log

    agent._polaug.coach.transfer.repeat = counted
    agent.learn(steps)
    return agent._n_updates, taught


def test_teaching_updates_replace_own_ones_where_these_train_nothing_else(corridor, guide):
    settings = {"teach_updates": 10, "teach_every": 100}
    own, taught = own_and_teaching_updates(model(corridor, guide, **settings), 1000)
    assert sum(taught) > 10
    least, most = (1000 - 20) // 4 - sum(taught), (1000 - 20) // 4 - sum(taught[:-1])
    assert least - 2 <= own <= most


def test_teaching_an_actor_leaves_its_critic_all_updates(corridor, guide):
    settings = Augmentation(guide, teach_updates=10, teach_every=100)
    agent = augment(SAC)("MlpPolicy", corridor(continuous=True), device="cpu", seed=0, learning_starts=20,
                         policy_kwargs={"net_arch": [8]}, augmentation=settings)  # fmt: skip
    own, taught = own_and_teaching_updates(agent, 300)
    assert sum(taught) > 0
    assert own == 300 - 20


class Steps(SAC):
    """Its updates add 1 to all parameters."""

    def train(self, gradient_steps, batch_size=64):
        with torch.no_grad():
            for parameter in self.policy.parameters():
                parameter.add_(1.0)


def test_an_actors_own_updates_have_the_weight_that_teaching_leaves(corridor, guide):
    agent = augment(Steps)("MlpPolicy", corridor(continuous=True), device="cpu", seed=0, learning_starts=1000,
                           policy_kwargs={"net_arch": [8]}, augmentation=Augmentation(guide))  # fmt: skip

    def moved():
        actor, critic = list(agent.actor.parameters()), list(agent.critic.parameters())
        before = [parameter.detach().clone() for parameter in [*actor, *critic]]
        agent.train(1)
        by = [float((now - old).detach().mean()) for now, old in zip([*actor, *critic], before, strict=True)]
        return by[: len(actor)], by[len(actor) :]

    actor, critic = moved()  # not taught yet
    assert actor == pytest.approx([1.0] * len(actor), abs=1e-5)
    agent.learn(300)
    weight = agent._polaug.coach.decision.teaching
    assert 0.2 < weight < 1.0
    actor, critic = moved()
    assert actor == pytest.approx([1.0 - weight] * len(actor), abs=1e-5)
    assert critic == pytest.approx([1.0] * len(critic), abs=1e-5)


def test_many_updates_at_a_time_are_replaced_in_part(corridor, guide):
    options = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 0, "learning_starts": 20}
    settings = Augmentation(guide, teach_updates=10, teach_every=100)
    agent = augment(DQN)("MlpPolicy", corridor(), augmentation=settings, train_freq=100, gradient_steps=64, **options)
    own, taught = own_and_teaching_updates(agent, 1000)
    assert sum(taught[:-1]) > 0
    assert 640 - sum(taught) <= own <= 640 - sum(taught[:-1])


@pytest.mark.parametrize("cls", [DQN, QRDQN])
@pytest.mark.parametrize("environments", [1, 3])
def test_evaluation_episodes_are_what_the_agent_would_do_without_noise(cls, environments, corridor, guide):
    env = make_vec_env(corridor, environments)
    agent = augment(cls)("MlpPolicy", env, augmentation=Augmentation(guide), seed=0, device="cpu", learning_starts=20)
    agent.learn(60)
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.normal_()  # so that choices differ
    agent._polaug.averaged.restart()  # it is another one now
    chosen = []
    for at in np.linspace(-1.0, 11.0, 40):
        agent._last_obs = np.array([[at + k, at / 11] for k in range(environments)], np.float32)
        agent.policy.set_training_mode(True)
        wanted = agent.policy.predict(agent._last_obs, deterministic=True)[0]
        agent.policy.set_training_mode(True)
        got = agent._best_action()
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)
        assert not agent.policy.training
        chosen.extend(got.tolist())
    assert len(set(chosen)) == 2
