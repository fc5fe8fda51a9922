"""What a way of teaching may ask of an agent (`Student`), what it may ask of its surroundings (`Lesson`), and what it
must offer (`Transfer`).

No training library is known here: an integration wraps its agent into a `Student`, whose callables take and give
tensors, and calls `watch`, `select` and `teach` at the right moments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.exploration import Explorer, Transitions
from polaug.state import State, part, prefixed
from polaug.transfer.asked import Asked
from polaug.transfer.drawn import DrawnReturns
from polaug.transfer.episodes import FinishedEpisodes
from polaug.transfer.first_layer import FirstLayers
from polaug.transfer.memory import Memory
from polaug.transfer.optimizer import TeachingOptimizer, input_factor

Tensor = torch.Tensor

_LABELLED = 8  # batches that a lesson labels at most,
_PASSES = 5  # and how often it goes over them
_MANY = 20  # actions, beyond which fewer states are labelled: Q̂ is asked about each action in each state
_FEWER = 4  # times fewer returns than labels in a minibatch
_LECTURES = 4  # full lessons whose labels are kept: Q̂ wavers, and their votes average it out


_CONTINUOUS = 0.3  # of the rate


def _nothing() -> None:
    pass


def _one() -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class Student:
    """An agent as its teacher sees it. `family` is "policy_gradient", "actor_critic" or "value_based".

    `tensor` turns raw observations into the network's input. Of the three outputs the agent has those that it can give:
    `log_probs` (one tensor (n, choices) for each factor of a discrete action), `gaussian` (mean (n, d), in units where
    the action space is [−1, 1], and log standard deviation or None) and `values` (Q (n, N) of all discrete actions).
    `baseline` gives V(s) of agents whose gradient is measured against it, `critic` (n, k) the k estimates of Q(s, a) of
    agents whose actor climbs them.
    `evaluate` gives log π(a|s) or None, and the value estimate: V(s), or Q(s, a) for value-based agents.
    `first_layers` multiply the d numbers of `tensor`'s output; if `untrained` they may be redrawn to suit these.
    `reward_scale` is the factor between raw rewards and those that the agent's values are made of.
    `shift` adds a number to all `values`. `sync` brings slow copies of the networks (targets) up to the taught ones.
    """

    family: str
    gamma: float
    parameters: Callable[[], Sequence[torch.nn.Parameter]]
    tensor: Callable[[Any], Tensor]
    actions: Callable[[Any], Tensor]
    log_probs: Callable[[Tensor], list[Tensor]] | None = None
    gaussian: Callable[[Tensor], tuple[Tensor, Tensor | None]] | None = None
    values: Callable[[Tensor], Tensor] | None = None
    baseline: Callable[[Tensor], Tensor] | None = None
    critic: Callable[[Tensor, Tensor], Tensor] | None = None
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor | None, Tensor]] | None = None
    shift: Callable[[float], None] | None = None
    sync: Callable[[], None] = _nothing
    reward_scale: Callable[[], float] = _one
    first_layers: Callable[[], Sequence[torch.nn.Linear]] = tuple
    untrained: bool = False


@dataclass(frozen=True, slots=True)
class Rollout:
    """What an on-policy buffer holds: T steps of n environments; `starts` marks first steps of episodes."""

    driven: NDArray[np.bool_]
    starts: NDArray[np.bool_]
    rewards: NDArray[np.float32]


class Transfer(ABC):
    """Base of all ways to teach. The name of one is its file's."""

    families: ClassVar[tuple[str, ...]] = ("policy_gradient", "actor_critic", "value_based")
    """The kinds of agents it can teach."""
    n_step: ClassVar[bool] = False
    """True if value-based agents should use n-step returns."""
    holds: ClassVar[bool] = False
    """True if what was taught is lost unless it is repeated."""
    hands_over_by_itself: ClassVar[bool] = True
    """False if τ_e alone decides who drives."""

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        self.settings, self.student, self.explorer, self.rng = settings, student, explorer, rng

    def watch(self, transitions: Transitions) -> None:  # noqa: B027 (most need nothing)
        """Take in one step of each environment, whoever drove."""

    def examined(self, total: float, scale: float, *, behind: bool) -> None:  # noqa: B027 (most need nothing)
        """Take in the return of an episode that the agent drove without noise, while it was taught.

        Returns come from a range of width `scale`; `behind`: the explorer is better by more than a little.
        """

    def forget(self) -> None:  # noqa: B027 (most need nothing)
        """The agent was let go: what it was taught counts no more, and it may have its first parameters again."""

    def restart(self) -> None:  # noqa: B027 (most need nothing)
        """Environments have been reset: what was under way has no end."""

    def select(self, rollout: Rollout) -> NDArray[np.int64] | None:
        """Steps that an on-policy loss may see, as flat indices t + T·environment; None for all.

        By default those that the agent took itself: the loss assumes its own policy.
        """
        return None if not rollout.driven.any() else np.flatnonzero(~rollout.driven.T)

    @abstractmethod
    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """One lesson, the longer the larger `weight` in (0, 1]; gives scalars for logging."""

    def repeat(self, weight: float) -> dict[str, float]:
        """A lesson about what was said earlier: Q̂ is not asked."""
        return {}

    def state_dict(self) -> State:
        """Everything needed to go on to the bit."""
        return {}

    def load_state_dict(self, state: State) -> None:  # noqa: B027
        """Go on from `state_dict`."""


class Lessons(Transfer):
    """Base of the ways that distil Q̂'s choices: supervised minibatches on the states seen by either actor, and values
    drawn to the returns of `_episodes`.
    """

    _episodes: FinishedEpisodes
    _returns: DrawnReturns  # of the lesson under way

    def __init__(self, settings: Augmentation, student: Student, explorer: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, student, explorer, rng)
        explorer.teaches = True
        self._asked = Asked(explorer)
        self._memory = Memory(settings.memory)
        # Actors of continuous actions saturate at the rate that suits choices, and then learn nothing more.
        rate = settings.teach_rate * (1.0 if student.gaussian is None else _CONTINUOUS)
        self._optimizer = TeachingOptimizer(student.parameters, rate, student.first_layers)
        self._first = FirstLayers(student.first_layers, student.untrained)
        self._disagreement = 1.0
        capacity = _LECTURES * _LABELLED * settings.teach_batch_size
        self._labelled = {name: Memory(capacity, name) for name in ("labelled", "labels")}

    def watch(self, transitions: Transitions) -> None:
        """Remember the states."""
        self._memory.add(np.asarray(transitions.observations))

    def forget(self) -> None:
        """Neither labels nor momentum, and the first layers may be redrawn again."""
        for memory in self._labelled.values():
            memory.clear()
        self._optimizer.forget()
        self._first.forget()
        self._disagreement = 1.0

    @abstractmethod
    def _targets(self, observations: NDArray[Any]) -> Tensor | None:
        """What Q̂ says about these states; None if it has nothing to say yet."""

    @abstractmethod
    def _loss(self, observations: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of a minibatch, and how far the agent is from the teacher, 0 (agrees) to 1."""

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """Minibatches in proportion to how much the agent still disagrees, down to a tenth: lessons cost time."""
        # Labelling is cheap beside training, but not free: each lesson labels a few batches and goes over them again.
        size = self.settings.teach_batch_size
        states = min(-(-self._batches(weight) // _PASSES), _LABELLED) * size
        self._label(max(size, states * _MANY // max(_MANY, self.explorer.actions.n_actions)))
        return self.repeat(weight) | self._asked.statistics

    def _batches(self, weight: float) -> int:
        return max(1, round(weight * self.settings.teach_batches * min(1.0, 0.1 + 2.0 * self._disagreement)))

    def repeat(self, weight: float) -> dict[str, float]:
        """A lesson without new labels."""
        batches, size = self._batches(weight), self.settings.teach_batch_size
        states = self._labelled["labelled"].rows
        if not len(states):
            return {}
        inputs = self.student.tensor(states)
        targets = torch.from_numpy(self._labelled["labels"].rows).to(inputs.device)
        if self._first.fit(inputs, self.rng):
            self._optimizer.forget()
        factor = input_factor(inputs)
        # Drawn for the whole lesson at once: a small network's step costs less than the calls around it.
        self._returns = DrawnReturns(self._episodes, self.student, self.rng, batches, size // _FEWER)
        rows = torch.from_numpy(self.rng.integers(len(states), size=(batches, size)))
        total, apart = torch.zeros(()), torch.zeros(())
        for k, chosen in enumerate(rows):
            loss, distance = self._loss(inputs[chosen], targets[chosen])
            # A lesson ends with small steps: at a constant rate the borders between actions jitter.
            self._optimizer.step(loss, factor, 1.0 - k / batches)
            total, apart = total + loss.detach().cpu(), apart + distance.detach().cpu()
        self._disagreement = float(apart) / batches
        self.student.sync()
        return {"lesson_loss": float(total) / batches, "disagreement": self._disagreement,
                "lesson_batches": float(batches)}  # fmt: skip

    def _label(self, n: int) -> None:
        """Ask Q̂ about n of the states."""
        states = self._memory.sample(n, self.rng)
        labels = None if states is None else self._targets(states)
        if states is not None and labels is not None:
            self._labelled["labelled"].add(states)
            self._labelled["labels"].add(labels.cpu().numpy())

    def state_dict(self) -> State:
        """States, the optimizer and the last disagreement."""
        own: State = {"disagreement": np.array(self._disagreement)}
        for memory in (self._memory, *self._labelled.values()):
            own |= memory.state_dict()
        return own | self._optimizer.state_dict() | prefixed("first", self._first.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        for memory in (self._memory, *self._labelled.values()):
            memory.load_state_dict(state)
        self._optimizer.load_state_dict(state)
        self._first.load_state_dict(part("first", state))
        self._disagreement = float(state["disagreement"])
