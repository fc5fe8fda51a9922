"""`kickstart`: distils the guide's choice into the policy (Schmitt et al., 2018).

The labels are soft: hard labels drive the entropy to zero, and the agent stops improving. Teaching also trains V(s) on
the returns, because an untrained value estimate would undo what was taught. Actor-critic agents have no such estimate:
Stable-Baselines3's own updates of the actor are smaller while it is taught.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from polaug.coach.pupil import Inputs, Pupil, Tensor
from polaug.coach.teaching.base import Distillation, Past
from polaug.coach.teaching.distil import first_row
from polaug.coach.teaching.episodes import FinishedEpisodes
from polaug.config import Augmentation
from polaug.explorers import Explorer

SMOOTHING = 0.25
"""Label smoothing: the probability spread over all choices; half the standard deviation of a continuous label."""

_RETURNS = 4_000  # steps whose returns are kept: older returns belong to an earlier policy
_BOUNDED = 0.9  # largest label for squashed actors: near 1 their gradients vanish


class Kickstart(Distillation):
    """Cross-entropy towards the guide's choice, for policies over discrete or continuous actions."""

    families = ("policy_gradient", "actor_critic")

    def __init__(self, settings: Augmentation, pupil: Pupil, guide: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, pupil, guide, rng)
        self._episodes = FinishedEpisodes(pupil.gamma, _RETURNS, whole_tails=True)

    def watch(self, transitions: Any) -> None:
        """Store states, and returns for the value estimate."""
        super().watch(transitions)
        if self.pupil.baseline is not None:
            self._episodes.watch(transitions)

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._episodes.restart()

    def _targets(self, observations: Any) -> Tensor | None:
        if self.pupil.log_probs is not None:
            with torch.no_grad():
                factors = self.pupil.log_probs(self.pupil.tensor(first_row(observations)))
            return self._labels.probabilities(observations, [factor.shape[1] for factor in factors])
        actions = self._labels.actions(observations)
        if actions is None:
            return None
        bound = _BOUNDED if self.pupil.family == "actor_critic" else np.inf
        return actions.clamp(-bound, bound)

    def _loss(self, states: Inputs, targets: Tensor, past: Past | None) -> tuple[Tensor, Tensor]:
        if self.pupil.log_probs is not None:
            loss, apart = _discrete(self.pupil.log_probs(states), targets)
            return loss + self._value_loss(past), apart
        assert self.pupil.gaussian is not None  # every policy has one of the two
        mean, log_std = self.pupil.gaussian(states)
        square = (mean - targets).square()
        apart = square.mean().sqrt().clamp(max=1.0) / 2.0
        if log_std is None:
            return square.mean() + self._value_loss(past), apart
        # Cross-entropy from N(target, softness²), which also trains the standard deviation.
        softness = 2.0 * SMOOTHING
        loss = (0.5 * (square + softness**2) * torch.exp(-2.0 * log_std) + log_std).mean()
        return loss + self._value_loss(past), apart

    def _value_loss(self, past: Past | None) -> Tensor | float:
        """Distance of V to returns, in units of their spread."""
        if past is None or self.pupil.baseline is None:
            return 0.0
        values = self.pupil.baseline(past.states)
        return torch.nn.functional.smooth_l1_loss(values / past.spread, past.returns / past.spread)


def _discrete(factors: list[Tensor], targets: Tensor) -> tuple[Tensor, Tensor]:
    """Mean over the factors of the action."""
    losses, apart = [], []
    labels = torch.split(targets, [log_probs.shape[1] for log_probs in factors], dim=1)
    for label, log_probs in zip(labels, factors, strict=True):
        chosen = (label * log_probs).sum(dim=1)
        losses.append(-((1.0 - SMOOTHING) * chosen + SMOOTHING * log_probs.mean(dim=1)).mean())
        apart.append((log_probs.argmax(dim=1) != label.argmax(dim=1)).float().mean())
    return torch.stack(losses).mean(), torch.stack(apart).mean()
