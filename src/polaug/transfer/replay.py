"""`replay`: the explorer's transitions are in the replay buffer, and nothing else is done with them."""

from __future__ import annotations

from polaug.transfer.base import Transfer


class Replay(Transfer):
    """For agents with a replay buffer; there is nothing to teach beyond it."""

    families = ("actor_critic", "value_based")

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """No lesson."""
        return {}
