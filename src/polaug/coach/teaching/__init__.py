"""Box 4: how rollouts teach the agent. Start at `make_transfer`.

To add a way, write one file that defines it and add one line to METHODS; its name is the file's.
"""

from __future__ import annotations

import numpy as np

from polaug.coach.pupil import Pupil
from polaug.coach.teaching.as_published import AsPublished
from polaug.coach.teaching.balance import Balance
from polaug.coach.teaching.base import Rollout, Transfer
from polaug.coach.teaching.distil import Distil
from polaug.coach.teaching.kickstart import Kickstart
from polaug.coach.teaching.replay import Replay
from polaug.config import Augmentation
from polaug.errors import invalid, unknown
from polaug.explorers import Explorer

__all__ = ["METHODS", "Rollout", "Transfer", "make_transfer", "transfer_class", "transfers"]

METHODS: dict[str, type[Transfer]] = {
    "as_published": AsPublished,
    "balance": Balance,
    "distil": Distil,
    "kickstart": Kickstart,
    "replay": Replay,
}

_AUTOMATIC = {"policy_gradient": "kickstart", "actor_critic": "kickstart", "value_based": "distil"}
_KINDS = {"policy_gradient": "MaskablePPO, PPO, A2C and TRPO", "actor_critic": "SAC, TD3, DDPG, TQC and CrossQ",
          "value_based": "DQN and QRDQN"}  # fmt: skip


def transfers() -> tuple[str, ...]:
    """The names that `Augmentation(transfer=...)` takes besides "auto"."""
    return tuple(METHODS)


def transfer_class(name: str, family: str) -> type[Transfer]:
    """The class called `name`. "auto" is the default of the family of agents."""
    name = _AUTOMATIC[family] if name == "auto" else name
    if name not in METHODS:
        raise unknown("transfer", name, (*METHODS, "auto"))
    if family not in METHODS[name].families:
        suit = ", ".join(other for other, method in METHODS.items() if family in method.families)
        raise invalid("transfer", f"must suit the agent: {_KINDS[family]} can be taught by {suit}", name,
                      'Pass one of these, or "auto".')  # fmt: skip
    return METHODS[name]


def make_transfer(settings: Augmentation, pupil: Pupil, guide: Explorer, rng: np.random.Generator) -> Transfer:
    """The way of teaching that `settings` ask for, for this pupil and guide."""
    return transfer_class(settings.transfer, pupil.family)(settings, pupil, guide, rng)
