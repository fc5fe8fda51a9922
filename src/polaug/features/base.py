"""The protocols of feature maps.

Every call is batched: `observations` holds n observations along its first axis, as a vector environment
returns them (for a Tuple space: a tuple of such arrays).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polaug.features.masks import Legal


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


@runtime_checkable
class ActionFeatures(Protocol):
    """y(a): a finite list of N actions, each with a vector of `size` numbers (the paper's n)."""

    @property
    def n_actions(self) -> int:
        """Number of actions N, the columns of Q."""

    @property
    def size(self) -> int:
        """Number of features n."""

    @property
    def Y(self) -> NDArray[np.float64]:  # noqa: N802  (the paper's name)
        """Features (N, n) of all actions, read-only."""

    @property
    def u(self) -> NDArray[np.float64]:
        """Positions (N, d) of all actions in [−1, 1]^d."""

    def to_environment(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Actions (k, ...) of the space, in its dtype, for column indices (k,)."""

    def to_indices(self, actions: Any) -> NDArray[np.int64]:
        """Column (k,) of each action of the space; the nearest one when the space is continuous."""

    def legal(self, masks: Any, n: int) -> Legal:
        """The legal actions of n environments, from their masks (n, k)."""

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of the actions, or of their columns `indices` if the map cannot compute the former."""
