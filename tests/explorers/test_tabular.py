"""`tabular` solves what counting can solve, in few episodes."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.variants import PermutedIds
from gymnasium import spaces

import polaug
from polaug.errors import InvalidInputError
from polaug.explorers import planning
from polaug.explorers.returns import Returns
from polaug.explorers.table import EXPLOITING, EXPLORING, Table, TabularOptions
from polaug.explorers.translations import MOST_ACTIONS, Translations
from polaug.snapshot import restore, snapshot
from polaug.streams import stream
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


@pytest.mark.parametrize("seed", range(3))
def test_the_lake_is_crossed_on_the_shortest_path_whatever_the_ids(seed):
    """35 to 39 episodes without predicted next states."""
    result = play(PermutedIds(task("FrozenLake8x8").make(), seed), "tabular", 22, seed)
    assert min(episode.length for episode in result.episodes if episode.return_ == 1.0) == 14


def test_ids_mean_nothing():
    """Renamed states are the same states: the same choices, to the bit."""
    plain, other = (Renamed(seed) for seed in (None, 3))
    for _ in range(300):
        assert plain.step() == other.step()


class Renamed:
    """A walk on a 5 x 5 torus by `tabular`, which sees other ids."""

    def __init__(self, seed):
        self.ids = np.arange(25) if seed is None else np.random.default_rng(seed).permutation(25)
        self.explorer = polaug.make_explorer("tabular", spaces.Discrete(25), spaces.Discrete(4), seed=0)
        self.at = 0

    def step(self):
        action = int(self.explorer.act(self.ids[[self.at]])[0])
        x, y = divmod(self.at, 5)
        to = (x + (0, 0, 1, -1)[action]) % 5 * 5 + (y + (1, -1, 0, 0)[action]) % 5
        reward, no = float(to == 13), np.array([False])
        step = (self.ids[[self.at]], np.array([action]), np.array([reward]), self.ids[[to]], no, no)
        self.explorer.observe(polaug.Transitions(*step))
        self.at = to
        return action


def test_slippery_ice_is_crossed_more_often_than_at_random():
    lake = task("FrozenLake-v1")
    ours = explore(lake, "tabular", episodes=200).returns
    chance = explore(lake, "random", episodes=200).returns
    assert np.mean(ours[100:]) > 0.4 > 4 * np.mean(chance)


def counted(actions=2, states=30, steps=1000, seed=0, **options):
    """A table of transitions at random, planned at every step."""
    rng, table = stream(seed, "test"), Table(actions, Returns(0.9), TabularOptions(**options))
    places = rng.integers(states, size=steps + 1).tolist()
    for s, to in itertools.pairwise(places):
        table.count(s, int(rng.integers(actions)), float(rng.random()), to, bool(rng.random() < 0.1))
        table.plan()
    return table


def test_a_loaded_table_goes_on_to_the_bit():
    """Counting goes on in the same edges, planning in the same queue."""
    table = counted(budget=3)
    loaded = Table(2, Returns(0.9), TabularOptions(budget=3))
    restore(loaded, snapshot(table))
    for each in (table, loaded):
        rng = stream(9, "test")
        for s, to in itertools.pairwise(rng.integers(60, size=500).tolist()):
            each.count(s, int(rng.integers(2)), 0.5, to, False)
            each.plan()
        each.episode_ended()
    assert states_equal(snapshot(table), snapshot(loaded))


@pytest.mark.parametrize("mode", [EXPLOITING, EXPLORING])
def test_sweeping_gives_the_values_of_full_value_iteration(mode):
    table = counted(states=20, steps=60)
    for _ in range(300):
        table.plan(10)
    slow = np.zeros(20) if mode == EXPLOITING else np.full(20, table._optimum)
    for _ in range(300):
        slow = np.array([reference_value(table, s, slow, mode) for s in range(20)])
    assert np.allclose([table.values(s, mode).max() for s in range(20) if table._tables.tries[s].any()],
                       [slow[s] for s in range(20) if table._tables.tries[s].any()], atol=1e-3)  # fmt: skip


def reference_value(table, s, V, mode):
    """The best of all pairs' values by the definition, edge by edge."""
    t, (explores, optimum, doubt) = table._tables, table._settings(mode)
    values = []
    for a in range(2):
        edges = [e for e in range(table._edges) if t.source[e] == s and t.action[e] == a]
        n = sum(int(t.times[e]) for e in edges)
        total = sum(t.reward[e] + (0.0 if t.ends[e] else 0.9 * t.times[e] * V[t.to[e]]) for e in edges)
        if n:
            values.append((total + doubt * optimum) / (n + doubt))
        elif explores:
            values.append(planning.untried_value(t, s, a, V, 0.9, optimum))
    return max(values, default=0.0)


@pytest.mark.parametrize("kernel", [planning.state_value, planning.state_value.py_func])
@pytest.mark.parametrize("actions", [3, 40])
def test_a_state_is_worth_its_best_pair_tried_or_not(actions, kernel):
    table = counted(actions, steps=90)
    V = stream(1, "test").uniform(-1.0, 2.0, 64)
    for s, explores in itertools.product(range(30), (False, True)):
        settings = (V, 0.9, explores, 1.5, 0.2)
        slow = max(planning.pair_value(table._tables, s, a, *settings) for a in range(actions))
        value = kernel(table._tables, s, *settings)[0]
        assert value == (slow if explores or slow > planning.NEVER else 0.0)


def test_the_work_of_a_step_is_bounded():
    """A budget of 5 updates 5 states, the rest wait."""
    table = counted(budget=5)
    for s in range(30):
        table._wait(EXPLORING, s)
    table.plan()
    assert len(table._in_queue(EXPLORING)) >= 25


def grid(width=7):
    """Right, left, down, up."""
    for x, y in itertools.product(range(width), repeat=2):
        for a, (dx, dy) in enumerate(((1, 0), (-1, 0), (0, 1), (0, -1))):
            if 0 <= x + dx < width and 0 <= y + dy < width:
                yield x * width + y, a, (x + dx) * width + y + dy


def test_translations_are_found_from_loops():
    """From half of a grid's pairs in any order nearly all the others are predicted."""
    edges = list(grid())
    order = stream(0, "test").permutation(len(edges))
    translations = Translations(4)
    for k in order[: len(edges) // 2]:
        translations.learn(*edges[k])
    d = np.array(translations.displacements)
    assert (d[0] == -d[1]).all()
    assert (d[2] == -d[3]).all()
    rest = [edges[k] for k in order[len(edges) // 2 :]]
    right = [translations.predict(s, a) == to for s, a, to in rest]
    assert np.mean(right) > 0.9
    assert all(translations.origin(to, a) in (s, -1) for s, a, to in rest)


def test_where_actions_are_no_translations_predictions_are_not_trusted():
    table, rng = Table(2, Returns(0.99)), stream(0, "test")
    for s in rng.permutation(200).tolist():
        for a in range(2):
            table.count(s, a, 0.0, int(rng.integers(200)), False)
    table.episode_ended()
    assert (table._tables.trust == 0.0).all()


def test_many_actions_have_no_translations():
    assert Table(MOST_ACTIONS + 1, Returns(0.99))._translations is None


def test_observations_that_come_back_are_states_whatever_their_space():
    """A grid given as two numbers is explored as if it were given by ids."""
    explorer = polaug.make_explorer("tabular", spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2), seed=0)
    states = np.array([[0.5, -0.5], [0.25, 0.0]], dtype=np.float32)
    no = np.array([False])
    for here, there in ((0, 1), (1, 0), (0, 1)):
        explorer.observe(polaug.Transitions(states[[here]], np.array([0]), np.zeros(1), states[[there]], no, no))
    assert explorer.statistics()["visited_states"] == 2


def test_acting_learns_nothing():
    explorer = polaug.make_explorer("tabular", spaces.Discrete(5), spaces.Discrete(3), seed=0)
    before = explorer.state_dict()
    explorer.act(np.arange(5))
    after = explorer.state_dict()
    assert states_equal({k: v for k, v in before.items() if k != "generator"},
                        {k: v for k, v in after.items() if k != "generator"})  # fmt: skip


@pytest.mark.parametrize("options", [{"gamma": 1.0}, {"caution": -1.0}, {"patience": 0}, {"budget": 0.5}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        polaug.make_explorer("tabular", spaces.Discrete(2), spaces.Discrete(2), **options)


@pytest.mark.parametrize("name", ["tabular", "portfolio"])
def test_a_relabelled_episode_tells_the_way_to_its_goal_and_counts_as_no_episode(name):
    cells = spaces.Discrete(5)
    space = spaces.Dict(observation=cells, achieved_goal=cells, desired_goal=cells)
    explorer = polaug.make_explorer(name, space, spaces.Discrete(2), seed=0)

    def seen(at, goal):
        at = np.array(at)
        return {"observation": at, "achieved_goal": at, "desired_goal": np.full(len(at), goal)}

    right, ends = np.ones(3, np.int64), [False, False, True]
    way = polaug.Transitions(seen([0, 1, 2], 3), right, [0.0, 0.0, 1.0], seen([1, 2, 3], 3), ends, [False] * 3)
    explorer.observe_hindsight(way)
    explorer.observe(polaug.Transitions(seen([0], 4), right[:1] - 1, [0.0], seen([0], 4), [False], [False]))
    assert explorer.steps == 1
    np.testing.assert_array_equal(explorer.greedy(seen([0, 1, 2], 3)), right)


def test_it_searches_until_a_reward_is_above_0():
    def step(explorer, state, reward, to, ends):
        one = (
            np.array([state]),
            np.array([0]),
            np.array([reward]),
            np.array([to]),
            np.array([ends]),
            np.array([False]),
        )
        explorer.observe(polaug.Transitions(*one))

    for name in ("tabular", "portfolio"):
        explorer = polaug.make_explorer(name, spaces.Discrete(4), spaces.Discrete(2), seed=0)
        assert explorer.searching
        step(explorer, 0, -0.01, 1, False)
        assert explorer.searching
        step(explorer, 1, 1.0, 2, True)
        assert not explorer.searching
    assert not polaug.make_explorer("random", spaces.Discrete(4), spaces.Discrete(2)).searching
