"""Counting cells: walls are walls, the grid follows the range and the steps, and nobody is called without need."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import StateError
from polaug.exploration.base import Batch
from polaug.exploration.cells import Cells
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store


class Rooms(gym.Env):
    """Two rooms and a doorway far from start and goal; only the goal pays."""

    observation_space, action_space = spaces.Box(0, 1, (2,)), spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = np.array([0.1, 0.1]) + self.np_random.uniform(0, 0.05, 2), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        move = np.array([[0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05]])[action]
        there = np.clip(self.place + move + self.np_random.normal(0, 0.005, 2), 0, 1)
        if (self.place[0] - 0.5) * (there[0] - 0.5) < 0 and not 0.7 < there[1] < 0.85:
            there[0] = self.place[0]
        self.place, self.steps = there, self.steps + 1
        found = bool(np.linalg.norm(there - [0.9, 0.1]) < 0.08)
        return there.astype(np.float32), float(found), found, self.steps >= 200, {}


class Tiles(gym.ObservationWrapper):
    """The rooms as 41 by 41 tiles."""

    def __init__(self):
        super().__init__(Rooms())
        self.observation_space = spaces.MultiDiscrete([41, 41])

    def observation(self, observation):
        return np.rint(40 * observation).astype(np.int64)


class Walk:
    """An explorer in an environment, step by step."""

    def __init__(self, env, seed):
        self.env = env
        self.explorer = polaug.make_explorer("committee", env.observation_space, env.action_space, seed=seed)
        self.observation, _ = env.reset(seed=seed)
        self.returns, self.total = [], 0.0

    def step(self):
        action = self.explorer.act(self.observation[None])
        following, reward, terminated, truncated, _ = self.env.step(action[0])
        self.last = polaug.Transitions(
            self.observation[None], action, np.array([float(reward)]), following[None], np.array([terminated]),
            np.array([truncated]),
        )  # fmt: skip
        self.explorer.observe(self.last)
        self.total, self.observation = self.total + float(reward), following
        if terminated or truncated:
            self.returns.append(self.total)
            self.total, self.observation = 0.0, self.env.reset()[0]
        return int(action[0])

    def episodes(self, n):
        while len(self.returns) < n:
            self.step()
        return self.returns


def test_a_doorway_is_found_and_used_again():
    walk = Walk(Rooms(), seed=0)
    returns = walk.episodes(40)
    assert np.mean(returns[-10:]) >= 0.5
    assert walk.explorer.statistics()["plays_cells"] > 5


def test_who_does_well_calls_nobody():
    walk = Walk(gym.make("MountainCar-v0"), seed=0)
    walk.episodes(14)
    assert walk.explorer.statistics()["plays_cells"] == 0
    assert not walk.explorer._members["cells"].ready  # and so it costs nothing


@pytest.mark.parametrize("rooms", [Rooms, Tiles])
def test_a_saved_committee_that_counts_goes_on_to_the_bit(rooms):
    walk = Walk(rooms(), seed=0)
    walk.episodes(18)
    while walk.explorer._runs.get(0) is None or walk.explorer._runs[0].member != "cells":
        walk.step()
    twin = polaug.make_explorer("committee", walk.env.observation_space, walk.env.action_space, seed=7)
    twin.load_state_dict(walk.explorer.state_dict())
    for _ in range(450):
        expected = int(twin.act(walk.observation[None])[0])
        assert walk.step() == expected
        twin.observe(walk.last)


def counted(flat, following, actions, bounds=None):
    """Cells over a store that holds these steps, and the batch."""
    n = len(flat)
    batch = Batch(flat, actions, np.eye(2)[actions], np.zeros(n), following, np.zeros(n, bool), np.zeros(n, bool),
                  flat, following)  # fmt: skip
    store = Store(flat.shape[1], 2, 1000)
    store.add(batch, np.random.default_rng(0))
    return Cells(store, 2, Returns(0.99), 0, bounds), store


def test_cells_are_two_steps_wide_and_counted_exactly():
    rng = np.random.default_rng(0)
    flat = rng.uniform(0, 1, (500, 2))
    actions = rng.integers(2, size=500)
    following = np.clip(flat + np.array([[0.1, 0.0], [0.0, 0.1]])[actions], 0, 1)
    cells, _ = counted(flat, following, actions)
    cells.begin(0)
    assert cells._across.tolist() == pytest.approx([5, 5], abs=1)
    k, everything = cells._across, np.concatenate([flat, following])
    low, high = everything.min(axis=0), everything.max(axis=0)
    places = [tuple(min(int(np.floor((x[i] - low[i]) / (high[i] - low[i]) * k[i])), k[i] - 1) for i in (0, 1))
              for x in flat]  # fmt: skip
    for place in np.ndindex(*k):
        number = cells._table._numbers.get(place[0] * int(k[1]) + place[1])
        wanted = [sum(p == place and a == action for p, a in zip(places, actions, strict=True)) for action in range(2)]
        assert ([0, 0] if number is None else cells._table._tables.tries[number].tolist()) == wanted


def test_whole_numbers_have_a_cell_each():
    flat = np.random.default_rng(0).integers([0, 3], [40, 43], (200, 2)).astype(float)
    bounds = np.array([0.0, 3.0]), np.array([59.0, 102.0])
    cells, _ = counted(flat[:-1], flat[1:], np.zeros(199, dtype=np.int64), bounds)
    cells.begin(0)
    assert len(np.unique(cells._rows(flat))) == len(np.unique(flat, axis=0))
    assert cells._across.tolist() == [60, 100]
    assert not cells._outgrown()
    twin, _ = counted(flat[:-1], flat[1:], np.zeros(199, dtype=np.int64), bounds)
    twin.load_state_dict(cells.state_dict())
    assert np.array_equal(twin._rows(flat), cells._rows(flat))


def test_the_grid_is_laid_anew_when_more_is_seen():
    flat = np.linspace(0, 1, 101)[:, None]
    actions = np.zeros(100, dtype=np.int64)
    cells, store = counted(flat[:-1], flat[1:], actions)
    cells.begin(0)
    before = cells._width.copy()
    far = flat + 1.0
    more = Batch(far[:-1], actions, np.eye(2)[actions], np.zeros(100), far[1:], np.zeros(100, bool),
                 np.zeros(100, bool), far[:-1], far[1:])  # fmt: skip
    store.add(more, np.random.default_rng(0))
    cells.begin(0)
    assert (cells._width > before).all()
    assert len({int(row) for row in cells._rows(np.array([[0.1], [0.9], [1.9]]))}) == 3


def test_a_state_of_other_cells_is_refused():
    flat = np.linspace(0, 1, 11)[:, None]
    cells, _ = counted(flat[:-1], flat[1:], np.zeros(10, dtype=np.int64))
    cells.begin(0)
    state = cells.state_dict()
    with pytest.raises(StateError, match="cells"):
        cells.load_state_dict(state | {"_across": np.array([10**9])})


@pytest.mark.filterwarnings("error")
def test_dimensions_without_width_and_giants_have_cells():
    rng = np.random.default_rng(0)
    noise = 5.0 + 1e-12 * rng.uniform(size=200)
    flat = np.column_stack([rng.uniform(0, 1, 200), np.full(200, 3.0), noise, np.where(np.arange(200) == 7, 1e9, 0.0)])
    cells, store = counted(flat[:-1], flat[1:], np.zeros(199, dtype=np.int64))
    cells.begin(0)
    assert cells._across[1] == cells._across[2] == 1
    other = flat[:1] + np.array([[0.0, 5.0, 0.0, 1e100]])
    assert cells._rows(other)[0] % cells._across[3] == cells._across[3] - 1
    assert np.isfinite(cells.values(other)).all()
    more = Batch(other, np.zeros(1, dtype=np.int64), np.eye(2)[:1], np.zeros(1), other, np.zeros(1, bool),
                 np.zeros(1, bool), other, other)  # fmt: skip
    store.add(more, np.random.default_rng(0))
    cells.learn(more, playing=True)
    assert cells._outgrown()


@pytest.mark.parametrize(("returns", "calls"), [
    ([500.0] * 60, False),  # nobody was ever better
    ([20.0, 30.0, 500.0, *[500.0] * 60], False),
    ([0.0] * 11, False),
    ([0.0] * 12, True),
    ([0.0, 1.0, *[0.0] * 10], True),  # it was luck
])  # fmt: skip
def test_constant_success_is_no_failure(returns, calls):
    env = gym.make("CartPole-v1")
    contest = polaug.make_explorer("committee", env.observation_space, env.action_space)._contest
    if max(returns) > 0:
        contest._returns.best_reward = 1.0
    for total in returns:
        contest.ended(total, own=True)
    assert contest._called == calls


def test_what_others_drive_is_no_failure_of_ours():
    env = gym.make("CartPole-v1")
    contest = polaug.make_explorer("committee", env.observation_space, env.action_space)._contest
    for _ in range(60):
        contest.ended(0.0, own=False)
    assert not contest._called


def test_many_dimensions_or_actions_are_left_to_others():
    assert Cells.suits(2, 4)
    assert not Cells.suits(8, 4)
    assert not Cells.suits(2, 81)
