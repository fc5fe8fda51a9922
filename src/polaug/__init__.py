"""polaug: deep RL agents that learn from far fewer environment steps, by Policy Augmentation."""

from polaug import errors
from polaug.completion import InductiveCompletion, canonical_distance, cost, principal_angles, solvers

__version__ = "0.1.0"

__all__ = [
    "InductiveCompletion",
    "canonical_distance",
    "cost",
    "errors",
    "principal_angles",
    "solvers",
]
