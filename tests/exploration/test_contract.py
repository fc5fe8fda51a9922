"""Every explorer of ours keeps the contract that `polaug.testing` offers to others."""

import inspect

import pytest
from gymnasium import spaces

import polaug
from polaug.exploration import METHODS
from polaug.testing import SPACES, ExplorerContract

TESTS = [name for name, _ in inspect.getmembers(ExplorerContract, inspect.isfunction) if name.startswith("test_")]


CATEGORIES_ONLY = {"tabular"}


def contract(method):
    class Contract(ExplorerContract):
        def make(self, observation_space, action_space, seed):
            return polaug.make_explorer(method, observation_space, action_space, seed=seed)

    if method in CATEGORIES_ONLY:
        Contract.spaces = {
            "states, discrete": SPACES["states, discrete"],
            "choices, choices": (spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([2, 2])),
            "switches, torque": (spaces.MultiBinary(3), spaces.Box(-1.0, 1.0, (1,))),
        }
    return Contract()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("test", TESTS)
def test_explorer_keeps_the_contract(method, test):
    getattr(contract(method), test)()
