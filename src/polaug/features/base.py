"""What the rest of polaug may ask of a feature map: three protocols, no code.

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
        """Features (n, m). Changes nothing."""

    def observe(self, observations: Any) -> bool:
        """Update running statistics; True when the map itself changed, so that stored features are out of date."""

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything learnt or drawn at random, as plain arrays."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict`; on a StateError nothing has changed."""


@runtime_checkable
class HashedStates(StateFeatures, Protocol):
    """A map that sends every observation to one of finitely many rows of the Q matrix."""

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
        """Places (N, d) of all actions in [−1, 1]^d."""

    def to_environment(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Actions (k, ...) of the space, in its dtype, for column indices (k,)."""

    def to_indices(self, actions: Any) -> NDArray[np.int64]:
        """Column (k,) of each action of the space; the nearest one when the space is continuous."""

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of actions whose columns are `indices`; of the very actions if the map can tell."""
