"""Box 3: explorers, which choose actions and learn from transitions. Start at `make_explorer`.

To add one, write one file that defines it and add one line to METHODS; its name is the file's. `polaug.testing` has
the contract tests it must pass.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from polaug.errors import unknown
from polaug.explorers.base import Explorer, Transitions
from polaug.explorers.counting import CountingExplorer
from polaug.explorers.deep_q import DeepQExplorer
from polaug.explorers.epsilon_z import EpsilonZExplorer
from polaug.explorers.icm import ICMExplorer
from polaug.explorers.model import ModelExplorer
from polaug.explorers.optimistic import OptimisticExplorer
from polaug.explorers.paper import PaperExplorer
from polaug.explorers.policy_search import PolicySearchExplorer
from polaug.explorers.portfolio import PortfolioExplorer
from polaug.explorers.random import RandomExplorer
from polaug.explorers.rnd import RNDExplorer
from polaug.explorers.tabular import TabularExplorer
from polaug.features.spaces import Space

__all__ = ["METHODS", "Explorer", "Transitions", "explorers", "make_explorer"]

METHODS: dict[str, type[Explorer]] = {
    "counting": CountingExplorer,
    "deep_q": DeepQExplorer,
    "epsilon_z": EpsilonZExplorer,
    "icm": ICMExplorer,
    "model": ModelExplorer,
    "optimistic": OptimisticExplorer,
    "paper": PaperExplorer,
    "policy_search": PolicySearchExplorer,
    "portfolio": PortfolioExplorer,
    "random": RandomExplorer,
    "rnd": RNDExplorer,
    "tabular": TabularExplorer,
}

ALIASES = {"committee": "portfolio", "pa": "portfolio"}
"""Other names that `make_explorer` takes: a former one, and that of the default in names of methods (`ppo+pa`)."""


def explorers() -> tuple[str, ...]:
    """The names of the explorers."""
    return tuple(METHODS)


def make_explorer(
    name: str, observation_space: Space, action_space: Space, *, seed: int = 0, **options: Any
) -> Explorer:
    """The explorer called `name` for these spaces.

    Parameters
    ----------
    name : str
        A name from `polaug.explorers()`.
    observation_space, action_space : gymnasium.Space
        The spaces of a single environment.
    seed : int
        The same seed reproduces a run exactly.
    **options
        Options of the explorer; its page in the documentation lists them.

    Examples
    --------
    >>> import gymnasium as gym, polaug
    >>> env = gym.make("MountainCar-v0")
    >>> explorer = polaug.make_explorer("random", env.observation_space, env.action_space, seed=0)
    >>> observation, _ = env.reset(seed=0)
    >>> explorer.act(observation[None]).shape
    (1,)
    """
    name = ALIASES.get(name, name)
    if name not in METHODS:
        raise unknown("explorer", name, METHODS)
    valid = option_names(METHODS[name])
    for option in options:
        if option not in valid:
            raise unknown(f"option of explorer {name!r}", option, valid)
    return METHODS[name](observation_space, action_space, seed=seed, **options)


def option_names(method: type[Explorer]) -> set[str]:
    """Names of the options: keyword parameters of the class and of the bases that it passes the others on to, and the
    fields of its dataclass `Options` if it has one.
    """
    names = {field.name for field in dataclasses.fields(method.Options)} if hasattr(method, "Options") else set()
    for cls in method.__mro__:
        if "__init__" in vars(cls):
            parameters = inspect.signature(cls).parameters.values()
            names |= {each.name for each in parameters if each.kind is not each.VAR_KEYWORD}
            if all(each.kind is not each.VAR_KEYWORD for each in parameters):
                break
    return names - {"observation_space", "action_space"}
