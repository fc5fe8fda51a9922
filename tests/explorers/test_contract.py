"""All explorers of polaug pass the contract tests of `polaug.testing`."""

import inspect

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.explorers import METHODS
from polaug.testing import SPACES, ExplorerContract

TESTS = [name for name, _ in inspect.getmembers(ExplorerContract, inspect.isfunction) if name.startswith("test_")]


IMAGES = spaces.Box(0, 255, (8, 8, 3), np.uint8)


def brightness(images):
    """The mean of each colour."""
    return images.reshape(len(images), -1, 3).mean(axis=1) / 255.0


def contract(method, **options):
    class Contract(ExplorerContract):
        def make(self, observation_space, action_space, seed):
            return polaug.make_explorer(method, observation_space, action_space, seed=seed, **options)

    if method == "paper":  # its cells are products over the dimensions
        Contract.spaces = {name: pair for name, pair in SPACES.items() if name != "many numbers"}
    return Contract()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("test", TESTS)
def test_explorer_keeps_the_contract(method, test):
    getattr(contract(method), test)()


@pytest.mark.parametrize(
    "method", ["tabular", "model", "optimistic", "policy_search", "portfolio", "paper", "epsilon_z"]
)
def test_a_reset_that_does_nothing_breaks_the_contract(method):
    kept = contract(method)
    make = kept.make

    def without_reset(*arguments):
        explorer = make(*arguments)
        explorer.reset = lambda: None
        return explorer

    kept.make = without_reset
    with pytest.raises(AssertionError, match="reset"):
        kept.test_who_notices_ends_notices_a_reset()
    kept.follows_episodes = False
    kept.test_who_notices_ends_notices_a_reset()


@pytest.mark.parametrize("method", METHODS)
def test_explorer_with_features_is_saved_and_loaded(method):
    images = contract(method, features=brightness)
    images.spaces = {"push": (IMAGES, spaces.Discrete(3)), "torque": (IMAGES, spaces.Box(-1.0, 1.0, (1,)))}
    images.test_saved_state_continues_to_the_bit()
    images.test_foreign_and_damaged_states_are_refused()
