"""The protocols of maps from observations to features.

Every call is batched: `observations` holds n observations along its first axis, as a vector environment
returns them (for a Tuple space: a tuple of such arrays).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class StateFeatures(Protocol):
    """x(s): observations to vectors of `size` numbers (the paper's m)."""

    @property
    def size(self) -> int:
        """Number of features m."""

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Features (n, m). Does not change the map."""

    def observe(self, observations: Any) -> bool:
        """Update running statistics. Returns True if the map changed, so that stored features are invalid."""

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything learnt or drawn at random, as plain arrays."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""


@runtime_checkable
class HashedStates(StateFeatures, Protocol):
    """A map from observations to the rows of the Q matrix."""

    @property
    def n_rows(self) -> int:
        """Number of rows of Q (the paper's M)."""

    def rows(self, observations: Any) -> NDArray[np.int64]:
        """Row of each observation (n,), in [0, n_rows)."""

    def row_features(self) -> NDArray[np.float64]:
        """X (n_rows, m): the features of every row."""
