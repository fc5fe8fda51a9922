"""Saved explorers: what may differ between saving and loading, and what damage is refused when it is loaded."""

import numpy as np
from gymnasium import spaces

import polaug
from polaug.testing import Rollout

CAR = spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))
ACTIONS = spaces.Discrete(3)


def trained(name, space=CAR, steps=60, seed=0, **options):
    explorer = polaug.make_explorer(name, space, ACTIONS, seed=seed, **options)
    rollout = Rollout(space, 2, seed)
    for _ in range(steps):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    return explorer


def test_how_numbers_are_printed_does_not_matter():
    state = trained("random").state_dict()
    with np.printoptions(precision=1):
        polaug.make_explorer("random", CAR, ACTIONS).load_state_dict(state)
