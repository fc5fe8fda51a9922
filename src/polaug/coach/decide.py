"""The coach's decision: a pure function of p = P(guide better than agent)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polaug.coach.records import Records
from polaug.config import Augmentation


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision until the next episode ends.

    Parameters
    ----------
    p_guide : float
        P(the guide's mean return is above the agent's).
    guide_share : float
        Share of the environment steps that the guide should drive.
    guide_episodes : float
        Probability that the guide drives an episode that starts now. It follows from the share of *steps* and the mean
        lengths of episodes.
    evaluation_share : float
        Probability that an episode of the agent is an evaluation episode, driven without exploration noise.
    teaching : float
        Weight of teaching updates, 0 for none.
    """

    p_guide: float
    guide_share: float
    guide_episodes: float
    evaluation_share: float
    teaching: float


def decide(records: Records, settings: Augmentation, steps: int, searching: bool = False) -> Decision:
    """What should drive after so many `steps`, and how much the agent is taught.

    While the guide is `searching`, its returns do not count.
    """
    p = records.p_guide(steps)
    share = settings.guide_share if searching else min(max(p, settings.trial_share), settings.guide_share)
    guide, agent = records.length("guide"), records.length("agent")
    odds = share / max(1.0 - share, 1e-12) * (1.0 if math.isnan(guide + agent) else agent / guide)
    # A guide whose returns all equal the agent's has nothing to teach.
    teaching = p if records.scale > 0.0 and p > settings.trial_share else 0.0
    return Decision(p, share, odds / (1.0 + odds), settings.evaluation_share, teaching)
