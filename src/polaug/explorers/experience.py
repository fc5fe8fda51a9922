"""The experience that all arms share: transitions, the record of episodes, and the completed dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from polaug.checks import whole
from polaug.errors import invalid, unknown
from polaug.explorers.base import Batch, BoolArray, Explorer, FloatArray, IntArray, driving
from polaug.explorers.buffer import Buffer
from polaug.explorers.dynamics import Dynamics, DynamicsOptions
from polaug.explorers.record import Record, RecordOptions
from polaug.features.spaces import Space
from polaug.snapshot import saved

Settings = TypeVar("Settings")

_UNBOUNDED = 1e120  # stands for infinity, which times 0 is no number


@saved("buffer", "record", "dynamics")
class Experience:
    """Buffer, record and dynamics.

    Parameters
    ----------
    low, high
        Bounds (d,) of the observation space, possibly infinite.
    Y
        Features of the listed actions.
    rng
        Which transitions the full buffer replaces, and the frequencies of the dynamics.
    gamma, capacity
        Discount, and transitions kept.
    """

    def __init__(
        self, low: FloatArray, high: FloatArray, Y: FloatArray, rng: np.random.Generator, *, gamma: float,
        capacity: int, dynamics: DynamicsOptions, record: RecordOptions,
    ) -> None:  # fmt: skip
        if not 0.0 < gamma < 1.0:
            raise invalid("gamma", "must lie in (0, 1)", gamma, "Pass for example 0.99.")
        self._rng, self._Y = rng, Y
        self.gamma = float(gamma)
        self.buffer = Buffer(len(low), Y.shape[1], whole("capacity", capacity, 100))
        self.record = Record(len(low), self.gamma, record)
        bounds = (np.maximum(low, -_UNBOUNDED), np.minimum(high, _UNBOUNDED))
        self.dynamics = Dynamics(self.buffer, bounds, Y, rng, dynamics)

    def learn(self, batch: Batch) -> list[tuple[int, float]]:
        """Take in one step of each environment; gives (environment, return) of the episodes that ended with it."""
        slots = self.buffer.add(batch, self._rng)
        finished = self.record.follow(batch)
        self.dynamics.learn(batch, slots)
        return finished

    def learn_on(self, batch: Batch, n: int) -> None:
        """`learn` of steps of n environments after each other, in none of which an episode ends, to the bit."""
        slots = self.buffer.add(batch, self._rng)
        self.record.follow_on(batch, n)
        self.dynamics.learn(batch, slots, n)

    def learn_pairs(self, batch: Batch) -> None:
        """Take in relabelled transitions, which belong to no episode."""
        self.dynamics.learn(batch, self.buffer.add(batch, self._rng))

    def review(self) -> None:
        """Before a plan: update what changes slowly."""
        returns = self.record.returns
        returns.look_ahead()
        returns.survey(self.buffer.rewards[: self.buffer.size])
        self.dynamics.review()


@saved("experience", "_chosen")
class DynamicsExplorer(Explorer):
    """Base of explorers that complete the dynamics: alone, or as the arms of a portfolio, which share its experience.

    Parameters
    ----------
    gamma
        Discount.
    capacity
        Stored transitions.
    dynamics, record
        `DynamicsOptions`, `RecordOptions`, or dicts of some of their fields.
    experience
        The `Experience` of a portfolio, which adds the transitions to it. None: its own.
    **common
        `seed` and `features`, as for all explorers.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        gamma: float = 0.99,
        capacity: int = 6000,
        dynamics: DynamicsOptions | Mapping[str, Any] | None = None,
        record: RecordOptions | Mapping[str, Any] | None = None,
        experience: Experience | None = None,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        self._shares = experience is not None
        self.experience = experience or Experience(
            self._flatten.low, self._flatten.high, self.actions.Y, self._rng, gamma=gamma, capacity=capacity,
            dynamics=settings("dynamics", dynamics, DynamicsOptions), record=settings("record", record, RecordOptions),
        )  # fmt: skip
        self._chosen = np.zeros(0, dtype=np.int64)  # by the last call of `_choose`, -1 where nothing was
        self._driven: BoolArray | None = None  # where the next choice will be followed, if it was said

    def reset(self) -> None:
        """Episodes under way have no end."""
        if not self._shares:
            self.experience.record.restart()
        self._chosen[:] = -1
        self._driven = None

    def _learn_hindsight(self, batch: Batch) -> None:
        self.experience.learn_pairs(batch)

    def drive_only(self, where: BoolArray) -> None:
        """Episodes driven by something else are not returns of this explorer."""
        self._driven = np.array(where, dtype=np.bool_)

    def _to_drive(self, n: int) -> Sequence[int]:
        """The environments, of n, in which the chosen actions will be taken."""
        where, self._driven = self._driven, None
        self._forget_choice(n)
        return driving(where, n)

    def _corrected(self, chosen: IntArray) -> None:
        self._chosen = np.where(self._chosen >= 0, chosen, -1)

    def _followed(self, batch: Batch) -> list[bool]:
        """Where the last chosen action was taken, for each environment."""
        n = len(batch)
        return (self._chosen == batch.actions).tolist() if len(self._chosen) == n else [False] * n

    def _awaits(self, n: int) -> bool:
        """Whether a choice for one of n environments may still be followed."""
        return len(self._chosen) != n or bool((self._chosen >= 0).any())

    def _forget_choice(self, n: int) -> None:
        """Nothing was chosen for any of n environments."""
        if len(self._chosen) != n:
            self._chosen = np.zeros(n, dtype=np.int64)
        self._chosen.fill(-1)


def settings(parameter: str, value: Any, kind: type[Settings]) -> Settings:
    """Options as an instance of the dataclass `kind`, from one, from a dict of its fields, or None for the defaults."""
    if value is None:
        value = {}
    if isinstance(value, Mapping):
        assert is_dataclass(kind)
        known = {field.name: field for field in fields(kind)}
        for name in value:
            if name not in known:
                raise unknown(f"field of {parameter}", name, known)
        value = kind(**value)
    if not isinstance(value, kind):
        raise invalid(
            parameter, f"must be a dict or {kind.__name__}", value, f"Pass {parameter}={{}} for the defaults."
        )
    for field in fields(kind):  # type: ignore[arg-type]  # a dataclass
        number, default = getattr(value, field.name), field.default
        if not _suits(number, default):
            rule = "must be of the same type as its default, finite and not negative"
            raise invalid(f"{parameter}.{field.name}", rule, number, f"Its default is {default}.")
    return value


def _suits(value: Any, default: Any) -> bool:
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, tuple):
        pair = isinstance(value, (tuple, list)) and len(value) == len(default)
        return pair and all(_suits(*each) for each in zip(value, default, strict=True))
    if isinstance(value, (bool, np.bool_)):
        return False
    if isinstance(default, int):
        return isinstance(value, (int, np.integer)) and bool(value >= min(default, 1))
    return isinstance(value, (int, float, np.integer, np.floating)) and bool(np.isfinite(value) and value >= 0.0)
