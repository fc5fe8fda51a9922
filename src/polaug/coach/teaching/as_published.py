"""`as_published`: Algorithm 1 as printed: the agent trains on the explorer's rollouts as if they were its own.

The explorer drives for τ_e steps and learns for τ_q steps. The defaults are those of the `paper` explorer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polaug.coach.teaching.base import Rollout, Transfer

TAU_E, TAU_Q = 20_000, 10_000


class AsPublished(Transfer):
    """Uses all steps, without teaching updates. τ_e decides what drives."""

    hands_over_by_itself = False

    def select(self, rollout: Rollout) -> NDArray[np.int64] | None:
        """All steps."""
        return None

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """No teaching updates."""
        return {}
