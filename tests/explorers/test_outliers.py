"""Broken readings: a few of them leave the scale of everything else as it is."""

import gymnasium as gym
import numpy as np
import pytest

import polaug
from polaug.explorers.base import Batch
from polaug.explorers.buffer import Buffer
from polaug.study.explore import drive


def stored(values, capacity=4000):
    """A store that has seen a walk along values (n, d)."""
    values = np.asarray(values, dtype=float)
    n, store = len(values) - 1, Buffer(values.shape[1], 2, capacity)
    flat, following, none = values[:-1], values[1:], np.zeros(n, bool)
    actions = np.zeros(n, dtype=np.int64)
    batch = Batch(flat, actions, np.eye(2)[actions], np.zeros(n), following, none, none)
    store.add(batch, np.random.default_rng(0))
    return store


def walk(n, d=2):
    return np.cumsum(np.random.default_rng(0).normal(size=(n, d)), axis=0)


@pytest.mark.parametrize("n", [30, 300, 3000])
@pytest.mark.parametrize("reading", [1e4, -1e4, 1e90])
def test_a_broken_reading_does_not_stretch_the_scale(n, reading):
    plain = walk(n)
    broken = plain.copy()
    broken[n // 2, 1] = reading
    store, whole = stored(broken), stored(np.delete(plain, n // 2, axis=0))
    assert np.array_equal(store.bounds(), (whole.low, whole.high))
    assert np.array_equal(store.scale(), whole.scale())
    assert np.count_nonzero(~store.plausible(store.states[: store.size])) <= 1


def test_what_has_left_the_store_no_longer_counts():
    plain = walk(5000)
    plain[3, 0] = 1e6
    store = stored(plain, capacity=200)
    assert store.states.max() < 1e3 < store.high[0]
    assert store.bounds()[1][0] < 1e3


@pytest.mark.parametrize(
    "values",
    [
        walk(2000),
        np.random.default_rng(0).normal(size=(2000, 2)),
        np.where(np.arange(2000) == 700, 1.0, 0.0)[:, None],  # a flag
        np.where(np.arange(2000) == 700, 1.0, 5.0 + 1e-12 * np.arange(2000))[:, None],  # rounding
        np.concatenate([np.sin(np.arange(2000)), np.arange(1.0, 60.0)])[:, None],  # the way to a place far off
    ],
    ids=["walk", "normal", "flag", "rounding", "way"],
)
def test_what_is_rare_is_no_outlier(values):
    store = stored(values)
    assert np.array_equal(store.bounds(), (store.low, store.high))
    assert store.plausible(store.states[: store.size]).all()


class Broken(gym.ObservationWrapper):
    """The velocity reads 50 once, after `at` observations; −0.07 to 0.07 is what there is."""

    def __init__(self, env, at):
        super().__init__(env)
        self.at, self.seen = at, 0

    def observation(self, observation):
        self.seen += 1
        return np.array([observation[0], 50.0], np.float32) if self.seen == self.at else observation


@pytest.mark.parametrize("at", [40, 202])  # in the first episode, and the start of the second
@pytest.mark.parametrize("name", ["portfolio", "model"])
def test_the_car_reaches_the_flag_though_its_speedometer_was_broken_once(name, at):
    env = Broken(gym.make("MountainCar-v0"), at)
    explorer = polaug.make_explorer(name, env.observation_space, env.action_space, seed=3)
    returns = drive(env, explorer, episodes=10, seed=3).returns
    assert sum(total > -200.0 for total in returns) >= 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["portfolio", "model", "policy_search", "optimistic"])
@pytest.mark.parametrize("size", [1e300, 1e100, 1e-300])
def test_the_largest_and_smallest_observations_lead_to_no_warning(name, size):
    space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    explorer = polaug.make_explorer(name, space, gym.spaces.Discrete(2), seed=0)
    rng = np.random.default_rng(0)
    for t in range(90):
        seen, then = size * rng.standard_normal((2, 1, 2)).clip(-1, 1)
        actions, ended = explorer.act(seen), np.array([t % 20 == 19])
        explorer.observe(polaug.Transitions(seen, actions, rng.normal(size=1), then, ended, np.array([False])))
    values = explorer.q_values(seen)
    assert values is None or np.isfinite(values).all()
