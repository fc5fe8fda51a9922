"""Every explorer of ours keeps the contract that `polaug.testing` offers to others."""

import inspect

import pytest

import polaug
from polaug.exploration import METHODS
from polaug.testing import ExplorerContract

TESTS = [name for name, _ in inspect.getmembers(ExplorerContract, inspect.isfunction) if name.startswith("test_")]


def contract(method):
    class Contract(ExplorerContract):
        def make(self, observation_space, action_space, seed):
            return polaug.make_explorer(method, observation_space, action_space, seed=seed)

    return Contract()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("test", TESTS)
def test_explorer_keeps_the_contract(method, test):
    getattr(contract(method), test)()
