"""`model` alone: an episode's end and a reset are ends, and visions are judged by what they did themselves."""

import gymnasium as gym
import numpy as np
import pytest

import polaug


@pytest.fixture
def explorer():
    """One that has seen the task of MountainCar end, so that its visions dent."""
    env = gym.make("MountainCar-v0")
    made = polaug.make_explorer("model", env.observation_space, env.action_space, seed=0)
    rng = np.random.default_rng(0)
    for t in range(60):
        states = rng.uniform([-1.2, -0.07], [0.6, 0.07], (2, 1, 2)).astype(np.float32)
        step(made, states[0], states[1], terminated=t % 10 == 9)
    assert made._member._toll > 0
    made.reset()
    return made


def step(explorer, seen, then, actions=None, terminated=False, truncated=False):
    """One step at −1; gives what the explorer wanted."""
    wanted = explorer.act(seen)
    ends = (np.full(len(seen), flag) for flag in (terminated, truncated))
    explorer.observe(polaug.Transitions(seen, wanted if actions is None else actions, -np.ones(len(seen)), then, *ends))
    return wanted


def places(explorer, environment=0):
    return len(explorer._member._trodden.of(environment)[0])


HERE = np.zeros((1, 2), np.float32)


@pytest.mark.parametrize("end", ["terminated", "truncated", "reset"])
def test_dents_end_with_the_episode(explorer, end):
    step(explorer, HERE, HERE)
    step(explorer, HERE, HERE, **({} if end == "reset" else {end: True}))
    if end == "reset":
        assert places(explorer) > 0
        explorer.reset()
    assert places(explorer) == 0
    assert not explorer._member._alike.any()


def test_another_number_of_environments_begins_anew(explorer):
    step(explorer, HERE, HERE)
    explorer.act(np.zeros((2, 2), np.float32))
    assert places(explorer) == 1  # of this very state


def test_nothing_is_trodden_where_somebody_else_drives(explorer):
    both = np.zeros((2, 2), np.float32)
    for _ in range(3):
        explorer.drive_only(np.array([False, True]))
        step(explorer, both, both)
    assert (places(explorer, 0), places(explorer, 1)) == (0, 1)


def test_visions_are_judged_by_their_own_episodes(explorer):
    judged = []
    explorer._member._proven.played = lambda visions, total: judged.append(total)
    for other in (False, True, False):
        for t in range(5):
            against = (explorer.act(HERE) + 1) % 3 if other and t == 2 else None
            step(explorer, HERE, HERE, against, truncated=t == 4)
    assert judged == [-5.0, -5.0]
