"""`tabular` solves what counting can solve, in few episodes."""

import itertools
from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import UnsupportedSpaceError
from polaug.exploration import planning
from polaug.exploration.returns import Returns
from polaug.exploration.table import Table
from polaug.study import explore, task
from polaug.study.explore import drive
from polaug.testing import states_equal


def play(env, explorer, episodes, seed=0):
    made = polaug.make_explorer(explorer, env.observation_space, env.action_space, seed=seed)
    return drive(env, made, episodes=episodes, seed=seed)


@pytest.mark.parametrize("seed", range(3))
def test_deep_sea_is_solved_and_not_by_random(seed):
    env = gym.make("polaug/DeepSea-v0", size=10)
    found = play(env, "tabular", 100, seed)
    assert max(found.returns) == pytest.approx(0.99)
    assert found.returns[-1] == pytest.approx(0.99)
    assert np.mean(play(env, "random", 100, seed).returns) < 0.05  # one episode in 2^10 finds the chest


@pytest.mark.parametrize("seed", range(2))
def test_the_cliff_is_walked_along_the_shortest_path(seed):
    returns = explore("CliffWalking-v1", "tabular", episodes=40, seed=seed).returns
    assert max(returns[:30]) == -13.0
    assert np.median(returns[-10:]) == -13.0


@pytest.mark.parametrize("untried", range(3))
@pytest.mark.parametrize("reward", [-1.0, 0.0])
def test_what_is_taught_is_no_action_that_was_never_tried(untried, reward):
    """Returns are of 20 steps, values go on after them: the worst return would look good."""
    explorer = polaug.make_explorer("tabular", spaces.Discrete(5), spaces.Discrete(3), seed=0)
    rng, state = np.random.default_rng(0), 0
    for t in range(600):
        walks = int(rng.integers(2))
        action, then, cut = [a for a in range(3) if a != untried][walks], (state + 1 + walks) % 5, t % 20 == 19
        step = (np.array([state]), np.array([action]), np.array([reward]), np.array([then]))
        explorer.observe(polaug.Transitions(*step, np.array([False]), np.array([cut])))
        state = 0 if cut else then
    assert not (explorer.greedy(np.arange(5)) == untried).any()


def test_the_lake_is_crossed_on_the_shortest_path():
    result = explore("FrozenLake8x8", "tabular", episodes=40)
    assert min(episode.length for episode in result.episodes if episode.return_ == 1.0) == 14


def test_slippery_ice_is_crossed_more_often_than_at_random():
    lake = task("FrozenLake-v1")
    ours = explore(lake, "tabular", episodes=200).returns
    chance = explore(lake, "random", episodes=200).returns
    assert np.mean(ours[100:]) > 0.4 > 4 * np.mean(chance)


def uniform_steps(table, rng, steps, rows=30):
    """Count steps of pure chance; gives how many of them were worth planning anew."""
    places = rng.integers(rows, size=steps + 1).tolist()
    return sum(table.count(a, int(rng.integers(2)), 0.0, b, False) for a, b in itertools.pairwise(places))


def test_on_a_task_of_chance_planning_becomes_rare():
    table, rng = Table(30, 2, Returns(0.99), sparing=True), np.random.default_rng(0)
    first, *_, last = (uniform_steps(table, rng, 1000) for _ in range(6))
    assert first > 300
    assert 0 < last < 100
    eager, rng = Table(30, 2, Returns(0.99)), np.random.default_rng(0)
    assert uniform_steps(eager, rng, 6000) > 5000


def test_what_was_never_tried_is_always_news():
    table = Table(100, 2, Returns(0.99), sparing=True)
    uniform_steps(table, np.random.default_rng(0), 3000)
    assert table.count(70, 0, 0.0, 71, False)
    assert not table.count(70, 0, 0.0, 71, False)
    assert table.count(70, 0, 0.0, 72, False)


def test_a_loaded_table_knows_its_edges():
    """Counting goes on in the same edges, which it finds without walking along them."""
    table, loaded = Table(30, 2, Returns(0.99), sparing=True), Table(30, 2, Returns(0.99), sparing=True)
    uniform_steps(table, np.random.default_rng(0), 2000)
    loaded.load_state_dict(table.state_dict())
    for each in (table, loaded):
        uniform_steps(each, np.random.default_rng(9), 500)
    assert states_equal(table.state_dict(), loaded.state_dict())


def busy(actions, states=500, tries=4):
    """A table in which `tries` random actions were tried in every state, most of them moving by their number."""
    table, rng = Table(states, actions, Returns(0.9)), np.random.default_rng(0)
    for row in range(states):
        for action in rng.permutation(actions)[:tries].tolist():
            to = (row + action) % states if rng.random() < 0.9 else int(rng.integers(states))
            table.count(row, action, float(rng.random()), to, bool(rng.random() < 0.1))
    return table


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("actions", [3, 40])
def test_a_state_is_worth_its_best_pair_tried_or_not(actions, loaded):
    table = busy(actions, states=60, tries=3)
    if loaded:
        state, table = table.state_dict(), Table(60, actions, Returns(0.9))
        table.load_state_dict(state)
    tables, V = table._tables, np.random.default_rng(1).uniform(-1.0, 2.0, (2, len(table._tables.row)))
    trusted = np.flatnonzero(tables.trust > 0.0)
    assert len(trusted)
    for kernel in (planning.state_value, planning.state_value.py_func):
        for s, head in itertools.product(range(len(table)), (0, 1)):
            settings = (V[head], 0.9, bool(head), 1.5, 0.2)
            slow = max(planning.pair_value(tables, s, a, *settings) for a in range(actions))
            assert kernel(tables, s, *settings, trusted)[0] == slow
    assert np.array_equal(table.pairs(7, 1), [slow_pair(table, 7, a) for a in range(actions)])


def slow_pair(table, row, action):
    return planning.pair_value(table._tables, table._numbers[row], action, table._V[1], 0.9, *table._head(1))


@pytest.mark.parametrize(("tries", "updates"), [(4, 400), (100, 34)])
def test_updates_are_fewer_the_more_pairs_each_has_to_walk(tries, updates):
    """400 of up to eight pairs; of a hundred, each counts as twelve."""
    table = busy(100, tries=tries)
    tables, states = table._tables, len(table)
    tables.trust[:] = 0.0
    for curious in (False, True):
        at, _ = planning.sweep(tables, states, np.zeros(len(tables.row)), 0.9, curious, 1.0, 0.0, states, 400, 0.0)
        assert at == states - updates


def test_an_action_is_trusted_by_how_usually_it_moves_by_the_same():
    """As by counting every shift, up to 64 different ones."""
    table, rng, seen = Table(10_000, 1, Returns(0.99)), np.random.default_rng(0), Counter()
    for row in range(300):
        shift = 7 if rng.random() < 0.6 else int(rng.integers(8, 60))
        table.count(row, 0, 0.0, row + shift, False)
        seen[shift] += 1
        usual, times = seen.most_common(1)[0]
        assert table._tables.trust[0] == max(2.0 * times / (row + 3.0) - 1.0, 0.0)
        assert table._tables.trust[0] == 0.0 or table._tables.shift[0] == usual


def test_scrambled_labels_do_not_fill_the_memory_with_shifts():
    table, rng = Table(100_000, 2, Returns(0.99), sparing=True), np.random.default_rng(0)
    for row in rng.permutation(50_000)[:3000].tolist():
        table.count(row, 0, 0.0, int(rng.integers(100_000)), False)
        table.count(row, 1, 0.0, row + 5 if rng.random() < 0.8 else int(rng.integers(100_000)), False)
    assert max(map(len, table._shifts)) <= 64
    assert table._tables.trust[0] == 0.0
    assert table._tables.shift[1] == 5
    assert 0.5 < table._tables.trust[1] < 0.62


def test_numbers_are_refused_with_a_remedy():
    with pytest.raises(UnsupportedSpaceError, match="committee"):
        polaug.make_explorer("tabular", spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2))
