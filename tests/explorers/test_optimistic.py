"""`optimistic`: what it costs, and what it does before its first fit."""

from itertools import pairwise

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import UnsupportedSpaceError
from polaug.study.explore import explore
from polaug.testing import Rollout

BOX = spaces.Box(-1.0, 1.0, (2,))


def make(dimensions, actions, **options):
    return polaug.make_explorer("optimistic", spaces.Box(-1.0, 1.0, (dimensions,)), actions, seed=0, **options)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_before_the_first_fit_every_environment_holds_its_actions(n):
    explorer, rollout = polaug.make_explorer("optimistic", BOX, spaces.Discrete(1000), seed=0), Rollout(BOX, n, 0)
    taken = []
    for _ in range(19 // n + 1):
        if explorer._engines:
            break
        taken.append(explorer.act(rollout.observations))
        explorer.observe(rollout.step(taken[-1]))
    changes = [int((a != b).sum()) for a, b in pairwise(taken)]
    assert changes == [n if k % 4 == 0 else 0 for k in range(1, len(taken))]


@pytest.mark.parametrize(
    ("dimensions", "actions"),
    [(2, spaces.Discrete(3)), (8, spaces.Box(-1.0, 1.0, (2,))), (24, spaces.Box(-1.0, 1.0, (4,)))],
)
def test_frequencies_are_as_many_as_matrices_allow(dimensions, actions):
    explorer, rollout = make(dimensions, actions), Rollout(spaces.Box(-1.0, 1.0, (dimensions,)), 1, 0)
    for _ in range(25):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    engines = explorer._engines
    assert len(engines) * engines[0].features ** 3 <= 700**3


def test_it_finds_the_flag_and_goes_there_again():
    episodes = explore("MountainCar-v0", "optimistic", episodes=20, seed=0).returns
    assert max(episodes[:10]) > -200.0
    assert np.mean(episodes[10:]) > -150.0


def test_novelty_falls_where_it_has_been():
    explorer, rollout = make(2, spaces.Discrete(2)), Rollout(BOX, 1, 0)
    for _ in range(60):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    near, far = explorer.uncertainty(np.array([rollout.observations[0], [1e3, -1e3]]))
    assert near < 0.5 < far


@pytest.mark.parametrize(
    ("dimensions", "actions"), [(348, spaces.Box(-1.0, 1.0, (17,))), (200, spaces.Discrete(1000))], ids=str
)
def test_spaces_whose_matrices_would_take_gigabytes_are_refused(dimensions, actions):
    with pytest.raises(UnsupportedSpaceError, match=rf"got {dimensions} numbers and .*'portfolio'"):
        make(dimensions, actions, capacity=100)
    assert np.isfinite(make(4, spaces.Discrete(1000), capacity=100).act(np.zeros((1, 4)))).all()
