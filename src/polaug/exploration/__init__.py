"""Box 3: explorers, who act while the agent is still ignorant. Start at `make_explorer`.

To add one, write one file that defines it and add one line to METHODS; its name is the file's. `polaug.testing` has
the contract tests it must pass.
"""

from __future__ import annotations

import inspect
from typing import Any

from polaug.errors import unknown
from polaug.exploration.base import Explorer, Transitions
from polaug.exploration.committee import CommitteeExplorer
from polaug.exploration.counting import CountingExplorer
from polaug.exploration.epsilon_z import EpsilonZExplorer
from polaug.exploration.icm import ICMExplorer
from polaug.exploration.model import ModelExplorer
from polaug.exploration.optimistic import OptimisticExplorer
from polaug.exploration.paper import PaperExplorer
from polaug.exploration.random import RandomExplorer
from polaug.exploration.rnd import RNDExplorer
from polaug.exploration.tabular import TabularExplorer
from polaug.features.spaces import Space

__all__ = ["METHODS", "Explorer", "Transitions", "explorers", "make_explorer"]

METHODS: dict[str, type[Explorer]] = {
    "committee": CommitteeExplorer,
    "counting": CountingExplorer,
    "epsilon_z": EpsilonZExplorer,
    "icm": ICMExplorer,
    "model": ModelExplorer,
    "optimistic": OptimisticExplorer,
    "paper": PaperExplorer,
    "random": RandomExplorer,
    "rnd": RNDExplorer,
    "tabular": TabularExplorer,
}


def explorers() -> tuple[str, ...]:
    """The names of the explorers."""
    return tuple(METHODS)


def make_explorer(
    name: str, observation_space: Space, action_space: Space, *, seed: int = 0, **options: Any
) -> Explorer:
    """The explorer called `name` for these spaces; `options` are those of its class.

    Examples
    --------
    >>> import gymnasium as gym, polaug
    >>> env = gym.make("MountainCar-v0")
    >>> explorer = polaug.make_explorer("random", env.observation_space, env.action_space, seed=0)
    >>> observation, _ = env.reset(seed=0)
    >>> explorer.act(observation[None]).shape
    (1,)
    """
    if name not in METHODS:
        raise unknown("explorer", name, METHODS)
    valid = set(inspect.signature(METHODS[name]).parameters) - {"observation_space", "action_space"}
    for option in options:
        if option not in valid:
            raise unknown(f"option of explorer {name!r}", option, valid)
    return METHODS[name](observation_space, action_space, seed=seed, **options)
