"""The default explorer: what is seen decides between a table and numbers, not how the space is declared."""

from __future__ import annotations

from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from polaug import Transitions, make_explorer
from polaug.features.kinds import CODES, Recurrence, codes, recur
from polaug.study.explore import batch_of_one


class Locked(gym.Env):
    """A key behind a corner, then a door: five small whole numbers (row, column, heading, key, door)."""

    action_space = spaces.Discrete(4)  # turn left, turn right, forward, use
    COUNTS = (5, 5, 4, 2, 2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.heading, self.key, self.open, self.t = [0, 0], 0, 0, 0, 0
        return self.seen(), {}

    def seen(self):
        return np.array([*self.at, self.heading, self.key, self.open])

    def step(self, action):
        self.t += 1
        step = [(0, 1), (1, 0), (0, -1), (-1, 0)][self.heading]
        ahead = [self.at[0] + step[0], self.at[1] + step[1]]
        if action < 2:
            self.heading = (self.heading + 1 - 2 * action) % 4
        elif action == 3:
            self.key |= int(self.at == [4, 0])
            self.open |= int(self.key and ahead == [2, 3])
        elif all(0 <= x < 5 for x in ahead) and (ahead[1] != 3 or (ahead[0] == 2 and self.open)):
            self.at = ahead
        goal = self.at == [4, 4]
        return self.seen(), float(goal), goal, self.t >= 120, {}


class Declared(gym.ObservationWrapper):
    """The same numbers in other clothes."""

    def __init__(self, env, space, observation):
        super().__init__(env)
        self.observation_space, self.observation = space, observation


CLOTHES = {
    "Box": (spaces.Box(0, 10, (5,), np.int64), lambda x: x),
    "MultiDiscrete": (spaces.MultiDiscrete(Locked.COUNTS), lambda x: x),
    "float32": (spaces.Box(-np.inf, np.inf, (5,), np.float32), lambda x: x.astype(np.float32)),
    "Dict": (
        spaces.Dict({str(k): spaces.Discrete(n) for k, n in enumerate(Locked.COUNTS)}),
        lambda x: {str(k): each for k, each in enumerate(x)},
    ),
}  # fmt: skip


def played(env, explorer, steps, seed=0):
    """Returns of the episodes."""
    observation, _ = env.reset(seed=seed)
    returns, total = [], 0.0
    for _ in range(steps):
        action = explorer.act(batch_of_one(observation))
        following, reward, terminated, truncated, _ = env.step(action[0])
        total += reward
        explorer.observe(
            Transitions(batch_of_one(observation), action, [reward], batch_of_one(following), [terminated], [truncated])
        )
        observation = following
        if terminated or truncated:
            returns.append(total)
            total, (observation, _) = 0.0, env.reset()
    return returns


def test_how_a_space_is_declared_changes_nothing():
    results = {}
    for name, (space, observation) in CLOTHES.items():
        env = Declared(Locked(), space, observation)
        explorer = make_explorer("portfolio", env.observation_space, env.action_space, seed=0)
        results[name] = played(env, explorer, 1500)
    assert all(result == results["Box"] for result in results.values())
    assert np.mean(results["Box"][-10:]) > 0.8


def test_numbers_that_are_measured_go_to_the_arms_with_all_steps_so_far():
    env = gym.make("MountainCar-v0")
    explorer = make_explorer("portfolio", env.observation_space, env.action_space, seed=0)
    played(env, explorer, 31)
    assert explorer.statistics()["recurs"] == 1.0
    played(env, explorer, 1)
    assert explorer.statistics()["recurs"] == 0.0
    assert explorer.statistics()["stored"] == 32.0


def test_what_recurs_after_all_goes_to_a_table():
    space = spaces.Box(-1.0, 1.0, (2,), np.float64)
    explorer = make_explorer("portfolio", space, spaces.Discrete(2), seed=0)
    rng = np.random.default_rng(0)
    recurs = []
    for states in (rng.uniform(-1, 1, (100, 2)), np.tile(rng.uniform(-1, 1, (5, 2)), (30, 1))):
        for t, (before, after) in enumerate(pairwise(states)):
            ended = [t % 5 == 4]
            explorer.observe(Transitions(before[None], np.array([0]), [0.0], after[None], ended, [False]))
        recurs.append(explorer.statistics()["recurs"])
    assert recurs == [0.0, 1.0]
    assert explorer.q_values(states[:1]).shape == (1, 2)


@pytest.mark.parametrize(
    ("returned", "looked_at", "before", "after"),
    [
        (0, 10, True, True),
        (0, 40, True, False),
        (10, 64, True, True),
        (10, 64, False, False),
        (60, 64, False, True),
    ],
)
def test_the_decision_is_made_from_counts_and_keeps_to_what_was_decided_in_between(returned, looked_at, before, after):
    assert recur(returned, looked_at, before) is after


def test_places_of_one_episode_alone_do_not_come_back():
    """A walk to and fro returns to its places; if each episode begins elsewhere, they are numbers."""
    for offset, recurs in ((0, True), (100, False)):
        recurrence = Recurrence()
        for episode in range(4):
            for t in range(40):
                recurrence.observe([t % 7 + episode * offset], [t == 39])
        assert recurrence.recurs is recurs


def test_a_whole_episode_of_news_is_no_reason_to_forget_what_came_back():
    recurrence = Recurrence()
    for _ in range(10):
        for t in range(50):
            recurrence.observe([t], [t == 49])
    assert all(recurrence.observe([1000 + t], [t == 99]) for t in range(100))
    assert not all(recurrence.observe([5000 + t], [t % 50 == 49]) for t in range(1000))


def test_codes_tell_rows_apart_and_know_them_again():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [0.0, 1.0 + 1e-15]])
    first, same, *others = codes(rows).tolist()
    assert first == same
    assert len({first, *others}) == 3
    assert all(0 <= code < CODES for code in codes(rows))
    assert codes(rows[::-1].copy()).tolist() == codes(rows).tolist()[::-1]


def test_the_memory_for_what_was_seen_is_bounded():
    recurrence = Recurrence(window=4, memory=10)
    recurrence.observe(range(100), [False] * 100)
    assert len(recurrence._seen) == 10


def test_long_observations_with_a_reward_for_each_step_go_to_networks_which_learn_the_steps_so_far():
    explorer = after_random_steps(seed=0, dimensions=8)
    assert explorer.statistics()["updates"] > 0
    assert "stored" not in explorer.statistics()
    assert set(explorer.played.values()) == {"deep_q"}
    assert explorer.q_values(np.zeros((1, 8))).shape == (1, 4)


@pytest.mark.parametrize(("dimensions", "sparse"), [(6, False), (8, True)])
def test_short_observations_and_sparse_rewards_go_to_the_arms(dimensions, sparse):
    assert after_random_steps(seed=0, dimensions=dimensions, sparse=sparse).statistics()["stored"] == 600.0


def test_how_long_observations_may_be_is_an_option():
    assert after_random_steps(seed=0, dimensions=8, plan_up_to=8).statistics()["stored"] == 600.0


def test_networks_are_saved_and_learn_on_exactly_where_they_were():
    one, other = after_random_steps(seed=0, dimensions=8), after_random_steps(steps=0, seed=3, dimensions=8)
    other.load_state_dict(one.state_dict())
    states = np.random.default_rng(5).normal(size=(120, 8))
    taken = [play_randomly(explorer, states) for explorer in (one, other)]
    assert taken[0] == taken[1]
    assert np.array_equal(one.q_values(states), other.q_values(states))


@pytest.mark.parametrize("at", [5, 31, 100])
def test_a_reset_does_not_decide_what_plays(at):
    explorer = make_explorer("portfolio", spaces.Box(-np.inf, np.inf, (8,), np.float64), spaces.Discrete(4), seed=0)
    states = np.random.default_rng(0).normal(size=(700, 8))
    play_randomly(explorer, states[:at])
    explorer.reset()
    play_randomly(explorer, states[at:])
    assert explorer.statistics()["updates"] > 0


def test_what_recurs_after_all_goes_to_a_table_from_networks_too():
    explorer = after_random_steps(seed=0, dimensions=8)
    play_randomly(explorer, np.tile(np.random.default_rng(1).normal(size=(5, 8)), (200, 1)), length=5)
    assert explorer.statistics()["recurs"] == 1.0


def test_options_of_the_networks_reach_them():
    assert after_random_steps(seed=0, dimensions=8, deep_q={"warm_up": 590}).statistics()["updates"] == 10.0


def after_random_steps(*, seed, dimensions, steps=600, sparse=False, **options):
    space = spaces.Box(-np.inf, np.inf, (dimensions,), np.float64)
    explorer = make_explorer("portfolio", space, spaces.Discrete(4), seed=seed, **options)
    play_randomly(explorer, np.random.default_rng(seed).normal(size=(steps + 1, dimensions)), sparse=sparse)
    return explorer


def play_randomly(explorer, states, *, sparse=False, length=50):
    taken = []
    for t, (before, after) in enumerate(pairwise(states)):
        action, reward = explorer.act(before[None]), round(after[0]) if sparse else after[0]
        ended = [t % length == length - 1]
        explorer.observe(Transitions(before[None], action, [reward], after[None], ended, [False]))
        taken.append(int(action[0]))
    return taken
