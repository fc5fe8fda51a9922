"""`kickstart`: distils Q̂'s choice into the policy (Schmitt et al., 2018), relabelled on all states (DAgger).

The labels are soft: hard ones drive the entropy to zero, and the agent stays at its teacher's level for good. An agent
whose value estimate knows nothing ruins what it was taught, so the lesson also draws V(s) to the returns.

An actor that climbs a critic follows Q̂ only where its critic thinks more of Q̂'s choice than of the actor's own (the Q
filter of Nair et al., 2018): a copy that is not quite exact may be far worse than its teacher, and the critic knows
where. An ignorant critic objects to everything, though. So while exams do not get better it loses its say, and regains
it if they still do not.
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
_BOUNDED = 0.9  # largest action that is taught to squashed actors: nearer to 1 their gradients vanish
_EXAMS = 4  # by which a way of following is judged: the last two must be better than the first two,
_BETTER = 0.1  # by this, of the range of returns


class Kickstart(Lessons):
    """Cross-entropy towards Q̂'s choice, for policies over discrete or continuous actions."""

    families = ("policy_gradient", "actor_critic")

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, student, explorer, rng)
        self._labels = SoftLabels(student, self._asked)
        self._episodes = FinishedEpisodes(student.gamma, _RETURNS, whole_tails=True)
        self._exams = np.zeros(0)  # since the critic last lost or regained its say
        self._critic_speaks = student.critic is not None

    def watch(self, transitions: Transitions) -> None:
        """Remember states, and returns for the value estimate."""
        super().watch(transitions)
        if self.student.baseline is not None:
            self._episodes.watch(transitions)

    def examined(self, total: float, scale: float, *, behind: bool) -> None:
        """Judge how the teacher is followed, if the agent is still behind."""
        self._exams = np.append(self._exams, total)[-_EXAMS:] if behind else self._exams[:0]
        better = self._exams[-2:].mean() - self._exams[:2].mean() > _BETTER * scale if len(self._exams) else True
        if self.student.critic is not None and len(self._exams) == _EXAMS and not better:
            self._critic_speaks, self._exams = not self._critic_speaks, self._exams[:0]

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._episodes.restart()

    def forget(self) -> None:
        """Also how it was followed."""
        super().forget()
        self._exams, self._critic_speaks = np.zeros(0), self.student.critic is not None

    def _targets(self, observations: NDArray[Any]) -> Tensor | None:
        if self.student.log_probs is not None:
            with torch.no_grad():
                sizes = [part.shape[1] for part in self.student.log_probs(self.student.tensor(observations[:1]))]
            return self._labels(observations, sizes)
        actions = self._asked.greedy(observations)
        if actions is None:
            return None
        bound = np.inf if self.student.critic is None else _BOUNDED
        return self.student.actions(actions).clamp(-bound, bound)

    def _loss(self, observations: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self.student.log_probs is not None:
            loss, apart = _discrete(self.student.log_probs(observations), targets, self.settings.smoothing)
            return loss + self._value_loss(), apart
        assert self.student.gaussian is not None  # every policy has one of the two
        mean, log_std = self.student.gaussian(observations)
        if self.student.critic is None:
            loss, apart = _continuous(mean, log_std, targets, 2.0 * self.settings.smoothing)
            return loss + self._value_loss(), apart
        square = (mean - targets).square()
        agreed = self._agreed(observations, mean, targets) if self._critic_speaks else 1.0
        return (agreed * square).mean(), _apart(square)

    def _agreed(self, observations: Tensor, own: Tensor, targets: Tensor) -> Tensor:
        """Where (n, 1) the critic thinks more of Q̂'s choice than of the actor's `own`."""
        assert self.student.critic is not None  # asked of no one else
        with torch.no_grad():
            said, done = (self.student.critic(observations, a).min(dim=1).values for a in (targets, own))
        return (said > done).float()[:, None]

    def _value_loss(self) -> Tensor | float:
        """Distance of V to returns, in units of their spread."""
        past = self._returns.next()
        if past is None or self.student.baseline is None:
            return 0.0
        unit = max(self._returns.spread, 1e-9)
        return torch.nn.functional.smooth_l1_loss(self.student.baseline(past.states) / unit, past.returns / unit)

    def state_dict(self) -> State:
        """Also the returns."""
        own: State = {"exams": self._exams.copy(), "critic_speaks": np.array(self._critic_speaks)}
        return super().state_dict() | own | prefixed("episodes", self._episodes.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        super().load_state_dict(state)
        self._exams, self._critic_speaks = state["exams"].astype(float), bool(state["critic_speaks"])
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
    return loss, _apart(square)


def _apart(square: Tensor) -> Tensor:
    return square.mean().sqrt().clamp(max=1.0) / 2.0
