"""polaug: deep RL agents that learn from far fewer environment steps, by Policy Augmentation."""

from typing import TYPE_CHECKING, Any

from polaug import errors
from polaug.completion import InductiveCompletion, canonical_distance, cost, principal_angles, solvers
from polaug.config import Augmentation
from polaug.exploration import Explorer, Transitions, explorers, make_explorer

if TYPE_CHECKING:
    from polaug.integrations import augment
    from polaug.transfer import transfers

__version__ = "0.1.0"

__all__ = [
    "Augmentation",
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


def __getattr__(name: str) -> Any:
    """Names that need torch, imported when first asked for: explorers and completion start fast without it."""
    if name == "augment":
        from polaug.integrations import augment

        return augment
    if name == "transfers":
        from polaug.transfer import transfers

        return transfers
    raise AttributeError(f"module 'polaug' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "augment", "transfers"])
