"""Where an explorer has been and what it believes, on a grid over two-dimensional observations; arrays only."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from polaug.features.spaces import Space
from polaug.state import State

_CELLS = 48


class Visits:
    """Collects the observations of a space of two numbers."""

    def __init__(self, space: spaces.Box) -> None:
        self._space = space
        self._seen = array("d")

    @classmethod
    def of(cls, space: Space) -> Visits | None:
        """A collector if the space has two numbers, otherwise None."""
        return cls(space) if isinstance(space, spaces.Box) and space.shape == (2,) else None

    def add(self, observation: Any) -> None:
        """Take in one observation."""
        self._seen.extend(observation.tolist())

    def maps(self, q_values: Callable[[Any], Any]) -> State:
        """`visits` (48, 48), the `edges` of its cells (2, 49), and `value`, max Q̂ at their centres, if there is a Q̂.

        Axis 0 is the first dimension. Infinite bounds are replaced by the range that was seen.
        """
        seen = np.array(self._seen).reshape(-1, 2)
        low, high = self._space.low.astype(np.float64), self._space.high.astype(np.float64)
        low = np.where(np.abs(low) < 1e6, low, seen.min(axis=0))
        high = np.where(np.abs(high) < 1e6, high, seen.max(axis=0))
        high = np.where(high > low, high, low + 1.0)
        edges = np.linspace(low, high, _CELLS + 1, axis=1)
        counts, _ = np.histogramdd(np.clip(seen, low, high), bins=list(edges))
        maps: State = {"visits": counts, "edges": edges}
        centres = (edges[:, 1:] + edges[:, :-1]) / 2
        grid = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 2)
        values = q_values(grid.astype(self._space.dtype))
        if values is not None:
            maps["value"] = values.max(axis=1).reshape(_CELLS, _CELLS)
        return maps
