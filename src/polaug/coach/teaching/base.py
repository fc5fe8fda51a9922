"""`Transfer`, the base of all ways to teach, and `Distillation`, the base of those that distil a guide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.coach.pupil import Inputs, Pupil, Tensor, count, take
from polaug.coach.standardise import FirstLayer
from polaug.coach.teaching.episodes import FinishedEpisodes
from polaug.coach.teaching.labels import Labels
from polaug.coach.teaching.memory import Memory
from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.explorers import Explorer, Transitions
from polaug.state import State, part, prefixed

_LABELLED = 2_048  # maximum number of states that are labelled before a teaching phase
_KEPT = 4  # times as many labels are kept, which averages over changes of Q̂
_MANY = 20  # with more actions fewer states are labelled, because Q̂ is computed for each action
_RETURNS = 64  # states of finished episodes in a minibatch: a quarter of the labelled ones
_CONTINUOUS = 0.3  # factor of the rate: actors of continuous actions would saturate at the full rate


@dataclass(frozen=True, slots=True)
class Rollout:
    """T steps of n environments in an on-policy buffer; `starts` marks first steps of episodes."""

    driven: NDArray[np.bool_]
    starts: NDArray[np.bool_]
    rewards: NDArray[np.float32]


class Transfer(ABC):
    """Base of all ways to teach. The name of a way is that of its file."""

    families: ClassVar[tuple[str, ...]] = ("policy_gradient", "actor_critic", "value_based")
    """The kinds of agents it can teach."""
    n_step: ClassVar[bool] = False
    """True if value-based agents should use n-step returns."""
    holds: ClassVar[bool] = False
    """True if teaching must be repeated to last."""
    hands_over_by_itself: ClassVar[bool] = True
    """False if τ_e alone decides what drives."""

    def __init__(self, settings: Augmentation, pupil: Pupil, guide: Explorer, rng: np.random.Generator) -> None:
        self.settings, self.pupil, self.guide, self.rng = settings, pupil, guide, rng

    def watch(self, transitions: Transitions) -> None:  # noqa: B027 (most need nothing)
        """Record one step of each environment."""

    def restart(self) -> None:  # noqa: B027 (most need nothing)
        """Environments have been reset: drop unfinished episodes."""

    def select(self, rollout: Rollout) -> NDArray[np.int64] | None:
        """Steps that an on-policy loss uses, as flat indices t + T·environment; None for all.

        By default the agent's own steps, because the loss assumes its own policy.
        """
        return None if not rollout.driven.any() else np.flatnonzero(~rollout.driven.T)

    @property
    def ready(self) -> bool:
        """Whether there is something to teach."""
        return True

    @abstractmethod
    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """Run teaching updates, more for a larger `weight` in (0, 1]. Returns scalars to log."""

    def repeat(self, weight: float) -> dict[str, float]:
        """Run teaching updates on earlier labels."""
        return {}

    def state_dict(self) -> State:
        """The state as plain arrays."""
        return {}

    def load_state_dict(self, state: State) -> None:  # noqa: B027
        """Restore a `state_dict`."""


class Past(NamedTuple):
    """A minibatch of finished episodes: network inputs, actions as the agent counts them, returns in its units."""

    states: Inputs
    actions: Tensor
    returns: Tensor
    spread: float
    """Standard deviation of all returns drawn."""


class Distillation(Transfer):
    """Trains on labelled states, which are relabelled as the guide changes (DAgger, Ross et al., 2011), and on the
    returns of finished episodes.
    """

    _episodes: FinishedEpisodes

    def __init__(self, settings: Augmentation, pupil: Pupil, guide: Explorer, rng: np.random.Generator) -> None:
        super().__init__(settings, pupil, guide, rng)
        self._labels = Labels(pupil, guide)
        self._memory = Memory(settings.memory)
        self._labelled = {name: Memory(_KEPT * _LABELLED, name) for name in ("states", "targets")}
        self._adam: torch.optim.Adam | None = None
        self._first = FirstLayer(pupil.standardised, pupil.first_layers, pupil.untrained)
        self._disagreement = 1.0

    def watch(self, transitions: Transitions) -> None:
        """Store the states."""
        self._memory.add(transitions.observations)

    @property
    def ready(self) -> bool:
        """Whether the guide has labels."""
        return len(self._memory) > 0 and self.guide.greedy(self._memory.at(np.zeros(1, np.int64))) is not None

    @abstractmethod
    def _targets(self, observations: Any) -> Tensor | None:
        """The guide's labels for these states; None if it has none yet."""

    @abstractmethod
    def _loss(self, states: Inputs, targets: Tensor, past: Past | None) -> tuple[Tensor, Tensor]:
        """The loss of a minibatch, and how far the agent is from the guide, 0 (agrees) to 1."""

    def teach(self, weight: float = 1.0) -> dict[str, float]:
        """Label some of the states, then update."""
        updates = self._updates(weight)
        states = min(updates * self.settings.teach_batch_size // 4, _LABELLED)
        n = max(self.settings.teach_batch_size, states * _MANY // max(_MANY, self.guide.actions.n_actions))
        sample = self._memory.sample(n, self.rng)
        targets = None if sample is None else self._targets(sample)
        if sample is not None and targets is not None:
            self._labelled["states"].add(sample)
            self._labelled["targets"].add(targets.cpu().numpy())
        return self.repeat(weight) | self._labels.statistics

    def _updates(self, weight: float) -> int:
        """Number of updates: proportional to the disagreement with the guide, at least a tenth."""
        return max(1, round(weight * self.settings.teach_updates * min(1.0, 0.1 + 2.0 * self._disagreement)))

    def repeat(self, weight: float) -> dict[str, float]:
        """Updates without new labels."""
        updates, size = self._updates(weight), self.settings.teach_batch_size
        if not len(self._labelled["states"]):
            return {}
        inputs = self.pupil.tensor(self._labelled["states"].rows)
        targets = torch.from_numpy(self._labelled["targets"].rows).to(self._device)
        if self.pupil.standardised() and self._first.fit(self.pupil.columns(inputs), self.rng):
            self._adam = None
        adam = self._optimizer()
        past = self._past(updates)
        # Drawn for all updates at once: a small network's update costs less than the calls around it.
        rows = torch.from_numpy(self.rng.integers(count(inputs), size=(updates, size)))
        total, apart = torch.zeros(()), torch.zeros(())
        for k, chosen in enumerate(rows):
            loss, distance = self._loss(take(inputs, chosen), targets[chosen], next(past, None))
            # The rate falls to 0: at a constant one the borders between actions jitter.
            adam.param_groups[0]["lr"] = (1.0 - k / updates) * self._rate
            _forget_gradients(adam)
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
            total, apart = total + loss.detach().cpu(), apart + distance.detach().cpu()
        _forget_gradients(adam)
        self._disagreement = float(apart) / updates
        self.pupil.sync()
        return {"loss": float(total) / updates, "disagreement": self._disagreement, "updates": float(updates)}

    @property
    def _rate(self) -> float:
        return self.settings.teach_rate * (1.0 if self.pupil.gaussian is None else _CONTINUOUS)

    def _optimizer(self) -> torch.optim.Adam:
        """Its own Adam: teaching must not disturb the moments of the agent's optimizer."""
        if self._adam is None:
            # The fused kernel takes a third off a small network's step.
            self._adam = torch.optim.Adam(list(self.pupil.parameters()), lr=self._rate, fused=True)
        return self._adam

    def _past(self, batches: int) -> Iterator[Past]:
        """A minibatch of finished episodes for each update; none while no episode has been kept."""
        if not len(self._episodes):
            return iter(())
        at = self.rng.integers(len(self._episodes), size=batches * _RETURNS)
        states, taken, returns = self._episodes.rows(at)
        returns = (returns * self.pupil.reward_scale()).astype(np.float32)
        inputs, actions = self.pupil.tensor(states), self.pupil.actions(taken)
        spread, wanted = max(float(returns.std()), 1e-9), torch.from_numpy(returns).to(self._device)
        parts = (slice(k, k + _RETURNS) for k in range(0, len(at), _RETURNS))
        return (Past(take(inputs, part), actions[part], wanted[part], spread) for part in parts)

    @property
    def _device(self) -> torch.device:
        return self.pupil.parameters()[0].device

    def state_dict(self) -> State:
        """States, labels, the optimizer and the last disagreement."""
        own: State = {"disagreement": np.array(self._disagreement)}
        for memory in (self._memory, *self._labelled.values()):
            own |= memory.state_dict()
        adam = {} if self._adam is None else self._adam.state_dict()["state"]
        own |= {f"adam.{k}.{name}": moments[name].detach().cpu().numpy()
                for k, moments in adam.items() for name in _MOMENTS}  # fmt: skip
        own |= prefixed("episodes", self._episodes.state_dict())
        return own | prefixed("first", self._first.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        for memory in (self._memory, *self._labelled.values()):
            memory.load_state_dict(state)
        self._load_adam({key: array for key, array in state.items() if key.startswith("adam.")})
        self._episodes.load_state_dict(part("episodes", state))
        self._first.load_state_dict(part("first", state))
        self._disagreement = float(state["disagreement"])

    def _load_adam(self, arrays: State) -> None:
        self._adam = None
        if not arrays:
            return
        adam = self._optimizer()
        parameters = adam.param_groups[0]["params"]
        moments: dict[int, dict[str, Tensor]] = {}
        for key, array in arrays.items():
            _, number, name = key.split(".", 2)
            shape = parameters[int(number)].shape if name != "step" else ()
            if name not in _MOMENTS or tuple(array.shape) != tuple(shape):
                raise StateError(f"{key}: must have shape {tuple(shape)}, got {array.shape}. The state is damaged.")
            moments.setdefault(int(number), {})[name] = torch.from_numpy(np.array(array))
        adam.load_state_dict({"state": moments, "param_groups": adam.state_dict()["param_groups"]})


_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def _forget_gradients(adam: torch.optim.Adam) -> None:
    for parameter in adam.param_groups[0]["params"]:  # as zero_grad, without its profiling, which costs more
        parameter.grad = None
