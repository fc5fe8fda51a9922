"""A bounded store of transitions for explorers that refit; random replacement once it is full."""

from __future__ import annotations

import numpy as np

from polaug.completion.compiled import compiled
from polaug.errors import StateError
from polaug.exploration.base import Batch, BoolArray, FloatArray, IntArray
from polaug.state import State, alike, within

_ARRAYS = ("states", "next_states", "actions", "features", "rewards", "terminated", "stamps")


@compiled
def write(
    slots: IntArray, steps: int, states: FloatArray, next_states: FloatArray, actions: IntArray, features: FloatArray,
    rewards: FloatArray, terminated: BoolArray, stamps: IntArray, low: FloatArray, high: FloatArray,
    flat: FloatArray, next_flat: FloatArray, chosen: IntArray, described: FloatArray, paid: FloatArray,
    ended: BoolArray,
) -> None:  # fmt: skip
    """Write n transitions to `slots` (n,) of the store's arrays, and widen its range (d,). In place."""
    for i in range(slots.shape[0]):
        at = slots[i]
        for k in range(flat.shape[1]):
            states[at, k], next_states[at, k] = flat[i, k], next_flat[i, k]
            low[k] = min(low[k], flat[i, k], next_flat[i, k])
            high[k] = max(high[k], flat[i, k], next_flat[i, k])
        for k in range(described.shape[1]):
            features[at, k] = described[i, k]
        actions[at], rewards[at], terminated[at], stamps[at] = chosen[i], paid[i], ended[i], steps + i + 1


class Store:
    """The last-but-random `capacity` transitions, and the range of every dimension over all that were ever seen.

    `stamps` (capacity,) holds the step at which each slot was written, so that whoever caches something per slot can
    tell which slots are new.
    """

    def __init__(self, dimensions: int, action_features: int, capacity: int) -> None:
        self.capacity = capacity
        self.states, self.next_states = np.zeros((capacity, dimensions)), np.zeros((capacity, dimensions))
        self.actions = np.zeros(capacity, dtype=np.int64)
        self.features = np.zeros((capacity, action_features))  # y(a) of the very action
        self.rewards = np.zeros(capacity)
        self.terminated = np.zeros(capacity, dtype=np.bool_)
        self.stamps = np.zeros(capacity, dtype=np.int64)
        self.size = 0
        self.steps = 0
        self.low, self.high = np.full(dimensions, np.inf), np.full(dimensions, -np.inf)

    def add(self, batch: Batch, rng: np.random.Generator) -> None:
        """Take in transitions, in their order."""
        n = len(batch)
        first = self.size
        self.size = min(first + n, self.capacity)
        slots = np.arange(first, first + n)
        if first + n > self.capacity:
            slots[self.capacity - first :] = rng.integers(self.capacity, size=first + n - self.capacity)
        write(
            slots, self.steps, self.states, self.next_states, self.actions, self.features, self.rewards,
            self.terminated, self.stamps, self.low, self.high, batch.flat, batch.next_flat, batch.actions,
            batch.features, batch.rewards, batch.terminated,
        )  # fmt: skip
        self.steps += n

    def written_since(self, step: int) -> IntArray:
        """Slots written after `step`."""
        return np.flatnonzero(self.stamps[: self.size] > step)

    def scale(self) -> tuple[FloatArray, FloatArray]:
        """Centre and inverse half-width (d,) that map the range seen to [−1, 1]; 0 for dimensions without width."""
        centre, half_width = (self.high + self.low) / 2, (self.high - self.low) / 2
        wide = half_width > 1e-9 * np.maximum(np.abs(self.high), np.abs(self.low)) + 1e-300
        return centre, np.divide(1.0, half_width, out=np.zeros_like(half_width), where=wide)

    def state_dict(self) -> State:
        """All arrays up to the size in use."""
        state: State = {name: getattr(self, name)[: self.size].copy() for name in _ARRAYS}
        counters = np.array([self.size, self.steps], dtype=np.int64)
        return state | {"low": self.low.copy(), "high": self.high.copy(), "counters": counters}

    def load_state_dict(self, state: State, n_actions: int) -> None:
        """Go on from `state_dict` of a store whose actions are numbered below `n_actions`; on an error nothing has
        changed.
        """
        size, steps = (int(count) for count in state["counters"])
        if not 0 <= size <= min(self.capacity, steps):
            raise StateError(f"store: holds up to {self.capacity} transitions, got {size}. The state is damaged.")
        example: State = {name: getattr(self, name)[:size] for name in _ARRAYS} | {"low": self.low, "high": self.high}
        new = alike("store", state, example)
        within("store.actions", new["actions"], 0, n_actions - 1)
        for name in _ARRAYS:
            getattr(self, name)[:size] = new[name]
        self.size, self.steps, self.low, self.high = size, steps, new["low"], new["high"]
