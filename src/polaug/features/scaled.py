"""The common body of feature maps that are a fixed basis of scaled observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import loaded
from polaug.features.scaling import Scaler
from polaug.features.spaces import Flattener, Space
from polaug.state import part, prefixed


class ScaledFeatures(ABC):
    """Flatten, scale, apply `_basis`; a subclass sets `size` and may list random arrays in `_drawn`.

    `bounds=False` scales by running statistics even where the space has finite bounds: better when an
    environment's bounds are far wider than what is ever visited. The rest is passed to `Scaler`.
    """

    size: int
    _drawn: tuple[str, ...] = ()  # names of the arrays that a seed drew: saved, so that a loaded map is the same

    def __init__(self, space: Space, *, bounds: bool = True, clip: float = 3.0, statistics: str = "range") -> None:
        self._flatten = flatten = Flattener(space)
        trusted = flatten.bounded & (bounds | flatten.categorical)
        self._scaler = Scaler(flatten.low, flatten.high, trusted, flatten.resolution, statistics=statistics, clip=clip)

    @abstractmethod
    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features (n, m) of scaled observations z (n, d), which may be overwritten."""

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Features (n, m)."""
        return self._basis(self._scaler(self._flatten(observations)))

    def observe(self, observations: Any) -> bool:
        """Update the scale; True when stored features are out of date."""
        return self._scaler.observe(self._flatten(observations))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The scale, and what was drawn at random."""
        state = prefixed("scaler", self._scaler.state_dict())
        return state | {name: getattr(self, "_" + name).copy() for name in self._drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded(type(self).__name__, state, self.state_dict())
        self._scaler.load_state_dict(part("scaler", new))
        for name in self._drawn:
            setattr(self, "_" + name, new[name])
