"""Features of a Tuple space with both categories and numbers: one-hot of the former beside a map of the latter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_SIZE, choice, loaded, size_limit, whole
from polaug.errors import StateError, UnsupportedSpaceError, shown
from polaug.features.base import StateFeatures
from polaug.features.fourier import Fourier
from polaug.features.grid import Grid
from polaug.features.polynomial import Polynomial
from polaug.features.random_fourier import RandomFourier
from polaug.features.simhash import SimHash
from polaug.features.spaces import Flattener, Space, continuous_box

_PREFIX = "numbers."


class Product:
    """[one-hot of every choice, `numbers` map of all numbers together, and, if `crossed`, their products].

    Without the products a value is a sum of what the choices and what the numbers say; with them (m grows to
    one copy of the numbers' map for each category) every category has its own function of the numbers.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        numbers: str = "random_fourier",
        crossed: bool = False,
        max_size: int = MAX_SIZE,
    ) -> None:
        self._flatten = flatten = Flattener(space)
        if flatten.categorical.all() or not flatten.categorical.any():
            better = "one_hot" if flatten.categorical.all() else "random_fourier"
            raise UnsupportedSpaceError(
                "observation_space: product needs a Tuple with both categories and Box parts, "
                f"got {shown(space)}. Use {better}."
            )
        inner = continuous_box(flatten)
        makers: dict[str, Any] = {
            "fourier": lambda: Fourier(inner),
            "grid": lambda: Grid(inner, constant=True),
            "polynomial": lambda: Polynomial(inner),
            "random_fourier": lambda: RandomFourier(inner, seed=seed),
            "simhash": lambda: SimHash(inner, seed=seed),
        }
        self._numbers: StateFeatures = makers[choice("numbers", numbers, tuple(makers))]()
        self._choice_columns = np.flatnonzero(flatten.categorical)
        self._number_columns = np.flatnonzero(~flatten.categorical)
        counts = (flatten.high - flatten.low)[flatten.categorical].astype(np.int64) + 1
        self._categories = int(counts.sum())
        self._offsets = np.cumsum(counts) - counts - flatten.low[flatten.categorical].astype(np.int64)
        self._crossed = bool(crossed)
        size = self._categories + self._numbers.size
        self.size = size_limit(
            "product",
            size + self._categories * self._numbers.size * self._crossed,
            whole("max_size", max_size, 1),
            "Raise max_size, pass crossed=False, or use fourier, which treats a choice as a position.",
        )

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Features (n, m)."""
        x = self._flatten(observations)
        n = len(x)
        one_hot = np.zeros((n, self._categories))
        chosen = x[:, self._choice_columns].astype(np.int64) + self._offsets
        one_hot[np.arange(n)[:, None], chosen] = 1.0
        numbers = self._numbers(x[:, self._number_columns])
        if not self._crossed:
            return np.concatenate([one_hot, numbers], axis=1)
        products = (one_hot[:, :, None] * numbers[:, None, :]).reshape(n, -1)
        return np.concatenate([one_hot, numbers, products], axis=1)

    def observe(self, observations: Any) -> bool:
        """Update the map of the numbers; True when stored features are out of date."""
        return self._numbers.observe(self._flatten(observations)[:, self._number_columns])

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The state of the map of the numbers, and the number of categories."""
        state = {_PREFIX + key: array for key, array in self._numbers.state_dict().items()}
        return state | {"categories": np.array(self._categories)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded("Product", state, self.state_dict())
        if int(new["categories"]) != self._categories:
            raise StateError(
                f"state: Product has {self._categories} categories, the state has {int(new['categories'])}. "
                "Load it into the map it came from."
            )
        self._numbers.load_state_dict({k.removeprefix(_PREFIX): v for k, v in new.items() if k.startswith(_PREFIX)})
