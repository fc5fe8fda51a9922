"""`kickstart`: distils Q̂'s choice into the policy (Schmitt et al., 2018), relabelled on all states (DAgger).

The labels are soft: hard ones drive the entropy to zero, and the agent stays at its teacher's level for good. An agent
whose value estimates know nothing ruins what it was taught, so the lesson also draws them to the returns: V(s) to all,
Q(s, a) to those of good episodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.exploration import Explorer, Transitions
from polaug.state import State, part, prefixed
from polaug.transfer.base import Lessons, Student, Tensor
from polaug.transfer.episodes import FinishedEpisodes
from polaug.transfer.labels import SoftLabels

_RETURNS = 4_000  # steps whose returns are kept: values of a policy that has changed mislead


class Kickstart(Lessons):
    """Cross-entropy towards Q̂'s choice, for policies over discrete or continuous actions."""

    families = ("policy_gradient", "actor_critic")

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, student, explorer, rng)
        self._labels = SoftLabels(student, explorer)
        good = student.critic is not None
        self._episodes = FinishedEpisodes(
            student.gamma, settings.memory if good else _RETURNS, best_half=good, whole_tails=True
        )

    def watch(self, transitions: Transitions) -> None:
        """Remember states, and returns for the value estimate."""
        super().watch(transitions)
        if self.student.baseline is not None or self.student.critic is not None:
            self._episodes.watch(transitions)

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._episodes.restart()

    def _targets(self, observations: NDArray[Any]) -> Tensor | None:
        if self.student.log_probs is not None:
            with torch.no_grad():
                sizes = [part.shape[1] for part in self.student.log_probs(self.student.tensor(observations[:1]))]
            return self._labels(observations, sizes)
        actions = self.explorer.greedy(observations)
        return None if actions is None else self.student.actions(actions)

    def _loss(self, observations: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.student.log_probs is not None:
            loss, apart = _discrete(self.student.log_probs(observations), targets, self.settings.smoothing)
        else:
            assert self.student.gaussian is not None  # every policy has one of the two
            spoken = self.student.gaussian(observations)
            loss, apart = _continuous(*spoken, targets, 2.0 * self.settings.smoothing)
        return loss + self._value_loss(len(observations)), apart

    def _value_loss(self, n: int) -> Tensor | float:
        """Distance of values to returns, in units of their spread."""
        if not len(self._episodes):
            return 0.0
        raw, taken, returns = self._episodes.rows(self.rng.integers(len(self._episodes), size=n))
        scale, states = self.student.reward_scale(), self.student.tensor(raw)
        unit = max(float(returns.std()) * scale, 1e-9)
        if self.student.critic is not None:
            values = self.student.critic(states, self.student.actions(taken))
        else:
            assert self.student.baseline is not None  # else no episode would have been watched
            values = self.student.baseline(states)[:, None]
        target = values.new_tensor(returns * scale / unit)[:, None].expand_as(values)
        return torch.nn.functional.smooth_l1_loss(values / unit, target)

    def state_dict(self) -> State:
        """Also the returns."""
        return super().state_dict() | prefixed("episodes", self._episodes.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        super().load_state_dict(state)
        self._episodes.load_state_dict(part("episodes", state))


def _discrete(factors: list[Tensor], targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Mean over the factors of the action; the label leaves `smoothing` to all choices alike."""
    losses, apart = [], []
    labels = torch.split(targets, [log_probs.shape[1] for log_probs in factors], dim=1)
    for label, log_probs in zip(labels, factors, strict=True):
        said = (label * log_probs).sum(dim=1)
        losses.append(-((1.0 - smoothing) * said + smoothing * log_probs.mean(dim=1)).mean())
        apart.append((log_probs.argmax(dim=1) != label.argmax(dim=1)).float().mean())
    return torch.stack(losses).mean(), torch.stack(apart).mean()


def _continuous(mean: Tensor, log_std: Tensor | None, targets: Tensor, softness: float) -> tuple[Tensor, Tensor]:
    """Cross-entropy from N(target, softness²) if the policy has a spread of its own to teach, else squared error."""
    square = (mean - targets).square()
    if log_std is None:
        loss = square.mean()
    else:
        loss = (0.5 * (square + softness**2) * torch.exp(-2.0 * log_std) + log_std).mean()
    return loss, square.mean().sqrt().clamp(max=1.0) / 2.0
