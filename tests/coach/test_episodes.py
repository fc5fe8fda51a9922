"""Steps of episodes with their returns: whole ones, long ones, and what is under way."""

import numpy as np
import pytest

from polaug.coach.teaching.episodes import FinishedEpisodes
from polaug.errors import StateError
from polaug.explorers import Transitions


def step(states, rewards, *, terminated=False, truncated=False):
    """One step of each environment."""
    states, n = np.asarray(states, float)[:, None], len(states)
    rewards = np.asarray(rewards, float)
    return Transitions(states, np.zeros(n, int), rewards, states, np.full(n, terminated), np.full(n, truncated))


def followed(episodes, lengths, reward=1.0, *, end=True):
    """One environment; states count the steps of all episodes."""
    at = 0
    for length in lengths:
        for t in range(length):
            episodes.watch(step([at], [reward], terminated=end and t == length - 1))
            at += 1
    return episodes


def test_returns_of_a_finished_episode():
    episodes = followed(FinishedEpisodes(0.5, 100), [3])
    states, _, returns = episodes.rows(np.arange(3))
    assert states[:, 0].tolist() == [0, 1, 2]
    assert returns.tolist() == [1.75, 1.5, 1.0]


@pytest.mark.parametrize("n", [1, 4])
def test_an_episode_without_end_takes_no_more_memory_than_others(n):
    episodes = FinishedEpisodes(0.9, 200)
    for t in range(5000):
        episodes.watch(step([t] * n, [1.0] * n))
        assert sum(len(steps) for steps in episodes._open) <= 200
    assert len(episodes) == 200
    assert episodes.returns.min() > (1 - 0.9**10) / 0.1 - 1e-3  # at least as many steps ahead as matter
    assert episodes.returns.max() <= 10.0


def test_no_step_of_a_long_episode_is_lost_or_counted_twice():
    episodes = followed(FinishedEpisodes(0.9, 1000), [990])
    assert sorted(episodes.rows(np.arange(len(episodes)))[0][:, 0]) == list(range(990))
    episodes = followed(FinishedEpisodes(0.5, 1000), [900], end=False)
    assert not len(episodes)  # it may still end
    episodes = followed(FinishedEpisodes(0.5, 30), [100])
    assert sorted(episodes.rows(np.arange(len(episodes)))[0][:, 0]) == list(range(70, 100))


def test_a_long_episode_is_judged_by_its_whole_total():
    episodes = followed(FinishedEpisodes(0.5, 30, best_half=True), [10, 10, 10])
    followed(episodes, [100], reward=0.09)  # nine in all: worse than the median of ten
    assert episodes._totals[-1] == pytest.approx(9.0)
    assert (episodes.returns > 0.5).all()  # nothing of it was kept
    followed(episodes, [100], reward=0.2)
    assert (episodes.returns < 0.5).all()  # twenty in all: the rest of it is the last that is kept


def test_a_restart_forgets_what_is_under_way():
    episodes = FinishedEpisodes(0.5, 100)
    followed(episodes, [5], reward=100.0, end=False)
    episodes.restart()
    followed(episodes, [3])
    assert episodes._totals.tolist() == [3.0]
    assert len(episodes) == 3


def test_a_loaded_one_goes_on_in_the_middle_of_episodes():
    first, second = FinishedEpisodes(0.5, 40, best_half=True), FinishedEpisodes(0.5, 40, best_half=True)
    second.load_state_dict(first.state_dict())  # nothing so far
    assert not len(second)
    followed(first, [5, 55])
    followed(first, [7], end=False)
    second.load_state_dict(first.state_dict())
    for episodes in (first, second):
        followed(episodes, [4, 9], reward=2.0)
    for key, array in first.state_dict().items():
        np.testing.assert_array_equal(array, second.state_dict()[key], err_msg=key)
    assert first._totals.tolist() == [5.0, 55.0, 15.0, 18.0]


def test_a_damaged_state_is_refused():
    state = followed(FinishedEpisodes(0.5, 40), [7], end=False).state_dict()
    with pytest.raises(StateError, match="damaged"):
        FinishedEpisodes(0.5, 40).load_state_dict(state | {"open_lengths": np.array([6])})
