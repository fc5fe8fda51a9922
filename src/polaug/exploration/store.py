"""A bounded store of transitions for explorers that refit; random replacement once it is full."""

from __future__ import annotations

import numpy as np

from polaug.errors import StateError
from polaug.exploration.base import Batch, FloatArray, IntArray
from polaug.state import State

_ARRAYS = ("states", "next_states", "actions", "features", "rewards", "terminated", "stamps")


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
        """Take in a step of each environment."""
        for i in range(len(batch)):
            if self.size < self.capacity:
                slot = self.size
                self.size += 1
            else:
                slot = int(rng.integers(self.capacity))
            self.steps += 1
            self.states[slot], self.next_states[slot] = batch.flat[i], batch.next_flat[i]
            self.actions[slot], self.features[slot] = batch.actions[i], batch.features[i]
            self.rewards[slot] = batch.rewards[i]
            self.terminated[slot], self.stamps[slot] = batch.terminated[i], self.steps
            for seen in (batch.flat[i], batch.next_flat[i]):
                np.minimum(self.low, seen, out=self.low)
                np.maximum(self.high, seen, out=self.high)

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

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        size, steps = (int(count) for count in state["counters"])
        if not 0 <= size <= self.capacity:
            raise StateError(f"store: holds up to {self.capacity} transitions, got {size}. The state is damaged.")
        for name in _ARRAYS:
            wanted = getattr(self, name)[:size].shape
            if state[name].shape != wanted:
                raise StateError(f"{name}: must have shape {wanted}, got {state[name].shape}. The state is damaged.")
        if state["low"].shape != self.low.shape or state["high"].shape != self.high.shape:
            raise StateError("low, high: must have one number for each dimension. The state is damaged.")
        for name in _ARRAYS:
            getattr(self, name)[:size] = state[name]
        self.size, self.steps = size, steps
        self.low, self.high = state["low"].astype(float), state["high"].astype(float)
