"""A bounded buffer of transitions, with random replacement once it is full, and the range of every dimension."""

from __future__ import annotations

import numpy as np

from polaug.compiled import compiled
from polaug.explorers.base import Batch, BoolArray, FloatArray, IntArray
from polaug.snapshot import saved
from polaug.state import within

_ENOUGH = 20  # least number of transitions for outliers to be detected
_LOOKED_AT = 2000  # transitions, at most, that show where most values are
_RARE = 0.005  # share of the values, at either end, that may be outliers
_FAR = 10.0  # gaps between values that make the farther ones outliers, in units of the range of the others
_SMALLEST = 1e-100  # half-width of a range: the square of its inverse must be a number


@compiled
def write(
    slots: IntArray, steps: int, states: FloatArray, next_states: FloatArray, actions: IntArray, features: FloatArray,
    rewards: FloatArray, terminated: BoolArray, stamps: IntArray, low: FloatArray, high: FloatArray,
    flat: FloatArray, next_flat: FloatArray, chosen: IntArray, described: FloatArray, paid: FloatArray,
    ended: BoolArray,
) -> None:  # fmt: skip
    """Write n transitions to `slots` (n,) of the buffer's arrays, and widen its range (d,). In place."""
    for i in range(slots.shape[0]):
        at = slots[i]
        for k in range(flat.shape[1]):
            states[at, k], next_states[at, k] = flat[i, k], next_flat[i, k]
            low[k] = min(low[k], flat[i, k], next_flat[i, k])
            high[k] = max(high[k], flat[i, k], next_flat[i, k])
        for k in range(described.shape[1]):
            features[at, k] = described[i, k]
        actions[at], rewards[at], terminated[at], stamps[at] = chosen[i], paid[i], ended[i], steps + i + 1


@saved(
    "states", "next_states", "actions", "features", "rewards", "terminated", "stamps", "size", "steps", "low", "high",
    fixed=("capacity",),
)  # fmt: skip
class Buffer:
    """The last-but-random `capacity` transitions, and the range of every dimension over all that were ever seen.

    `stamps` (capacity,) holds the step at which each slot was written, so that caches per slot can find
    the new slots.
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
        self._bounds, self._bounded_at = (self.low, self.high), 0  # step at which they were looked for

    def _restored(self) -> None:
        self._bounded_at = -1
        within("buffer.size", self.size, 0, self.capacity)

    def add(self, batch: Batch, rng: np.random.Generator) -> IntArray:
        """Take in transitions, in their order; gives the slots (n,) that they were written to."""
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
        return slots

    def written_since(self, step: int) -> IntArray:
        """Slots written after `step`."""
        return np.flatnonzero(self.stamps[: self.size] > step)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest values (d,) that were ever seen, outliers apart.

        A single broken reading would make all other values look alike. Rare values are no outliers: steps lead to
        rarely visited places through values in between.
        """
        if self._bounded_at != self.steps:
            self._bounds, self._bounded_at = self._looked_for(), self.steps
        return self._bounds

    def _looked_for(self) -> tuple[FloatArray, FloatArray]:
        low, high, n = self.low.copy(), self.high.copy(), self.size
        if n < _ENOUGH:
            return low, high
        some = slice(0, n, 1 + n // _LOOKED_AT)
        seen = np.concatenate([self.states[some], self.next_states[some]])
        rare = 2 + int(_RARE * len(seen))  # a broken reading is seen twice
        ordered = np.partition(seen, (rare, len(seen) - 1 - rare), axis=0)
        first, last = ordered[rare], ordered[-1 - rare]
        # Most values the same, or rounding apart: what is rare is all that happens there.
        varies = last - first > 1e-6 * np.maximum(np.abs(first), np.abs(last))
        gap = _FAR * (last - first)
        for k in np.flatnonzero(varies & ((low < first - gap) | (high > last + gap))):
            values = np.sort(np.concatenate([self.states[:n, k], self.next_states[:n, k], [low[k], high[k]]]))
            jumps = np.flatnonzero(np.diff(values) > gap[k])
            low[k] = max((values[jump + 1] for jump in jumps if values[jump + 1] <= first[k]), default=low[k])
            high[k] = min((values[jump] for jump in jumps if values[jump] >= last[k]), default=high[k])
        return low, high

    def plausible(self, *states: FloatArray) -> BoolArray:
        """Rows (n,) without an outlier in any of these states (n, d); all, if half of them have one."""
        low, high = self.bounds()
        strange = (low > self.low) | (high < self.high)
        rows = np.ones(len(states[0]), dtype=np.bool_)
        if strange.any():
            for each in states:
                rows &= ~(strange & ((each < low) | (each > high))).any(axis=1)
        return rows if 2 * np.count_nonzero(rows) > len(rows) else np.ones_like(rows)

    def scale(self) -> tuple[FloatArray, FloatArray]:
        """Centre and inverse half-width (d,) that map the bounds to [−1, 1]; 0 for dimensions without width."""
        low, high = self.bounds()
        centre, half_width = (high + low) / 2, (high - low) / 2
        wide = half_width > 1e-9 * np.maximum(np.abs(high), np.abs(low)) + _SMALLEST
        return centre, np.divide(1.0, half_width, out=np.zeros_like(half_width), where=wide)
