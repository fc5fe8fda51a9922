"""`random`: uniformly random actions, as a baseline."""

from __future__ import annotations

from typing import Any

from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray


class RandomExplorer(Explorer):
    """Draws uniformly from the listed actions; learns nothing."""

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return self._rng.integers(self.actions.n_actions, size=len(flat))

    def _learn(self, batch: Batch) -> None:
        pass
