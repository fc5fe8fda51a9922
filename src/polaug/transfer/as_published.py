"""`as_published`: Algorithm 1 to the letter: the agent trains on the explorer's rollouts as if they were its own.

The explorer drives for τ_e steps and learns for τ_q; without these settings, for those of the `paper` explorer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polaug.transfer.base import Rollout, Transfer

TAU_E, TAU_Q = 20_000, 10_000


class AsPublished(Transfer):
    """No selection, no lessons, a fixed hand-over."""

    hands_over_by_itself = False

    def select(self, rollout: Rollout) -> NDArray[np.int64] | None:
        """Every step, whoever took it."""
        return None

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """No lesson."""
        return {}
