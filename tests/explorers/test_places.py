"""Places that look alike are told apart by dead reckoning, and labels suit an agent without memory."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from minigrid.wrappers import ImgObsWrapper, ReseedWrapper

from polaug import Transitions, make_explorer
from polaug.errors import StateError
from polaug.explorers.memoryless import memoryless_path
from polaug.explorers.places import Places, found
from polaug.explorers.returns import Returns
from polaug.explorers.table import Table
from polaug.study.explore import drive
from polaug.testing import states_equal

LEFT, RIGHT, FORWARD = (3, 0, 0), (1, 0, 0), (0, 1, 0)
AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Hall:
    """A hall with pillars of many kinds: the agent sees what is in front of it, 4 kinds of floor or the wall."""

    size = 6

    def __init__(self):
        self.floor = np.random.default_rng(3).integers(4, size=(self.size, self.size))
        self.reset()

    def reset(self):
        self.x, self.y, self.heading = 2, 2, 0

    def seen(self):
        def kind(x, y):
            return self.floor[x, y] if 0 <= x < self.size and 0 <= y < self.size else 4

        dx, dy = AHEAD[self.heading]
        front = kind(self.x + dx, self.y + dy)
        return int(self.floor[self.x, self.y] * 5 + front)

    def step(self, action):
        if action < 2:
            self.heading = (self.heading + (1, -1)[action]) % 4
        elif action == 2:
            x, y = self.x + AHEAD[self.heading][0], self.y + AHEAD[self.heading][1]
            if 0 <= x < self.size and 0 <= y < self.size:
                self.x, self.y = x, y


def walk(steps, actions=4, seed=0):
    """Rows of (environment, observation, action, next observation, over) of a random walk; action 3 does nothing."""
    hall, rng, rows = Hall(), np.random.default_rng(seed), []
    for t in range(steps):
        view, action = hall.seen(), int(rng.integers(actions))
        hall.step(action)
        over = t % 40 == 39
        rows.append((0, view, action, hall.seen(), over))
        if over:
            hall.reset()
    return np.array(rows, dtype=np.int64)


@pytest.mark.parametrize("seed", range(3))
def test_what_actions_do_to_the_position_is_found(seed):
    effects, free = found(walk(1500, seed=seed), 4)
    turns = [tuple(row) for row in effects[:2].tolist()]
    assert sorted(turns) == sorted([LEFT, RIGHT])  # which of them is left is a matter of the map's mirror
    assert np.abs(effects[2]).sum() == 1
    assert effects[2, 0] == 0
    assert effects[3].tolist() == [0, 0, 0]
    assert all(view % 5 != 4 for view, action in free if action == 2)  # a wall in front is an obstacle


def test_chance_has_no_effects():
    rng = np.random.default_rng(0)
    rows = [(0, int(a), int(b), int(c), t % 20 == 19) for t, (a, b, c) in enumerate(rng.integers(4, size=(2000, 3)))]
    assert found(np.array(rows, dtype=np.int64), 4) is None


def test_where_observations_explain_everything_they_are_the_states():
    ring = [(0, s % 7, 0, (s + 1) % 7, False) for s in range(1000)]
    assert found(np.array(ring, dtype=np.int64), 2) is None


@pytest.mark.filterwarnings("ignore:.*ReseedWrapper")
def test_another_room_that_looks_alike_is_entered_and_its_goal_found():
    """With observations as states there is no reason to enter it."""
    env = ImgObsWrapper(ReseedWrapper(gym.make("MiniGrid-FourRooms-v0"), seeds=(9102,)))
    explorer = make_explorer("tabular", env.observation_space, env.action_space, seed=0)
    found_it = drive(env, explorer, episodes=25, seed=0).returns
    assert max(found_it) > 0.6
    assert explorer.statistics()["tells_places_apart"] == 1.0


def test_ice_that_slips_is_not_taken_for_places():
    env = gym.make("FrozenLake-v1", is_slippery=True)
    explorer = make_explorer("tabular", env.observation_space, env.action_space, seed=0)
    drive(env, explorer, episodes=200, seed=0)
    assert explorer.statistics()["tells_places_apart"] == 0.0


def test_the_path_without_memory_does_the_same_where_things_look_the_same():
    """0 → 1 → 2 → goal needs two actions in one observation; 0 → 3 → 4 → 5 → goal does not."""
    table, views = Table(2, Returns(0.9)), [0, 1, 1, 2, 3, 4, 5]
    for s, action, to, ends in ((0, 0, 1, False), (1, 0, 2, False), (1, 1, 1, False), (2, 1, 6, True),
                                (2, 0, 2, False), (0, 1, 3, False), (3, 0, 4, False), (4, 0, 5, False),
                                (5, 0, 6, True)):  # fmt: skip
        table.count(s, action, float(ends), to, ends)
    for _ in range(20):
        table.plan()
    path = memoryless_path(table, 0, views, 0.9)
    assert {view: choice.action for view, choice in path.items()} == {0: 1, 2: 0, 3: 0, 4: 0}
    assert memoryless_path(table, 0, list(range(7)), 0.9)[0].action == 0  # shorter, if 1 and 2 look different


def test_a_loaded_explorer_goes_on_with_its_places_to_the_bit():
    def new():
        return make_explorer("tabular", spaces.Box(0, 25, (1,)), spaces.Discrete(4), seed=0)

    first, hall = new(), Hall()

    def play(explorer, steps):
        chosen = []
        for t in range(steps):
            view = np.array([[float(hall.seen())]])
            action = explorer.act(view)
            hall.step(int(action[0]))
            end = np.array([t % 40 == 39])
            then = np.array([[float(hall.seen())]])
            explorer.observe(Transitions(view, action, np.zeros(1), then, np.zeros(1, bool), end))
            chosen.append(int(action[0]))
            if end[0]:
                hall.reset()
        return chosen

    play(first, 1200)
    assert first.statistics()["tells_places_apart"] == 1.0
    hall.reset()
    first.reset()
    second = new()
    second.load_state_dict(first.state_dict())
    assert states_equal(first.state_dict(), second.state_dict())
    then = play(first, 120)
    hall.reset()
    assert play(second, 120) == then


def test_damaged_effects_are_refused():
    places = Places(4)
    places.effects = np.zeros((3, 3), dtype=np.int64)
    with pytest.raises(StateError, match="effects"):
        places._restored()
