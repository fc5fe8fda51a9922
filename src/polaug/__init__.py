"""polaug: deep RL agents that learn from far fewer environment steps, by Policy Augmentation."""

from polaug import errors
from polaug.completion import InductiveCompletion, canonical_distance, cost, principal_angles, solvers
from polaug.exploration import Explorer, Transitions, explorers, make_explorer

__version__ = "0.1.0"

__all__ = [
    "Explorer",
    "InductiveCompletion",
    "Transitions",
    "canonical_distance",
    "cost",
    "errors",
    "explorers",
    "make_explorer",
    "principal_angles",
    "solvers",
]
