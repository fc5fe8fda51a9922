"""Spaces of hundreds of dimensions: no matrix of the portfolio grows with the product of all that is large."""

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.testing import Rollout

TORQUES = {size: spaces.Box(-1.0, 1.0, (size,)) for size in (1, 6, 8, 17)}


def played(dimensions, actions, steps=60, **options):
    space = spaces.Box(-1.0, 1.0, (dimensions,))
    explorer = polaug.make_explorer("portfolio", space, actions, seed=0, **options)
    rollout = Rollout(space, 1, 0)
    for _ in range(steps):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    return explorer


@pytest.mark.parametrize(
    ("dimensions", "actions", "arms"),
    [
        (17, TORQUES[6], {"model", "policy_search"}),
        (105, TORQUES[8], {"model"}),
        (348, TORQUES[17], {"model"}),
        (4, spaces.Discrete(500), {"model", "policy_search"}),
        (300, spaces.Discrete(6), {"model"}),
    ],
)
def test_matrices_stay_small_whatever_the_spaces(dimensions, actions, arms):
    explorer = played(dimensions, actions, plan_up_to=dimensions)
    assert set(explorer.explorers) == arms
    state = explorer.state_dict()
    assert sum(array.nbytes for array in state.values()) < 100e6
    assert explorer.experience.dynamics.engine.features <= 1000
    model = explorer.experience.dynamics.model
    assert max(array.size for array in model if isinstance(array, np.ndarray)) < 500_000


@pytest.mark.parametrize(("dimensions", "actions"), [(17, TORQUES[6]), (348, TORQUES[17])])
def test_networks_stay_small_whatever_the_spaces(dimensions, actions):
    explorer = played(dimensions, actions, steps=600)
    assert explorer.statistics()["updates"] > 0
    state = explorer.state_dict()
    assert sum(array.nbytes for array in state.values()) < 100e6
    assert sum(array.nbytes for key, array in state.items() if "_networks" in key) < 10e6
