"""An explorer alone: every step counts, seeds repeat, endings are told apart, nothing stays open."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import InvalidInputError, UnknownNameError, UnsupportedSpaceError
from polaug.explorers import Explorer
from polaug.study import Task, explore
from polaug.study.explore import drive


class Corridor(gym.Env):
    """Ends by itself after `length` steps to the right; counts what is asked of it."""

    def __init__(self, length=3, fail_at=None):
        self.observation_space, self.action_space = spaces.Discrete(length + 1), spaces.Discrete(2)
        self.length, self.fail_at = length, fail_at
        self.steps, self.closed, self.seeds = 0, False, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        assert type(action) is int
        self.steps += 1
        if self.steps == self.fail_at:
            raise OSError("the simulator has died")
        self.at = max(self.at + (1 if action else -1), 0)
        return self.at, float(self.at == self.length), self.at == self.length, False, {}

    def close(self):
        self.closed = True


class Recorder(Explorer):
    """Random, and remembers what it was shown."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.shown = []

    def _choose(self, flat, states):
        return self._rng.integers(self.actions.n_actions, size=len(flat))

    def _learn(self, batch):
        self.shown.append(
            (batch.flat[0, 0], batch.next_flat[0, 0], bool(batch.terminated[0]), bool(batch.truncated[0]))
        )


def test_every_step_counts_and_endings_are_told_apart():
    corridor = Corridor()
    env = gym.wrappers.TimeLimit(corridor, 5)
    explorer = Recorder(env.observation_space, env.action_space)
    result = drive(env, explorer, episodes=30, seed=0)
    assert result.steps == corridor.steps == len(explorer.shown) == sum(e.length for e in result.episodes)
    assert [e.episode for e in result.episodes] == list(range(1, 31))
    assert [e.step for e in result.episodes] == np.cumsum([e.length for e in result.episodes]).tolist()
    assert {e.actor for e in result.episodes} == {"explorer"}
    ends = [shown for shown in explorer.shown if shown[2] or shown[3]]
    assert len(ends) == 30
    for episode, (_, following, terminated, truncated) in zip(result.episodes, ends, strict=True):
        assert terminated == (following == 3) == (episode.return_ == 1.0)
        assert truncated == (episode.length == 5)  # the goal and the limit may come together
    assert {terminated for _, _, terminated, _ in ends} == {False, True}


def test_observations_follow_each_other_within_an_episode():
    env = gym.wrappers.TimeLimit(Corridor(), 5)
    explorer = Recorder(env.observation_space, env.action_space)
    drive(env, explorer, episodes=10, seed=0)
    for (_, after, terminated, truncated), (before, *_) in zip(explorer.shown, explorer.shown[1:], strict=False):
        assert before == (0 if terminated or truncated else after)


def test_the_environment_is_seeded_once_and_not_like_the_explorer():
    corridor = Corridor()
    drive(corridor, Recorder(corridor.observation_space, corridor.action_space), episodes=3, seed=4)
    assert corridor.seeds[0] not in (None, 4)
    assert corridor.seeds[1:] == [None, None]


@pytest.mark.parametrize("explorer", ["random", "tabular", "portfolio"])
def test_seeds_repeat(explorer):
    """Of the loop; that each explorer repeats is part of its contract."""
    name = "FrozenLake8x8" if explorer == "tabular" else "MountainCar-v0"
    first, again, other = (explore(name, explorer, episodes=2, seed=seed) for seed in (1, 1, 2))
    assert first.episodes == again.episodes
    assert first.steps == again.steps == first.explorer.steps
    states = [result.explorer.state_dict() for result in (first, again, other)]
    assert all(np.array_equal(states[0][key], states[1][key]) for key in states[0])
    assert any(not np.array_equal(states[0][key], states[2].get(key)) for key in states[0])


def test_continuous_actions():
    result = explore("Pendulum-v1", "random", episodes=1)
    assert result.steps == 200


@pytest.mark.parametrize("explorer", ["random", "tabular", "paper"])
def test_tuple_observations(explorer):
    result = explore("Blackjack-v1", explorer, episodes=20)
    assert len(result.episodes) == 20
    assert set(result.returns) <= {-1.0, 0.0, 1.0, 1.5}


def test_dict_observations_with_a_feature_function():
    env = gym.wrappers.TransformObservation(
        Corridor(), lambda o: {"at": np.array([o], np.float32)}, spaces.Dict({"at": spaces.Box(0.0, 3.0, (1,))})
    )
    explorer = polaug.make_explorer("random", env.observation_space, env.action_space, features=lambda o: o["at"])
    assert drive(env, explorer, episodes=3, seed=0).returns == [1.0] * 3


def test_progress_hears_of_every_episode():
    heard = []
    result = explore("CartPole-v1", "random", episodes=4, progress=heard.append)
    assert tuple(heard) == result.episodes


def test_options_reach_the_explorer():
    result = explore("MountainCar-v0", "epsilon_z", episodes=1, options={"longest": 1})
    assert result.explorer._longest == 1
    with pytest.raises(UnknownNameError, match="longest"):
        explore("MountainCar-v0", "epsilon_z", episodes=1, options={"longst": 1})


@pytest.mark.parametrize("fault", ["in the environment", "in the callback", "in the spaces"])
def test_the_environment_is_closed_on_error(monkeypatch, fault):
    corridor = Corridor(fail_at=7 if fault == "in the environment" else None)
    if fault == "in the spaces":
        corridor.observation_space = spaces.Text(5)
    monkeypatch.setattr(Task, "make", lambda self: corridor)

    def stop(episode):
        if fault == "in the callback":
            raise OSError("the disk is full")

    with pytest.raises((OSError, UnsupportedSpaceError)):
        explore("CartPole-v1", "random", episodes=50, progress=stop)
    assert corridor.closed


@pytest.mark.parametrize("options", [{"episodes": 0}, {"seed": -1}, {"explorer": "randm"}])
def test_bad_arguments_are_refused(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        explore("CartPole-v1", **{"explorer": "random"} | options)


def test_maps_count_every_step():
    result = explore("MountainCar-v0", "paper", episodes=2)
    assert result.maps["visits"].sum(axis=(1, 2)).tolist() == [episode.step for episode in result.episodes]
    assert result.maps["edges"][:, [0, -1]] == pytest.approx(np.array([[-1.2, 0.6], [-0.07, 0.07]]))
    assert np.isfinite(result.maps["completed"]).all()


def test_maps_have_the_first_dimension_first():
    maps = explore("MountainCar-v0", "random", episodes=2).maps
    at = np.unravel_index(maps["visits"][-1].argmax(), maps["visits"].shape[1:])
    assert -0.7 < maps["edges"][0][at[0]] < -0.3  # a car driven at random stays in the valley
    assert abs(maps["edges"][1][at[1]]) < 0.02
