"""Each way of teaching does what its name says, on small networks and without a training library."""

import dataclasses

import numpy as np
import pytest
import torch
from gymnasium import spaces

from polaug.coach import Pupil
from polaug.coach.teaching import METHODS, Rollout, distil, make_transfer, transfer_class, transfers
from polaug.coach.teaching.balance import balanced, rollout_returns
from polaug.config import Augmentation
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.explorers import Transitions, make_explorer
from polaug.explorers.base import Explorer

SPACE = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Sign(Explorer):
    """Q̂ prefers the last action where the first number is positive, else the first action."""

    def _choose(self, flat, states):
        return self._q_values(flat, states).argmax(axis=1)

    def _learn(self, batch):
        pass

    def _q_values(self, flat, states):
        return flat[:, :1] * np.linspace(-1.0, 1.0, self.actions.n_actions)


def net(outputs, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, outputs))


def tensor(observations):
    return torch.as_tensor(np.asarray(observations, np.float32))


def column(actions):
    return torch.as_tensor(np.asarray(actions).reshape(len(actions), -1))


def pupil(kind, model):
    common = {"gamma": 0.9, "parameters": lambda: list(model.parameters()), "tensor": tensor, "actions": column,
              "act": lambda s: model(tensor(s)).detach().numpy()}  # fmt: skip
    if kind == "values":
        return Pupil("value_based", values=model, **common)
    if kind == "discrete":
        return Pupil("policy_gradient", log_probs=lambda s: [model(s).log_softmax(1)], **common)
    spread = torch.nn.Parameter(torch.zeros(1))
    common["parameters"] = lambda: [*model.parameters(), spread]
    return Pupil("policy_gradient", gaussian=lambda s: (model(s), spread.expand(len(s), 1)), **common)


def show(transfer, n=400, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n // 4):
        obs = rng.uniform(-1, 1, (4, 2)).astype(np.float32)
        actions = transfer.guide.act(obs)
        end = np.zeros(4, bool)
        transfer.watch(Transitions(obs, actions, np.zeros(4), obs, end, end))


def build(name, kind, outputs, space, **settings):
    model = net(outputs)
    guide = Sign(SPACE, space)
    return make_transfer(
        Augmentation(transfer=name, **settings), pupil(kind, model), guide, np.random.default_rng(0)
    ), model


def test_the_table_lists_every_file_and_nothing_else():
    from pathlib import Path

    import polaug.coach.teaching as package

    helpers = {"__init__", "base", "episodes", "labels", "memory"}
    assert {p.stem for p in Path(package.__file__).parent.glob("*.py")} - helpers == set(transfers()) == set(METHODS)
    for name, cls in METHODS.items():
        assert cls.__module__ == f"polaug.coach.teaching.{name}"


def test_auto_is_the_best_known_for_each_family_and_typos_get_a_hint():
    assert transfer_class("auto", "value_based") is METHODS["distil"]
    assert transfer_class("auto", "policy_gradient") is METHODS["kickstart"]
    with pytest.raises(UnknownNameError, match="Did you mean 'kickstart'"):
        transfer_class("kickstat", "policy_gradient")
    with pytest.raises(InvalidInputError, match="PPO, A2C and TRPO can be taught by"):
        build("distil", "discrete", 2, spaces.Discrete(2))
    with pytest.raises(InvalidInputError, match="got 'replay'"):
        build("replay", "discrete", 2, spaces.Discrete(2))


@pytest.mark.parametrize(("name", "kind"), [("kickstart", "discrete"), ("distil", "values")])
def test_the_agent_comes_to_prefer_what_q_hat_prefers(name, kind):
    transfer, model = build(name, kind, 3, spaces.Discrete(3))
    assert transfer.teach() == {}  # nothing seen yet
    show(transfer)
    for _ in range(8):
        log = transfer.teach()
    states = np.random.default_rng(1).uniform(-1, 1, (500, 2)).astype(np.float32)
    agree = model(tensor(states)).argmax(1).numpy() == np.where(states[:, 0] > 0, 2, 0)
    assert agree.mean() > 0.95
    assert log["disagreement"] < 0.1


def test_soft_labels_leave_the_agent_room():
    transfer, model = build("kickstart", "discrete", 2, spaces.Discrete(2))
    show(transfer)
    for _ in range(20):
        transfer.teach()
    probabilities = model(torch.tensor([[0.8, 0.0]])).softmax(1)[0]
    assert 0.80 < probabilities[1] < 0.95  # 1 − 0.25 / 2 = 0.875


def test_continuous_policies_learn_the_mean_and_keep_a_spread():
    transfer, model = build("kickstart", "gaussian", 1, spaces.Box(-1.0, 1.0, (1,), np.float32))
    show(transfer)
    for _ in range(20):
        transfer.teach()
    means = model(torch.tensor([[0.7, 0.0], [-0.7, 0.0]])).detach().flatten()
    assert means[0] > 0.7
    assert means[1] < -0.7
    spread = float(transfer.pupil.gaussian(torch.zeros(1, 2))[1].detach().exp())
    assert 0.3 < spread < 0.9


def test_an_agent_that_agrees_gets_fewer_updates():
    transfer, _ = build("kickstart", "discrete", 2, spaces.Discrete(2))
    show(transfer)
    first = transfer.teach()["updates"]
    for _ in range(5):
        last = transfer.teach()["updates"]
    assert first == 80
    assert last < 30
    assert transfer.teach(0.2)["updates"] < last


def test_labels_of_the_latest_teaching_are_averaged_and_older_ones_forgotten():
    transfer, model = build("kickstart", "discrete", 2, spaces.Discrete(2))
    show(transfer)
    for _ in range(4):
        transfer.teach()
    transfer.guide._q_values = lambda flat, states: -flat[:, :1] * np.array([-1.0, 1.0])  # changes its mind
    transfer.teach()
    probe = torch.tensor([[0.8, 0.0], [-0.8, 0.0]])
    assert model(probe).argmax(1).tolist() == [1, 0]
    for _ in range(12):
        transfer.teach()
    assert model(probe).argmax(1).tolist() == [0, 1]


def test_repeating_does_not_ask_q_hat_again():
    transfer, model = build("distil", "values", 2, spaces.Discrete(2))
    show(transfer)
    assert transfer.repeat(1.0) == {}  # nothing was said yet
    transfer.teach()
    transfer.guide._q_values = lambda flat, states: -flat[:, :1] * np.array([-1.0, 1.0])  # changes its mind
    for _ in range(6):
        transfer.repeat(1.0)
    assert model(torch.tensor([[0.8, 0.0], [-0.8, 0.0]])).argmax(1).tolist() == [1, 0]


def test_kickstart_draws_the_value_estimate_to_the_returns():
    model, value = net(2), net(1, seed=1)
    agent = dataclasses.replace(
        pupil("discrete", model), baseline=lambda s: value(s)[:, 0],
        parameters=lambda: [*model.parameters(), *value.parameters()],
    )  # fmt: skip
    transfer = make_transfer(Augmentation(), agent, Sign(SPACE, spaces.Discrete(2)), np.random.default_rng(0))
    rng, end = np.random.default_rng(0), np.ones(4, bool)
    for _ in range(100):
        obs = rng.uniform(-1, 1, (4, 2)).astype(np.float32)
        transfer.watch(Transitions(obs, np.zeros(4, int), obs[:, 0] - 3.0, obs, end, ~end))
    for _ in range(20):
        transfer.teach()
    values = value(torch.tensor([[0.8, 0.0], [-0.8, 0.0]])).detach().flatten()
    np.testing.assert_allclose(values, [-2.2, -3.8], atol=0.3)


def taught_actor():
    """Q̂ wants 1 where the first number is positive, else −1."""
    model = net(1)
    agent = dataclasses.replace(
        pupil("gaussian", model), family="actor_critic", gaussian=lambda s: (torch.tanh(model(s)), None)
    )
    space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    transfer = make_transfer(Augmentation(), agent, Sign(SPACE, space), np.random.default_rng(0))
    show(transfer)
    return transfer, lambda states: torch.tanh(model(torch.tensor(states))).detach().flatten().numpy()


def test_an_actor_follows_q_hat():
    transfer, act = taught_actor()
    for _ in range(20):
        transfer.teach()
    assert act([[0.8, 0.8]])[0] > 0.8
    assert act([[-0.8, -0.8]])[0] < -0.8


def test_labels_stop_short_of_the_bounds_of_a_squashed_actor():
    transfer, _ = taught_actor()
    transfer.teach()
    assert np.abs(transfer._labelled["targets"].rows).max() == pytest.approx(0.9)


@pytest.mark.parametrize(("name", "kind"), [("kickstart", "discrete"), ("distil", "values")])
def test_a_restart_leaves_no_piece_of_an_episode_behind(name, kind):
    transfer, _ = build(name, kind, 2, spaces.Discrete(2))
    if name == "kickstart":
        transfer.pupil = dataclasses.replace(transfer.pupil, baseline=lambda s: s[:, 0])
    obs, end = np.zeros((1, 2), np.float32), np.zeros(1, bool)
    transfer.watch(Transitions(obs, np.zeros(1, int), np.full(1, 1000.0), obs, end, end))
    transfer.restart()
    transfer.watch(Transitions(obs, np.zeros(1, int), np.ones(1), obs, ~end, end))
    assert transfer._episodes.returns.tolist() == [1.0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_distil_draws_values_to_the_returns_of_good_episodes_at_any_scale(scale, monkeypatch):
    far = {}
    for weight in (distil._RETURNS, 0.0):
        monkeypatch.setattr(distil, "_RETURNS", weight)
        transfer, model = build("distil", "values", 2, spaces.Discrete(2))
        rng, end = np.random.default_rng(0), np.ones(4, bool)
        for _ in range(200):  # action 1 is right where the first number is positive, and pays more on the far right
            obs = rng.uniform(-1, 1, (4, 2)).astype(np.float32)
            actions = transfer.guide.act(obs)
            transfer.watch(Transitions(obs, actions, scale * (1.0 + obs[:, 0]), obs, end, ~end))
        for _ in range(50):
            log = transfer.teach()
        assert log["disagreement"] < 0.1
        far[weight] = abs(float(model(torch.tensor([[0.9, 0.0]])).max().detach()) / scale - 1.9)
    drawn, alone = far.values()
    assert drawn < 0.7 * alone  # choices alone leave the values where they are, or drive them ever further up
    assert scale != 1.0 or drawn < 1.0


def test_only_own_steps_are_selected_except_as_published():
    driven = np.array([[True, False], [True, False], [False, True]])
    rollout = Rollout(driven, np.zeros_like(driven), np.zeros((3, 2), np.float32))
    own, _ = build("kickstart", "discrete", 2, spaces.Discrete(2))
    assert own.select(rollout).tolist() == [2, 3, 4]  # environment by environment
    everything, _ = build("as_published", "discrete", 2, spaces.Discrete(2))
    assert everything.select(rollout) is None


def test_balance_repeats_the_rarer_kind():
    rewards = np.array([[0, 0], [0, 0], [0, 1], [0, 1]], np.float32)
    starts = np.array([[1, 1], [0, 0], [1, 1], [0, 0]], bool)
    rollout = Rollout(np.zeros((4, 2), bool), starts, rewards)
    np.testing.assert_array_equal(rollout_returns(rollout), [[0, 0], [0, 0], [0, 2], [0, 2]])
    transfer, _ = build("balance", "discrete", 2, spaces.Discrete(2))
    chosen = transfer.select(rollout)
    high = np.isin(chosen, [6, 7])
    assert high.sum() == (~high).sum() == 6
    assert balanced(np.array([1.0, 1.0]), np.random.default_rng(0)) is None
    assert balanced(np.array([np.nan, np.nan]), np.random.default_rng(0)) is None


@pytest.mark.parametrize(("name", "kind"), [("kickstart", "discrete"), ("distil", "values")])
def test_saved_teaching_goes_on_to_the_bit(name, kind):
    first, model = build(name, kind, 2, spaces.Discrete(2))
    second, copy = build(name, kind, 2, spaces.Discrete(2))
    obs, end = np.full((2, 2), 0.5, np.float32), np.ones(2, bool)
    for _ in range(100):
        first.watch(Transitions(obs, np.array([1, 0]), np.array([1.0, 0.0]), obs, end, ~end))
    first.teach()
    copy.load_state_dict(model.state_dict())
    second.load_state_dict(first.state_dict())
    first.rng, second.rng = np.random.default_rng(5), np.random.default_rng(5)
    first.teach()
    second.teach()
    for a, b in zip(model.parameters(), copy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_an_explorer_without_q_hat_teaches_nothing():
    explorer = make_explorer("random", SPACE, spaces.Discrete(2))
    transfer = make_transfer(Augmentation(), pupil("discrete", net(2)), explorer, np.random.default_rng(0))
    show(transfer)
    assert transfer.teach() == {}


@pytest.mark.parametrize(("name", "kind", "outputs", "space"), [
    ("kickstart", "discrete", 2, spaces.Discrete(2)), ("distil", "values", 2, spaces.Discrete(2)),
])  # fmt: skip
def test_teaching_logs_what_q_said(name, kind, outputs, space):
    transfer, _ = build(name, kind, outputs, space)
    show(transfer, 2000)
    log = transfer.teach()
    asked = np.random.default_rng(1).uniform(-1, 1, (100_000, 1))  # Q̂ = x·u with u from −1 to 1
    q = asked * np.linspace(-1.0, 1.0, transfer.guide.actions.n_actions)
    assert log["q_mean"] == pytest.approx(0.0, abs=1e-6)
    assert log["q_spread"] == pytest.approx(q.std(), rel=0.05)
    assert log["q_gap"] == pytest.approx(np.abs(asked).mean(), rel=0.05)
    assert "q_mean" not in transfer.repeat(1.0)  # the guide is not asked


@pytest.mark.parametrize(("name", "kind"), [("kickstart", "discrete"), ("distil", "values")])
def test_a_few_states_with_large_differences_do_not_hide_the_choices_in_the_others(name, kind):
    transfer, model = build(name, kind, 2, spaces.Discrete(2))
    plain = transfer.guide._q_values
    transfer.guide._q_values = lambda flat, states: plain(flat, states) * np.where(flat[:, 1:] > 0.95, 1e3, 1e-3)
    show(transfer)
    for _ in range(8):
        transfer.teach()
    states = np.random.default_rng(1).uniform(-1, 0.9, (500, 2)).astype(np.float32)
    agree = model(tensor(states)).argmax(1).numpy() == np.where(states[:, 0] > 0, 1, 0)
    assert agree.mean() > 0.95


def test_an_explorer_without_q_still_teaches_its_choices():
    class Chooser(Sign):
        def _q_values(self, flat, states):
            return None

        def _choose(self, flat, states):
            return (flat[:, 0] > 0).astype(int)

        def greedy(self, observations):
            return self.act(observations)

    model = net(2)
    settings, rng = Augmentation(transfer="distil"), np.random.default_rng(0)
    transfer = make_transfer(settings, pupil("values", model), Chooser(SPACE, spaces.Discrete(2)), rng)
    show(transfer)
    log = [transfer.teach() for _ in range(3)][-1]
    assert log["disagreement"] < 0.1
    assert "q_mean" not in log


@pytest.mark.parametrize(("dimensions", "least", "most"), [(1, 2048, 2048), (4, 256, 600)])
def test_fewer_states_are_labelled_where_each_has_many_actions(dimensions, least, most):
    space = spaces.Box(-1.0, 1.0, (dimensions,))
    transfer, _ = build("kickstart", "continuous", dimensions, space)
    show(transfer)
    asked, plain = [], transfer.guide.q_values
    transfer.guide.q_values = lambda states: asked.append(len(states)) or plain(states)
    transfer.teach()
    assert least <= asked[0] <= most
    transfer._disagreement = 0.0
    transfer.teach()
    assert asked[1] >= 256  # a minibatch at least
