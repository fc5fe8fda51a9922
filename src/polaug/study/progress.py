"""Where a run is, as its worker tells it. Without torch: who listens must not have to load it to understand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is."""

    step: int
    steps: int
    episode: int
    return_: float
    """Of the last training episode; NaN before the first has ended."""
    actor: str
    """Who drove it."""
    evaluation: float
    """The agent's last deterministic mean; NaN before the first."""
