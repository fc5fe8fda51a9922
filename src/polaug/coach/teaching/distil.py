"""`distil`: policy distillation (Rusu et al., 2016) of the guide into a value-based agent's own Q, with n-step returns.

The loss is the cross-entropy from the guide's softmax(Q̂) to softmax(Q). The temperature is in units of the spread of
returns, so it fits every scale of rewards. The loss also trains the values of states in good episodes on their returns:
otherwise the agent's own temporal differences would change the values and lose the order of actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from polaug.coach.pupil import Inputs, Pupil, Tensor, count, joined
from polaug.coach.teaching.base import Distillation, Past
from polaug.coach.teaching.episodes import FinishedEpisodes
from polaug.config import Augmentation
from polaug.explorers import Explorer
from polaug.state import State

TEMPERATURE = 0.2
"""Temperature of softmax(Q), in units of the spread of returns."""

_RETURNS = 0.3  # weight of the loss on returns; a larger one would hide differences between actions


class Distil(Distillation):
    """−Σ_a p(a) log softmax(Q / t)(a), p from the guide, plus the distance of the value to the return."""

    families = ("value_based",)
    n_step = True
    holds = True  # temporal differences close the gaps between actions, and noise then decides between them

    def __init__(self, settings: Augmentation, pupil: Pupil, guide: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, pupil, guide, rng)
        self._episodes = FinishedEpisodes(pupil.gamma, settings.memory, best_half=True, whole_tails=True)
        self._levelled = not pupil.untrained

    def watch(self, transitions: Any) -> None:
        """Remember states, and returns of good episodes."""
        super().watch(transitions)
        self._episodes.watch(transitions)

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._episodes.restart()

    def repeat(self, weight: float) -> dict[str, float]:
        """An untrained network starts from the mean return, rather than climb down to it for a thousand updates."""
        if not self._levelled and len(self._episodes) and self.pupil.shift is not None:
            raw, _, returns = self._episodes.rows(np.arange(len(self._episodes)))
            with torch.no_grad():
                own = float(self._values(self.pupil.tensor(raw)).max(dim=1).values.mean())
            self.pupil.shift(float(returns.mean()) * self.pupil.reward_scale() - own)
            self._levelled = True
        return super().repeat(weight)

    def _values(self, states: Inputs) -> Tensor:
        assert self.pupil.values is not None  # value-based agents have them
        return self.pupil.values(states)

    def _targets(self, observations: Any) -> Tensor | None:
        with torch.no_grad():
            size = self._values(self.pupil.tensor(first_row(observations))).shape[1]
        return self._labels.probabilities(observations, [size])

    def _loss(self, states: Inputs, targets: Tensor, past: Past | None) -> tuple[Tensor, Tensor]:
        n = count(states)
        # One pass through the network for both parts of the loss.
        output = self._values(states if past is None else joined(states, past.states))
        spread = 0.0 if past is None else past.spread
        unit = max(spread, float(output[:n].detach().std(dim=0).mean()), 1e-9)
        log_probs = torch.log_softmax(output[:n] / (TEMPERATURE * unit), dim=1)
        apart = (output[:n].argmax(dim=1) != targets.argmax(dim=1)).float().mean()
        loss = -(targets * log_probs).sum(dim=1).mean()
        if past is not None:
            # The best value, but all are drawn alike: a return says how good a state is, and must not change the order.
            mean = output[n:].mean(dim=1)
            value = mean + (output[n:].max(dim=1).values - mean).detach()
            loss = loss + _RETURNS * torch.nn.functional.smooth_l1_loss(value / unit, past.returns / unit)
        return loss, apart

    def state_dict(self) -> State:
        """Also whether the values were put to the mean return."""
        return super().state_dict() | {"levelled": np.array(self._levelled)}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        super().load_state_dict(state)
        self._levelled = bool(state["levelled"])


def first_row(observations: Any) -> Any:
    """The first of n observations, as a batch of one."""
    if isinstance(observations, dict):
        return {key: rows[:1] for key, rows in observations.items()}
    return observations[:1]
