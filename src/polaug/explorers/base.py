"""The protocol of all explorers: choose actions, learn from transitions, optionally give a bonus. Calls are batched.

Every array has one row per environment; a single environment is a batch of one. The base class checks what comes in
before anything changes, so that a bad call leaves the explorer as it was; subclasses see flat, checked arrays.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polaug.checks import whole
from polaug.errors import StateError, invalid
from polaug.explorers.threads import one_thread
from polaug.features import ActionFeatures, action_features
from polaug.features.custom import Custom
from polaug.features.spaces import LARGEST, Flattener, Space, mapped, signature, unbounded_columns
from polaug.snapshot import restore, saved, snapshot, with_checksums, without_checksums
from polaug.state import (
    LARGEST_COUNT,
    State,
    generator_state,
    load_state,
    part,
    prefixed,
    restored_generator,
    save_state,
    within,
)  # fmt: skip
from polaug.streams import stream

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Transitions:
    """One step of each of n environments, as the environments returned it.

    Parameters
    ----------
    observations : array (n, ...)
        The observations before the step. For a Dict space a dict of such arrays, for a Tuple space a tuple of them.
    actions : array (n, ...)
        The actions that were executed.
    rewards : array (n,)
        The rewards.
    next_observations : array (n, ...)
        The observations after the step. Where an episode ended: its last observation, not the first one of the next.
    terminated : array of bool (n,)
        True where the task ended: the value of the next state is 0.
    truncated : array of bool (n,)
        True where a time limit ended the episode: the next state keeps its value.
    """

    observations: Any
    actions: Any
    rewards: Any
    next_observations: Any
    terminated: Any
    truncated: Any

    @staticmethod
    def joined(steps: Sequence[Transitions]) -> Transitions:
        """Several steps as one of more rows, in their order."""
        names = [field.name for field in fields(Transitions)]
        return Transitions(*(mapped(_concatenated, *(getattr(step, name) for step in steps)) for name in names))


@saved()
@dataclass(frozen=True, slots=True)
class Batch:
    """Checked transitions of n environments.

    `flat` and `next_flat` (n, d) are the observations as numbers: members of the explorer's state space, which feature
    maps take too. `actions` are columns of Q (the nearest ones), `features` (n, ·) the features y(a) of the very
    actions.
    """

    flat: FloatArray
    actions: IntArray
    features: FloatArray
    rewards: FloatArray
    next_flat: FloatArray
    terminated: BoolArray
    truncated: BoolArray

    def __len__(self) -> int:
        return len(self.rewards)

    def rows(self, some: slice) -> Batch:
        """Some of them."""
        return Batch(*(getattr(self, name)[some] for name in self.__slots__))

    @staticmethod
    def joined(batches: Iterable[Batch]) -> Batch:
        """Several as one of more rows."""
        return Batch(*(np.concatenate([getattr(b, name) for b in batches]) for name in Batch.__slots__))

    @property
    def ended(self) -> BoolArray:
        """Episodes that ended with this step, for either reason."""
        return self.terminated | self.truncated


@saved("steps", "_rng")
class Explorer(ABC):
    """Base of all explorers.

    A subclass implements `_choose` (columns of Q for flat observations) and `_learn`, and names the attributes that
    make its state with the decorator `polaug.snapshot.saved` (or implements `_state` and `_load`). All randomness comes
    from `self._rng`, so that a seed reproduces a run exactly.

    Parameters
    ----------
    observation_space, action_space : gymnasium.Space
        The spaces of a single environment.
    seed : int
        Seed of all random choices.
    features : callable, optional
        Converts n observations to numbers (n, m). Needed for text and graphs; useful if you know better features.
    """

    steers: ClassVar[bool] = True
    """True if the explorer can drive. False if it only gives a bonus; `act` is then random."""
    pays: ClassVar[bool] = False
    """True if `bonus` returns intrinsic rewards."""

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
        # Subclasses see any observation as d columns of numbers.
        self._flatten = Flattener(observation_space if self._encode is None else unbounded_columns(self._encode.size))
        self._state_space: Space = self._flatten.columns
        self._seed = whole("seed", seed, 0)
        self._rng = stream(seed, "explorer")
        self.actions: ActionFeatures = action_features("auto", action_space)
        self.steps = 0
        """Transitions observed so far."""

    # -- what callers use -------------------------------------------------------------------------------------------

    def act(self, observations: Any, masks: Any = None) -> NDArray[Any]:
        """Actions (n, ...) of the action space for n observations.

        Parameters
        ----------
        observations
            An array of n rows, or for a Dict or Tuple space a dict or tuple of such arrays.
        masks : array of bool (n, k), optional
            Which actions are legal now, as sb3-contrib's MaskablePPO has it: k is the number of actions of a Discrete
            space, and for MultiDiscrete and MultiBinary the numbers of choices, summed.
        """
        flat = self._read_observations(observations)
        if masks is None:
            return self.actions.to_environment(self._choose(flat, flat))
        legal = self.actions.legal(masks, len(flat))
        actions = self.actions.to_environment(self._choose_allowed(flat, flat, legal.listed))
        return actions if legal.complete else legal.repaired(actions, self._rng)

    def drive_only(self, where: BoolArray) -> None:  # noqa: B027 (of use to explorers that judge whole episodes)
        """Announce that the actions of the next `act` are executed only where `where` (n,) is True.

        Call it before that `act`. An agent drives in the other environments and may choose the same actions by chance.
        `act` still returns an action for each environment.
        """

    def observe(self, transitions: Transitions) -> None:
        """Learn from one step of each environment. The order of the environments must be the same in every call."""
        batch = self._read(transitions)
        self._learn(batch)
        self.steps += len(batch)

    def observe_past(self, steps: Sequence[Transitions]) -> None:
        """Learn from several consecutive steps that the agent drove. Same as `observe` for each, or cheaper."""
        for transitions in steps:
            self.observe(transitions)

    def observe_hindsight(self, episode: Transitions) -> None:
        """Learn from the steps of an episode whose goal was replaced by what it reached (hindsight replay).

        The steps are data on next states and rewards. Their return is not recorded, because nothing aimed at that goal.
        """
        self._learn_hindsight(self._read(episode))

    def reset(self) -> None:  # noqa: B027 (of use to explorers that follow episodes)
        """Drop unfinished episodes, because all environments have been reset."""

    def bonus(self, transitions: Transitions) -> FloatArray:
        """Intrinsic reward (n,) of each transition; zero for explorers without a bonus."""
        return self._bonus(self._read(transitions))

    @one_thread
    def q_values(self, observations: Any) -> FloatArray | None:
        """Q̂ (n, N) for teaching an agent, over the actions listed in `self.actions`; None if there is no Q̂ (yet)."""
        flat = self._read_observations(observations)
        return self._q_values(flat, flat)

    def greedy(self, observations: Any, masks: Any = None) -> NDArray[Any] | None:
        """The (legal) actions (n, ...) that Q̂ prefers, without exploration; None if there is no Q̂ (yet)."""
        values = self.q_values(observations)
        if values is None:
            return None
        if masks is None:
            return self.actions.to_environment(values.argmax(axis=1))
        legal = self.actions.legal(masks, len(values))
        actions = self.actions.to_environment(np.where(legal.listed, values, -np.inf).argmax(axis=1))
        return actions if legal.complete else legal.repaired(actions, stream(0, "greedy"))

    @property
    def searching(self) -> bool:
        """Whether no reward stands out so far. The returns then do not show what the explorer can reach."""
        return False

    @one_thread
    def uncertainty(self, observations: Any) -> FloatArray | None:
        """How little is known about each observation (n,), from 0 to 1; None if that is not kept (yet)."""
        flat = self._read_observations(observations)
        return self._uncertainty(flat, flat)

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return {"steps": float(self.steps)}

    def state_dict(self) -> State:
        """Everything learnt, as plain arrays. `load_state_dict` restores it exactly."""
        header = {"method": np.array(type(self).__name__), "spaces": np.array(self._signature()),
                  "steps": np.array(self.steps, dtype=np.int64), "generator": generator_state(self._rng)}  # fmt: skip
        return header | prefixed("state", with_checksums(self._state()))

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict` of the same explorer, options and spaces. A StateError changes nothing."""
        before = self._state()
        try:
            method, saved_from = str(state["method"]), str(state["spaces"])
            if method != type(self).__name__:
                raise StateError(f"state: it belongs to the explorer {method}, not {type(self).__name__}. "
                                 "Build the explorer it was saved from.")  # fmt: skip
            if saved_from != self._signature():
                raise StateError(f"state: it belongs to another environment ({saved_from}), this explorer has "
                                 f"{self._signature()}. Load it with the environment it was saved from.")  # fmt: skip
            steps, rng = int(state["steps"]), restored_generator(state["generator"])
            within("steps", steps, 0, LARGEST_COUNT)
            own = without_checksums(part("state", state))
            try:
                self._load(own)
            except Exception:
                self._load(before)
                raise
        except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as fault:
            raise StateError(f"state: damaged or incomplete ({fault!r}). Save it again with state_dict().") from fault
        except ValueError as fault:
            if isinstance(fault, StateError):
                raise
            raise StateError(f"state: damaged ({fault}). Save it again with state_dict().") from fault
        self.steps = steps
        self._rng.bit_generator.state = rng.bit_generator.state  # in place: parts of an explorer share the generator

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file of plain arrays. A crash leaves no partial file."""
        save_state(path, self.state_dict())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Restore the state from a file that `save` wrote."""
        self.load_state_dict(load_state(path))

    # -- what subclasses implement ----------------------------------------------------------------------------------

    @abstractmethod
    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        """Columns of Q (n,) for n observations as numbers (n, d), members of `self._state_space`; twice the same."""

    @abstractmethod
    def _learn(self, batch: Batch) -> None:
        """Learn from checked transitions; must not fail."""

    def _learn_hindsight(self, batch: Batch) -> None:  # noqa: B027 (of use to explorers that learn rewards)
        """Learn from the checked steps of a relabelled episode."""

    def _choose_allowed(self, flat: FloatArray, states: Any, allowed: BoolArray) -> IntArray:
        """As `_choose`, but only columns that are `allowed` (n, N). Here: an illegal choice becomes the legal one that
        Q̂ prefers, or any.
        """
        chosen = self._choose(flat, states)
        illegal = np.flatnonzero(~allowed[np.arange(len(flat)), chosen] & allowed.any(axis=1))
        if not len(illegal):
            return chosen
        values = self._q_values(flat[illegal], states[illegal])
        if values is None:
            values = self._rng.random((len(illegal), allowed.shape[1]))
        chosen = chosen.copy()
        chosen[illegal] = np.where(allowed[illegal], values, -np.inf).argmax(axis=1)
        self._corrected(chosen)
        return chosen

    def _corrected(self, chosen: IntArray) -> None:  # noqa: B027 (of use to explorers that remember their choice)
        """Columns (n,) that are taken instead of those just chosen, since some were illegal."""

    def _bonus(self, batch: Batch) -> FloatArray:
        return np.zeros(len(batch))

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return None

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return None

    def _state(self) -> State:
        """What was learnt, as arrays: here, the attributes registered with `polaug.snapshot.saved`."""
        return snapshot(self, "steps", "_rng")

    def _load(self, state: State) -> None:
        """Take over `_state`."""
        restore(self, state, "steps", "_rng")

    # -- checks -----------------------------------------------------------------------------------------------------

    def _read_observations(self, observations: Any) -> FloatArray:
        return self._flatten(observations if self._encode is None else self._encode(observations))

    def _signature(self) -> str:
        return f"observations {signature(self.observation_space)}, actions {signature(self.action_space)}"

    def _read(self, transitions: Transitions) -> Batch:
        flat = self._read_observations(transitions.observations)
        following = self._read_observations(transitions.next_observations)
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
                    "rewards", f"environment {at}: must be finite", rewards[at].item(), "Correct the environment."
                )
            rewards = np.clip(rewards, -LARGEST, LARGEST)
        return Batch(
            flat, actions, features, rewards, following,
            _flags("terminated", transitions.terminated, n), _flags("truncated", transitions.truncated, n),
        )  # fmt: skip


def _concatenated(*arrays: Any) -> NDArray[Any]:
    return np.concatenate(arrays)


def driving(where: BoolArray | None, n: int) -> Sequence[int]:
    """The environments, of n, that `drive_only` named; all if it was not said."""
    if where is None:
        return range(n)
    if where.shape != (n,):
        raise invalid("where", f"must have shape ({n},), one for each environment", where, "Call drive_only again.")
    return [int(i) for i in where.nonzero()[0]]


def _flags(name: str, values: Any, n: int) -> BoolArray:
    flags = np.asarray(values)
    if flags.shape != (n,) or flags.dtype.kind not in "biu":
        raise invalid(name, f"must be {n} truth values, one for each environment", flags, "Pass a bool array.")
    return flags.astype(np.bool_)
