"""One-hot action features: nothing is shared between actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.features.actions.base import ActionFeatures
from polaug.features.spaces import Space


class OneHotActions(ActionFeatures):
    """Discrete and Box: Y is the identity. MultiDiscrete and MultiBinary: the one-hots of the choices side by side.

    The latter make the value of a combination a sum over its choices: n is the sum of the numbers of choices, not
    their product.
    """

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._describe(np.eye(self.n_actions) if self._continuous else self._one_hots(self._choices))

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of actions whose columns are `indices`: exact ones if not all actions are listed."""
        if not self._sampled:
            return super().describe(actions, indices)
        return self._one_hots((self._flatten(actions) - self._flatten.low).astype(np.int64))

    def _one_hots(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        parts = [np.eye(int(count))[choices[:, at]] for at, count in enumerate(self._counts)]
        return np.concatenate(parts, axis=1)
