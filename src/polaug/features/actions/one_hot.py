"""One-hot action features: every action is its own, and nothing is shared between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polaug.features.actions.catalogue import MAX_ACTIONS, ActionCatalogue
from polaug.features.spaces import Space


class OneHotActions(ActionCatalogue):
    """Discrete and Box: Y is the identity. MultiDiscrete and MultiBinary: the one-hots of the choices side by side.

    The latter make the value of a combination a sum over its choices: n is the sum of the numbers of choices, not
    their product.
    """

    def __init__(
        self, space: Space, *, bins: int | Sequence[int] | None = None, max_actions: int = MAX_ACTIONS
    ) -> None:
        super().__init__(space, bins, max_actions)
        if self._continuous:
            self._describe(np.eye(self.n_actions))
            return
        places = self._cells.all()  # (N, d)
        self._describe(
            np.concatenate([np.eye(int(count))[places[:, at]] for at, count in enumerate(self._counts)], axis=1)
        )
