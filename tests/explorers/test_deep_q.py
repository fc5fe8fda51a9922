"""`deep_q`: its gradients, what it learns, and from what."""

import gymnasium as gym
import numpy as np
import pytest
from tests.explorers.playing import play
from tests.explorers.test_contract import contract

import polaug
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.explorers.deep_q import Ensemble

QUICK = {"warm_up": 50, "epsilon_steps": 300, "hidden": 32, "batch_size": 32, "tau": 0.03, "learning_rate": 2e-3}


def test_gradients_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    networks = Ensemble(2, (3, 8, 8, 2), rng)
    networks.parameters = rng.standard_normal(networks.parameters.size)  # float64, for exact differences
    networks._restored()
    x, wanted = rng.standard_normal((5, 3)), rng.standard_normal((2, 5, 2))
    outputs, passed = networks.forward(x)
    gradient = networks.backward(passed, outputs - wanted)
    for i in range(0, len(gradient), 7):
        losses = []
        for step in (1e-6, -2e-6):
            networks.parameters[i] += step
            losses.append(0.5 * np.square(networks(x) - wanted).sum())
        networks.parameters[i] += 1e-6
        assert gradient[i] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-3, abs=1e-6)


class Corridor(gym.Env):
    """Ten places in a row; each step costs 1, the end on the right pays 10 and ends the episode."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place, self.steps = max(self.place + (1 if action else -1), 0), self.steps + 1
        there = self.place == 9
        return np.array([self.place / 9], np.float32), 10.0 if there else -1.0, there, self.steps >= 60, {}


@pytest.mark.parametrize("unit", [1.0, 1e4, 1e-4])
def test_a_corridor_is_learnt_in_any_unit_of_rewards(unit):
    env = Corridor()
    explorer = polaug.make_explorer("deep_q", env.observation_space, env.action_space, deep_q=QUICK)
    returns, _ = play(env, explorer, steps=1200, scale=unit)
    assert np.mean(returns[-4:-1]) > 0.0
    places = np.arange(9)[:, None] / 9
    values = explorer.q_values(places)
    assert (values.argmax(axis=1) == 1).all()
    exact = [10.0 * 0.99**k - sum(0.99**j for j in range(k)) for k in range(9)][::-1]
    assert np.abs(values.max(axis=1) / unit - exact).mean() < 1.0


@pytest.mark.parametrize(("ends", "exact"), [("truncated", 10.0), ("terminated", 1.0)])
def test_a_time_limit_is_no_end_of_the_task(ends, exact):
    space = gym.spaces.Box(-1, 1, (1,))
    explorer = polaug.make_explorer("deep_q", space, gym.spaces.Discrete(2), gamma=0.9, deep_q=QUICK | {"n_step": 1})
    seen, flags = np.zeros((1, 1)), {"terminated": np.array([False]), "truncated": np.array([False])}
    flags[ends] = np.array([True])
    for _ in range(1500):
        explorer.observe(polaug.Transitions(seen, explorer.act(seen), np.ones(1), seen, **flags))
    assert explorer.q_values(seen) == pytest.approx(exact, rel=0.05)


def test_it_learns_from_what_others_do():
    env = Corridor()
    watcher = polaug.make_explorer("deep_q", env.observation_space, env.action_space, deep_q=QUICK)
    rng, seen = np.random.default_rng(0), env.reset()[0]
    for _ in range(1200):
        action = int(rng.random() < 0.6)
        following, reward, terminated, truncated, _ = env.step(action)
        watcher.observe(polaug.Transitions(seen[None], np.array([action]), np.array([reward]), following[None],
                                           np.array([terminated]), np.array([truncated])))  # fmt: skip
        seen = env.reset()[0] if terminated or truncated else following
    assert (watcher.q_values(np.arange(9)[:, None] / 9).argmax(axis=1) == 1).all()


def test_state_is_exact_after_updates():
    contract("deep_q", deep_q=QUICK | {"warm_up": 20}).test_saved_state_continues_to_the_bit()
    contract("deep_q", deep_q=QUICK | {"warm_up": 20, "capacity": 40}).test_saved_state_continues_to_the_bit()


def test_huge_rewards_yield_finite_values():
    contract(
        "deep_q", deep_q=QUICK | {"warm_up": 10, "batch_size": 8}
    ).test_adversarial_rewards_never_yield_a_non_finite_value()


def test_bad_options_are_refused_by_name():
    env = Corridor()
    with pytest.raises(InvalidInputError, match="gamma"):
        polaug.make_explorer("deep_q", env.observation_space, env.action_space, gamma=1.0)
    for name, value in (("n_step", 0), ("updates", -1.0), ("epsilon", 2.0), ("tau", 0.0), ("learning_rate", 0.0)):
        with pytest.raises(InvalidInputError, match=f"deep_q.{name}"):
            polaug.make_explorer("deep_q", env.observation_space, env.action_space, deep_q={name: value})
    with pytest.raises(UnknownNameError, match="n_step"):
        polaug.make_explorer("deep_q", env.observation_space, env.action_space, deep_q={"n_steps": 3})


@pytest.mark.parametrize("achieved", [True, False])
def test_what_an_episode_achieved_is_a_lower_bound(achieved):
    """Ten steps of rest end the episode with 1. The observation does not show how long it has rested."""
    space, options = gym.spaces.Box(-1, 1, (1,)), QUICK | {"n_step": 1, "achieved": achieved}
    explorer = polaug.make_explorer("deep_q", space, gym.spaces.Discrete(2), gamma=0.9, deep_q=options)
    seen, rested = np.zeros((1, 1)), 0
    for step in range(1500):
        resting = step % 30 >= 20  # else it moves half of the time
        action = 0 if resting else step % 2
        rested = rested + 1 if action == 0 else 0
        over = np.array([rested == 10])
        explorer.observe(
            polaug.Transitions(seen, np.array([action]), over.astype(float), seen, over, np.zeros(1, np.bool_))
        )
        rested = 0 if over[0] else rested
    value = explorer.q_values(seen).max()
    assert (value > 0.5) == achieved
