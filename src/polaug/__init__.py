"""polaug: deep RL agents that learn from far fewer environment steps, by Policy Augmentation."""

import importlib
from typing import TYPE_CHECKING, Any

from polaug import errors
from polaug.completion import InductiveCompletion, canonical_distance, cost, principal_angles, solvers
from polaug.config import Augmentation
from polaug.explorers import Explorer, Transitions, explorers, make_explorer

if TYPE_CHECKING:
    from polaug.coach import Coach
    from polaug.coach.teaching import transfers
    from polaug.sb3 import augment

__version__ = "0.1.0"

__all__ = [
    "Augmentation",
    "Coach",
    "Explorer",
    "InductiveCompletion",
    "Transitions",
    "augment",
    "canonical_distance",
    "cost",
    "errors",
    "explorers",
    "make_explorer",
    "principal_angles",
    "solvers",
    "transfers",
]


_NEED_TORCH = {"Coach": "polaug.coach", "augment": "polaug.sb3", "transfers": "polaug.coach.teaching"}


def __getattr__(name: str) -> Any:
    """Import names that need torch on first use, so that `import polaug` stays fast."""
    if name in _NEED_TORCH:
        return getattr(importlib.import_module(_NEED_TORCH[name]), name)
    raise AttributeError(f"module 'polaug' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NEED_TORCH])
