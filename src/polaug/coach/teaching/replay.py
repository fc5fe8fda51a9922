"""`replay`: the guide's transitions are in the replay buffer, without teaching updates."""

from __future__ import annotations

from polaug.coach.teaching.base import Transfer


class Replay(Transfer):
    """For agents with a replay buffer."""

    families = ("actor_critic", "value_based")

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """No teaching updates."""
        return {}
