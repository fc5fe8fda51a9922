"""Spaces of hundreds of dimensions: no matrix of the committee grows with the product of all that is large."""

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.exploration.look_ahead import FEW, foresee, foresee_each
from polaug.exploration.rehearsal import play_in_model
from polaug.testing import Rollout

TORQUES = {size: spaces.Box(-1.0, 1.0, (size,)) for size in (1, 6, 8, 17)}


def played(dimensions, actions, steps=60):
    space = spaces.Box(-1.0, 1.0, (dimensions,))
    explorer = polaug.make_explorer("committee", space, actions, seed=0)
    rollout = Rollout(space, 1, 0)
    for _ in range(steps):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    return explorer


@pytest.mark.parametrize(
    ("dimensions", "actions", "members"),
    [
        (17, TORQUES[6], {"model", "fitted", "linear"}),
        (105, TORQUES[8], {"model"}),
        (348, TORQUES[17], {"model"}),
        (4, spaces.Discrete(500), {"model", "fitted", "linear"}),
        (300, spaces.Discrete(6), {"model", "fitted"}),
    ],
)
def test_matrices_stay_small_whatever_the_spaces(dimensions, actions, members):
    explorer = played(dimensions, actions)
    assert set(explorer._members) == members
    state = explorer.state_dict()
    assert sum(array.nbytes for array in state.values()) < 100e6
    systems = [array for key, array in state.items() if ".gram" in key]
    assert sum(len(blocks) * blocks.shape[-1] ** 3 for blocks in systems) <= 2 * 700**3
    laws = explorer._model.dynamics.laws
    assert max(array.size for array in laws if isinstance(array, np.ndarray)) < 500_000
    psi = laws.by_action.shape[1] * explorer.actions.size + len(laws.phases) + len(laws.shared)
    assert psi <= 1000


@pytest.mark.parametrize(
    "actions", [spaces.Discrete(9), TORQUES[1], spaces.MultiDiscrete([3, 3]), spaces.MultiBinary(3)]
)
def test_small_spaces_have_all_frequencies_and_members(actions):
    explorer = polaug.make_explorer("committee", spaces.Box(-1.0, 1.0, (8,)), actions, seed=0)
    assert set(explorer._members) == {"model", "fitted", "linear"}
    assert explorer.state_dict()["state.fitted.model.directions0"].shape == (8, 50)


def test_weights_shared_by_all_actions_count_the_same_in_all_loops():
    laws = played(30, TORQUES[8])._model.dynamics.laws
    assert len(laws.shared) == 30
    A, d = laws.by_action.shape[0], 30
    # The same laws with all weights by action, as where there are few.
    both = [laws.by_action, np.broadcast_to(laws.shared, (A, *laws.shared.shape))]
    dense = laws._replace(by_action=np.concatenate(both, axis=1), shared=np.zeros((0, d + 1)))
    z = np.random.default_rng(0).uniform(-1, 1, (FEW + 4, d))
    for few, many in zip(foresee_each(laws, z), foresee(laws, z), strict=True):
        np.testing.assert_allclose(few, many, atol=1e-9)
    for one, other in zip(foresee(laws, z), foresee(dense, z), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    rng, totals = np.random.default_rng(1), np.zeros((2, 2))
    arguments = rng.standard_normal((2, A, 1 + d)), z[:3], np.zeros((3, 20, d)), z[:5].T.copy(), 1e9, 0.0
    for total, each in zip(totals, (laws, dense), strict=True):
        play_in_model(each, *arguments, total)
    np.testing.assert_allclose(totals[0], totals[1], rtol=1e-6)
