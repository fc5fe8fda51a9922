"""The one protocol of explorers, batched: who chooses actions, learns from transitions, and may pay for novelty.

Every array has one row per environment; a single environment is a batch of one. The base class checks what comes in
before anything changes, so that a bad call leaves the explorer as it was; subclasses see flat, checked arrays.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polaug.checks import whole
from polaug.errors import StateError, invalid
from polaug.exploration.threads import one_thread
from polaug.features import ActionFeatures, action_features
from polaug.features.custom import Custom
from polaug.features.spaces import LARGEST, Flattener, Space, signature, unbounded_box
from polaug.state import State, generator_state, load_state, part, prefixed, restored_generator, save_state

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Transitions:
    """One step of each environment, as the environment returned it.

    `next_observations` holds the state that the step led to, also where the episode ended there: the terminal
    observation, not the first one of the next episode. `terminated` says that the task ended there (its value is 0
    from then on); `truncated` that somebody stopped counting (it is not).
    """

    observations: Any
    actions: Any
    rewards: Any
    next_observations: Any
    terminated: Any
    truncated: Any

    @staticmethod
    def joined(steps: Sequence[Transitions]) -> Transitions:
        """Several steps as one of more rows, in their order; observations must be arrays."""
        names = [field.name for field in fields(Transitions)]
        return Transitions(*(np.concatenate([getattr(step, name) for step in steps]) for name in names))


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked transitions of n environments.

    `flat` and `next_flat` (n, d) are the observations as numbers, `states` and `next_states` the same observations
    as members of the explorer's state space, which feature maps take; `actions` are columns of Q (the nearest ones),
    `features` (n, ·) the features y(a) of the very actions.
    """

    flat: FloatArray
    actions: IntArray
    features: FloatArray
    rewards: FloatArray
    next_flat: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    states: Any
    next_states: Any

    def __len__(self) -> int:
        return len(self.rewards)

    def rows(self, some: slice) -> Batch:
        """Some of them; states must be arrays."""
        return Batch(*(getattr(self, name)[some] for name in self.__slots__))

    @property
    def ended(self) -> BoolArray:
        """Episodes that ended with this step, for either reason."""
        return self.terminated | self.truncated


class Explorer(ABC):
    """Base of all explorers.

    A subclass implements `_choose` (columns of Q for flat observations) and `_learn`, and lists its own state in
    `_state` and `_load`. `features` is a callable that turns n observations into numbers (n, m), for spaces that need
    one (images, text) or for better ones. Randomness comes from `self._rng` alone, so that a seed repeats to the bit.
    """

    steers: ClassVar[bool] = True
    """True if `act` is worth following; False for explorers that only pay (`bonus`)."""
    pays: ClassVar[bool] = False
    """True if `bonus` gives intrinsic rewards."""
    searches: ClassVar[bool] = False
    """True if it goes where it has not been as long as nothing was found: an agent then waits longer for it."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._encode = None if features is None else Custom(observation_space, function=features)
        # With an encoder the explorer lives in a space of m numbers, whatever the environment sends.
        self._state_space: Space = observation_space if self._encode is None else unbounded_box(self._encode.size)
        self._flatten = Flattener(self._state_space)
        self._rng = np.random.default_rng(whole("seed", seed, 0))
        self.actions: ActionFeatures = action_features("auto", action_space)
        self.steps = 0
        """Transitions observed so far."""
        self.teaches = False
        """Set it if an agent is to learn from Q̂: an explorer may otherwise spare what only a teacher needs."""

    # -- what callers use -------------------------------------------------------------------------------------------

    def act(self, observations: Any) -> NDArray[Any]:
        """Actions (n, ...) of the action space for n observations."""
        states = self._states(observations)
        return self.actions.to_environment(self._choose(self._flatten(states), states))

    def drive_only(self, where: BoolArray) -> None:  # noqa: B027 (of use to explorers that judge whole episodes)
        """Said before `act`, about that call alone: its actions will be taken in these environments (n,) only.

        Somebody else, an agent under training, drives in the others, and may well do the same by chance. `act` still
        gives an action for each environment; nothing need depend on those that will not be taken.
        """

    def observe(self, transitions: Transitions) -> None:
        """Learn from one step of each environment; the order of environments stays the same from call to call."""
        batch = self._read(transitions)
        self._learn(batch)
        self.steps += len(batch)

    def observe_past(self, steps: Sequence[Transitions]) -> None:
        """Learn from several steps, in order, that somebody else drove: as `observe` on each, or cheaper."""
        for transitions in steps:
            self.observe(transitions)

    def reset(self) -> None:  # noqa: B027 (of use to explorers that follow episodes)
        """All environments have been reset: episodes under way have no end."""

    def bonus(self, transitions: Transitions) -> FloatArray:
        """Intrinsic reward (n,) of each transition; zero for explorers that steer instead of pay."""
        return self._bonus(self._read(transitions))

    @one_thread
    def q_values(self, observations: Any) -> FloatArray | None:
        """Q̂ (n, N) for teaching an agent, over the actions listed in `self.actions`; None if there is no Q̂ (yet)."""
        states = self._states(observations)
        return self._q_values(self._flatten(states), states)

    def greedy(self, observations: Any) -> NDArray[Any] | None:
        """The actions (n, ...) that Q̂ prefers, without exploration; None if there is no Q̂ (yet)."""
        values = self.q_values(observations)
        return None if values is None else self.actions.to_environment(values.argmax(axis=1))

    @one_thread
    def uncertainty(self, observations: Any) -> FloatArray | None:
        """How little is known about each observation (n,), from 0 to 1; None if that is not kept (yet)."""
        states = self._states(observations)
        return self._uncertainty(self._flatten(states), states)

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return {"steps": float(self.steps)}

    def state_dict(self) -> State:
        """Everything learnt, as plain arrays; `load_state_dict` goes on from there to the bit."""
        header = {"method": np.array(type(self).__name__), "spaces": np.array(self._signature()),
                  "steps": np.array(self.steps, dtype=np.int64), "generator": generator_state(self._rng),
                  "teaches": np.array(self.teaches)}  # fmt: skip
        return header | prefixed("state", self._state())

    def load_state_dict(self, state: State) -> None:
        """Take over a `state_dict` of the same explorer and spaces; on a StateError nothing has changed."""
        try:
            method, saved = str(state["method"]), str(state["spaces"])
            steps, rng = int(state["steps"]), restored_generator(state["generator"])
            teaches = bool(state["teaches"])
            if method != type(self).__name__:
                raise StateError(f"state: it belongs to the explorer {method}, not {type(self).__name__}. "
                                 "Build the explorer it was saved from.")  # fmt: skip
            if saved != self._signature():
                raise StateError(f"state: it belongs to another environment ({saved}), this explorer has "
                                 f"{self._signature()}. Load it with the environment it was saved from.")  # fmt: skip
            self._load(part("state", state))
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as fault:
            raise StateError(f"state: damaged or incomplete ({fault!r}). Save it anew with state_dict().") from fault
        except ValueError as fault:
            if isinstance(fault, StateError):
                raise
            raise StateError(f"state: damaged ({fault}). Save it anew with state_dict().") from fault
        self.steps, self.teaches = steps, self.teaches or teaches
        self._rng.bit_generator.state = rng.bit_generator.state  # in place: parts of an explorer share the generator

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file of plain arrays, whole or not at all."""
        save_state(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file that `save` wrote."""
        self.load_state_dict(load_state(path))

    # -- what subclasses implement ----------------------------------------------------------------------------------

    @abstractmethod
    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        """Columns of Q (n,) for n observations, given as numbers (n, d) and as members of `self._state_space`."""

    @abstractmethod
    def _learn(self, batch: Batch) -> None:
        """Learn from checked transitions; must not fail."""

    def _bonus(self, batch: Batch) -> FloatArray:
        return np.zeros(len(batch))

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return None

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return None

    def _state(self) -> State:
        return {}

    def _load(self, state: State) -> None:  # noqa: B027 (explorers without a state of their own inherit this)
        """Take over `_state`; raise before changing anything."""

    # -- checks -----------------------------------------------------------------------------------------------------

    def _states(self, observations: Any) -> Any:
        return observations if self._encode is None else self._encode(observations)

    def _signature(self) -> str:
        return f"observations {signature(self.observation_space)}, actions {signature(self.action_space)}"

    def _read(self, transitions: Transitions) -> Batch:
        states, next_states = self._states(transitions.observations), self._states(transitions.next_observations)
        flat, following = self._flatten(states), self._flatten(next_states)
        n = len(flat)
        actions = self.actions.to_indices(transitions.actions)
        features = self.actions.describe(transitions.actions, actions)
        for name, part_ in (("next_observations", following), ("actions", actions)):
            if len(part_) != n:
                raise invalid(
                    name, f"must have one row for each of the {n} environments", len(part_), "Pass whole steps."
                )
        rewards = np.asarray(transitions.rewards, dtype=np.float64)
        if rewards.shape != (n,):
            raise invalid("rewards", f"must have shape ({n},), one for each environment", rewards, "Pass whole steps.")
        if not np.vdot(rewards, rewards) < LARGEST**2:  # the cheapest test that no NaN, infinity or giant passes
            if not np.isfinite(rewards).all():
                at = int(np.argmin(np.isfinite(rewards)))
                raise invalid(
                    "rewards", f"environment {at}: must be finite", rewards[at].item(), "Mend the environment."
                )
            rewards = np.clip(rewards, -LARGEST, LARGEST)
        return Batch(
            flat, actions, features, rewards, following,
            _flags("terminated", transitions.terminated, n), _flags("truncated", transitions.truncated, n),
            states, next_states,
        )  # fmt: skip


def driving(where: BoolArray | None, n: int) -> Sequence[int]:
    """The environments, of n, that `drive_only` named; all if it was not said."""
    if where is None:
        return range(n)
    if where.shape != (n,):
        raise invalid("where", f"must have shape ({n},), one for each environment", where, "Say anew who drives.")
    return [int(i) for i in where.nonzero()[0]]


def _flags(name: str, values: Any, n: int) -> BoolArray:
    flags = np.asarray(values)
    if flags.shape != (n,) or flags.dtype.kind not in "biu":
        raise invalid(name, f"must be {n} truth values, one for each environment", flags, "Pass a bool array.")
    return flags.astype(np.bool_)
