"""Maps count every step, know returns only once episodes have ended, keep few snapshots, and disturb nothing."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.explorers import Explorer
from polaug.study import explore
from polaug.study import maps as maps_module
from polaug.study.explore import drive
from polaug.study.maps import CELLS, SNAPSHOTS, MapRecorder

PLANE = spaces.Box(np.array([0.0, -1.0]), np.array([1.0, 1.0]), dtype=np.float64)


class Known(Explorer):
    """Q̂ is a formula of the observation."""

    def __init__(self, observation_space, action_space, weights, ready=True):
        super().__init__(observation_space, action_space)
        self.weights, self.ready, self.asked = np.array(weights), ready, 0

    def _choose(self, flat, states):
        return np.zeros(len(flat), dtype=np.int64)

    def _learn(self, batch):
        pass

    def _q_values(self, flat, states):
        self.asked += len(flat)
        value = flat @ self.weights
        return np.stack([value, -value], axis=1) if self.ready else None

    def _uncertainty(self, flat, states):
        return np.abs(flat[:, 0]) if self.ready else None


def one_episode(recorder, states, rewards, actions=None):
    for k, (state, reward) in enumerate(zip(states, rewards, strict=True)):
        action = 0 if actions is None else actions[k]
        recorder.observe(np.array([state]), np.array([action]), [reward], [k == len(states) - 1])


@pytest.mark.parametrize("space", [
    spaces.Discrete(4), spaces.Box(0, 1, (1,)), spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Box(0, 1, (65,)),
    spaces.Dict({"a": spaces.Box(0, 1, (2,))}), spaces.Box(0, 9, (2,), np.int64),
])  # fmt: skip
def test_what_has_no_two_numbers_has_no_maps(space):
    assert MapRecorder.of(space, spaces.Discrete(2)) is None


def test_the_layout_is_the_one_of_the_run_folder():
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2))
    one_episode(recorder, [[0.1, 0.1], [0.9, -0.9]], [1.0, 2.0])
    recorder.snapshot(2, Known(PLANE, spaces.Discrete(2), [1.0, 0.0]))
    maps = recorder.state()
    grid = (1, CELLS, CELLS)
    assert {name: array.shape for name, array in maps.items()} == {
        "steps": (1,), "dimensions": (2,), "median": (2,), "edges": (2, CELLS + 1), "visits": grid, "observed": grid,
        "completed": grid, "choice": grid, "uncertainty": grid, "singular_values": (1, 2),
    }  # fmt: skip
    assert maps["visits"].sum() == 2
    assert maps["edges"][:, [0, -1]].tolist() == [[0.0, 1.0], [-1.0, 1.0]]  # the bounds, in the order of the space


def test_returns_are_discounted_and_the_best_action_counts():
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2), gamma=0.5)
    state = [0.3, 0.3]
    one_episode(recorder, [state, state], [1.0, 4.0], actions=[0, 1])  # returns 3 of action 0, 4 of action 1
    one_episode(recorder, [state], [7.0], actions=[0])  # the mean of action 0 becomes 5
    recorder.snapshot(3, None)
    observed = recorder.state()["observed"][0]
    assert np.isfinite(observed).sum() == 1
    assert observed[int(0.3 * CELLS), int(0.65 * CELLS)] == 5.0


def test_returns_are_known_when_the_episode_has_ended_and_visits_at_once():
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2))
    for step in range(1, 5):
        ends = [step == 3]
        recorder.observe(np.array([[0.5, 0.0]]), np.array([0]), [1.0], ends)
        recorder.snapshot(step, None)
    maps = recorder.state()
    assert maps["steps"].tolist() == [1, 2, 3, 4]
    assert maps["visits"].sum(axis=(1, 2)).tolist() == [1, 2, 3, 4]
    assert np.isfinite(maps["observed"]).any(axis=(1, 2)).tolist() == [False, False, True, True]


def test_several_environments_do_not_mix():
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2), gamma=1.0)
    low, high = [0.1, 0.0], [0.9, 0.0]
    recorder.observe(np.array([low, high]), np.array([0, 0]), [1.0, 10.0], [False, False])
    recorder.observe(np.array([low, high]), np.array([0, 0]), [1.0, 10.0], [True, True])
    recorder.snapshot(4, None)
    observed = recorder.state()["observed"][0]
    assert np.nanmin(observed) == 1.5
    assert np.nanmax(observed) == 15.0


def test_beliefs_are_those_at_the_centres_and_of_their_time():
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2))
    explorer = Known(PLANE, spaces.Discrete(2), [1.0, 2.0], ready=False)
    for step, weights in ((1, [1.0, 2.0]), (2, [1.0, 2.0]), (3, [-3.0, 0.0])):
        explorer.ready, explorer.weights = step > 1, np.array(weights)
        one_episode(recorder, [[0.2, 0.2]], [0.0])
        recorder.snapshot(step, explorer)
    maps = recorder.state()
    x = (np.arange(CELLS) + 0.5) / CELLS
    value = x[:, None] + 2 * (2 * x - 1)[None, :]
    assert np.isnan(maps["completed"][0]).all()
    assert maps["completed"][1] == pytest.approx(np.abs(value), abs=1e-5)
    assert (maps["choice"][1] == (value < 0)).all()
    assert maps["completed"][2] == pytest.approx(np.broadcast_to(3 * x[:, None], (CELLS, CELLS)), abs=1e-5)
    assert maps["uncertainty"][2][:, 0] == pytest.approx(x, abs=1e-6)
    assert np.isnan(maps["singular_values"][0]).all()
    assert maps["singular_values"][1][1] == pytest.approx(0.0, abs=1e-9)  # that Q̂ has rank one


@pytest.mark.parametrize("calls", [1, 12, 13, 24, 25, 100, 1000])
def test_snapshots_are_few_even_and_end_with_the_last(calls):
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2))
    explorer = Known(PLANE, spaces.Discrete(2), [1.0, 0.0])
    for step in range(1, calls + 1):
        one_episode(recorder, [[0.5, 0.5]], [1.0])
        recorder.snapshot(step, explorer)
    steps = recorder.state()["steps"]
    assert min(calls, SNAPSHOTS // 2) <= len(steps) <= SNAPSHOTS
    assert steps[-1] == calls
    gaps = np.diff(steps)
    assert (gaps > 0).all()
    assert len(set(gaps[:-1].tolist())) <= 1
    assert explorer.asked <= 5 * SNAPSHOTS * (CELLS**2 + 256)  # most calls cost nothing


def test_of_many_dimensions_two_are_drawn_at_the_median_of_the_others():
    space = spaces.Box(-np.inf, np.inf, (5,))
    recorder = MapRecorder.of(space, spaces.Discrete(2))
    rng = np.random.default_rng(0)
    states = rng.normal(7.0, 1.0, (500, 5))
    for state in states:
        one_episode(recorder, state[None], [state[1] - state[3]])
    recorder.snapshot(500, Known(space, spaces.Discrete(2), [0.1, 5.0, 0.1, -9.0, 1.0]))
    maps = recorder.state()
    assert maps["dimensions"].tolist() == [1, 3]
    centres = (maps["edges"][:, 1:] + maps["edges"][:, :-1]) / 2
    rest = maps["median"] @ [0.1, 0.0, 0.1, 0.0, 1.0]
    value = 5.0 * centres[0][:, None] - 9.0 * centres[1][None, :] + rest
    assert maps["completed"][0] == pytest.approx(np.abs(value), rel=1e-3, abs=1e-3)
    assert maps["visits"].sum() == 500


def test_without_q_those_are_drawn_that_tell_about_the_return():
    space = spaces.Box(-5, 5, (4,))
    recorder = MapRecorder.of(space, spaces.Discrete(2), gamma=0.0)
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (400, 4))
    one_episode(recorder, states, states[:, 3] + 0.5 * states[:, 1])
    maps = recorder.state()
    assert maps["dimensions"].tolist() == [1, 3]
    assert "completed" not in maps


def test_what_had_not_been_seen_yet_is_not_drawn_over_a_range_that_grew():
    space = spaces.Box(-np.inf, np.inf, (2,))
    recorder = MapRecorder.of(space, spaces.Discrete(2))
    explorer = Known(space, spaces.Discrete(2), [1.0, 0.0])
    one_episode(recorder, [[0.0, 0.0], [1.0, 1.0]], [0.0, 0.0])
    recorder.snapshot(2, explorer)
    one_episode(recorder, [[10.0, 10.0]], [0.0])
    recorder.snapshot(3, explorer)
    completed = recorder.state()["completed"]
    assert np.isfinite(completed[1]).all()
    assert 0 < np.isfinite(completed[0]).sum() < CELLS**2 / 50


def test_memory_is_bounded_and_visits_stay_about_right(monkeypatch):
    monkeypatch.setattr(maps_module, "ROWS", 1000)
    recorder = MapRecorder.of(PLANE, spaces.Discrete(2))
    rng = np.random.default_rng(0)
    for _ in range(700):
        one_episode(recorder, rng.uniform(0, 1, (7, 2)), np.zeros(7))
    recorder.snapshot(4900, None)
    assert len(recorder._trail.rows()[0]) <= 1000
    assert recorder.state()["visits"].sum() == pytest.approx(4900, rel=0.01)


def test_continuous_actions_outside_the_box_are_counted_as_the_nearest():
    recorder = MapRecorder.of(PLANE, spaces.Box(-1, 1, (1,)))
    recorder.observe(np.array([[0.5, 0.5]]), np.array([[7.0]]), [1.0], [True])
    assert recorder.state()["visits"].sum() == 1


def test_nothing_recorded_is_nothing():
    assert MapRecorder.of(PLANE, spaces.Discrete(2)).state() == {}


@pytest.mark.parametrize("name", ["committee", "paper"])
def test_looking_does_not_disturb(name):
    """The same episodes with maps and without; that asking changes no explorer is part of its contract."""

    def driven(with_maps):
        env = gym.make("MountainCar-v0", max_episode_steps=60)
        explorer = polaug.make_explorer(name, env.observation_space, env.action_space, seed=3)
        with pytest.MonkeyPatch.context() as patch:
            if not with_maps:
                patch.setattr(MapRecorder, "of", classmethod(lambda cls, *spaces: None))
            result = drive(env, explorer, episodes=4, seed=0)
        assert (result.maps is not None) == with_maps
        return result.returns, explorer.state_dict()

    (seen, state), (unseen, other) = driven(True), driven(False)
    assert seen == unseen
    assert all(np.array_equal(state[key], other[key]) for key in state)


@pytest.mark.parametrize("name", ["committee", "optimistic", "model", "counting"])
def test_uncertainty_is_less_where_somebody_has_been(name):
    maps = explore("MountainCar-v0", name, episodes=3).maps
    seen, unsure = maps["visits"][-1], maps["uncertainty"][-1]
    assert (unsure >= 0).all()
    assert (unsure <= 1).all()
    assert unsure[seen > 5].mean() < 0.8 * unsure[seen == 0].mean()


def test_the_portfolio_says_which_arm_played():
    result = explore("CartPole-v1", "portfolio", episodes=6)
    assert len(result.choices) == 6
    assert set(result.choices) <= {"tabular", "model", "policy_search", "aggregation"}
    assert explore("CartPole-v1", "random", episodes=2).choices == ()
