"""`distil`: policy distillation (Rusu et al., 2016) of Q̂ into an agent's own Q, with n-step returns.

As `margin`, but soft where Q̂ hardly prefers an action to another: the cross-entropy from softmax(Q̂) to softmax(Q). Its
temperature is measured in units of the spread of returns, so that a sure label asks for a margin of `margin` units.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.exploration import Explorer
from polaug.transfer.base import Student, Tensor
from polaug.transfer.labels import SoftLabels
from polaug.transfer.margin import Margin

_SURE = 4.0  # log-odds of a sure label


class Distil(Margin):
    """−Σ_a p(a) log softmax(Q / t)(a), p from Q̂, plus the distance of Q(s, a) to the return."""

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, student, explorer, rng)
        self._labels = SoftLabels(student, self._asked)

    def _targets(self, observations: NDArray[Any]) -> Tensor | None:
        assert self.student.values is not None  # value-based agents have them
        with torch.no_grad():
            size = self.student.values(self.student.tensor(observations[:1])).shape[1]
        return self._labels(observations, [size])

    def _choice_loss(self, values: Tensor, targets: Tensor, unit: float) -> tuple[Tensor, Tensor]:
        temperature = max(self.settings.margin, 1e-3) / _SURE
        log_probs = torch.log_softmax(values / (temperature * unit), dim=1)
        apart = (values.argmax(dim=1) != targets.argmax(dim=1)).float().mean()
        return -(targets * log_probs).sum(dim=1).mean(), apart

    def _judged(self, values: Tensor, taken: Tensor) -> Tensor:
        """The best value, but all are drawn alike: a return says how good a state is, and must not change the order."""
        mean = values.mean(dim=1)
        return mean + (values.max(dim=1).values - mean).detach()
