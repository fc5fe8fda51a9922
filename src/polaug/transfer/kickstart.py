"""`kickstart`: distils Q̂'s choice into the policy (Schmitt et al., 2018), relabelled on all states (DAgger).

The labels are soft: hard ones drive the entropy to zero, and the agent stays at its teacher's level for good.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray

from polaug.transfer.base import Lessons, Tensor


class Kickstart(Lessons):
    """Cross-entropy towards Q̂'s greedy action, for policies over discrete or continuous actions."""

    families = ("policy_gradient", "actor_critic")

    def _targets(self, observations: NDArray[Any]) -> Tensor | None:
        actions = self.explorer.greedy(observations)
        return None if actions is None else self.student.actions(actions)

    def _loss(self, observations: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.student.log_probs is not None:
            return _discrete(self.student.log_probs(observations), targets.long(), self.settings.smoothing)
        assert self.student.gaussian is not None  # every policy has one of the two
        return _continuous(*self.student.gaussian(observations), targets, 2.0 * self.settings.smoothing)


def _discrete(factors: list[Tensor], targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Mean over the factors of the action; the label leaves `smoothing` to all choices alike."""
    losses, apart = [], []
    for column, log_probs in enumerate(factors):
        target = targets[:, column]
        chosen = log_probs.gather(1, target[:, None])[:, 0]
        losses.append(-((1.0 - smoothing) * chosen + smoothing * log_probs.mean(dim=1)).mean())
        apart.append((log_probs.argmax(dim=1) != target).float().mean())
    return torch.stack(losses).mean(), torch.stack(apart).mean()


def _continuous(mean: Tensor, log_std: Tensor | None, targets: Tensor, softness: float) -> tuple[Tensor, Tensor]:
    """Cross-entropy from N(target, softness²) if the policy has a spread of its own to teach, else squared error."""
    square = (mean - targets).square()
    if log_std is None:
        loss = square.mean()
    else:
        loss = (0.5 * (square + softness**2) * torch.exp(-2.0 * log_std) + log_std).mean()
    return loss, square.mean().sqrt().clamp(max=1.0) / 2.0
