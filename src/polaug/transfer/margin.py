"""`margin`: a large-margin loss towards Q̂'s choice (as in DQfD, Hester et al., 2018), with n-step returns.

Choices alone do not last: the values taught so are far from what the agent's own temporal differences ask for, and the
order of actions is lost on the way there. So the lesson also draws the values of actions taken in good episodes to the
returns that followed. The margin is measured in units of their spread, so that it fits every scale of rewards.
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

_RETURNS = 0.3  # weight of the distance to the returns: their size would drown the differences between actions


class Margin(Lessons):
    """max_a [Q(s, a) + margin·1(a ≠ a*)] − Q(s, a*) for Q̂'s greedy a*, plus the distance of Q(s, a) to the return."""

    families = ("value_based",)
    n_step = True
    holds = True  # temporal differences close the margins, and noise then decides between actions

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, student, explorer, rng)
        self._episodes = FinishedEpisodes(student.gamma, settings.memory, best_half=True, whole_tails=True)
        self._levelled = False

    def watch(self, transitions: Transitions) -> None:
        """Remember states, and returns of good episodes."""
        super().watch(transitions)
        self._episodes.watch(transitions)

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._episodes.restart()

    def forget(self) -> None:
        """Also that the values were put to the mean return."""
        super().forget()
        self._levelled = False

    def _targets(self, observations: NDArray[Any]) -> Tensor | None:
        actions = self._asked.greedy(observations)
        return None if actions is None else self.student.actions(actions)[:, 0].long()

    def _loss(self, observations: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        assert self.student.values is not None  # value-based agents have them
        n, past = len(observations), self._returns.next()
        if past is not None:  # one pass through the network for both parts of the loss
            observations = torch.cat([observations, past.states])
        output = self.student.values(observations)
        unit = max(self._returns.spread, float(output[:n].detach().std(dim=0).mean()), 1e-9)
        loss, apart = self._choice_loss(output[:n], targets, unit)
        if past is not None:
            own = self._judged(output[n:], past.actions)
            loss = loss + _RETURNS * torch.nn.functional.smooth_l1_loss(own / unit, past.returns / unit)
        return loss, apart

    def repeat(self, weight: float) -> dict[str, float]:
        """A young network starts from the mean return instead of climbing down to it for a thousand minibatches."""
        if not self._levelled and self._first.redrawn and len(self._episodes) and self.student.shift is not None:
            raw, _, returns = self._episodes.rows(np.arange(len(self._episodes)))
            with torch.no_grad():
                assert self.student.values is not None  # value-based agents have them
                own = float(self.student.values(self.student.tensor(raw)).max(dim=1).values.mean())
            self.student.shift(float(returns.mean()) * self.student.reward_scale() - own)
            self._levelled = True
        return super().repeat(weight)

    def _judged(self, values: Tensor, taken: Tensor) -> Tensor:
        """What is drawn to the return: the value of the action taken."""
        return values.gather(1, taken[:, :1].long())[:, 0]

    def _choice_loss(self, values: Tensor, targets: Tensor, unit: float) -> tuple[Tensor, Tensor]:
        best = targets[:, None]
        handicap = torch.full_like(values, self.settings.margin * unit).scatter(1, best, 0.0)
        loss = ((values + handicap).max(dim=1).values - values.gather(1, best)[:, 0]).mean() / unit
        return loss, (values.argmax(dim=1) != targets).float().mean()

    def state_dict(self) -> State:
        """Also the returns."""
        own: State = {"levelled": np.array(self._levelled)}
        return super().state_dict() | own | prefixed("episodes", self._episodes.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        super().load_state_dict(state)
        self._levelled = bool(state["levelled"])
        self._episodes.load_state_dict(part("episodes", state))
