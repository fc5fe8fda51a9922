"""A bounded store of rows with random access: the last ones seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import State


class Memory:
    """Keeps the last `capacity` rows of whatever shape the first ones have; grows by doubling."""

    def __init__(self, capacity: int, name: str = "memory") -> None:
        self._capacity, self._name = capacity, name
        self._rows: NDArray[Any] | None = None
        self._size = self._next = 0

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> NDArray[Any]:
        """The rows kept, in no particular order."""
        return np.zeros(0) if self._rows is None else self._rows[: self._size]

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows (n, ...), overwriting the oldest."""
        if self._rows is None:
            self._rows = np.zeros((min(1024, self._capacity), *rows.shape[1:]), rows.dtype)
        end = self._next + len(rows)
        if end <= len(self._rows):
            self._rows[self._next : end] = rows
            self._next, self._size = end, max(self._size, end)
            return
        for row in rows:
            if self._next == len(self._rows) and self._next < self._capacity:
                more = min(len(self._rows), self._capacity - len(self._rows))
                self._rows = np.concatenate([self._rows, np.zeros((more, *rows.shape[1:]), self._rows.dtype)])
            self._next %= self._capacity
            self._rows[self._next] = row
            self._next += 1
            self._size = max(self._size, self._next)

    def clear(self) -> None:
        """Forget all rows."""
        self._rows, self._size, self._next = None, 0, 0

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[Any] | None:
        """`n` rows with repetition, or None while there are none."""
        if self._rows is None or not self._size:
            return None
        return np.asarray(self._rows[rng.integers(self._size, size=n)])

    def state_dict(self) -> State:
        """Rows and position."""
        return {self._name: self.rows.copy(), f"{self._name}_next": np.array(self._next, dtype=np.int64)}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        rows, position = state[self._name], int(state[f"{self._name}_next"])
        if len(rows) > self._capacity or not 0 <= position <= len(rows):
            raise StateError(f"{self._name}: {len(rows)} rows, position {position}. The state is damaged.")
        self._size, self._next = len(rows), position
        self._rows = rows.copy() if len(rows) else None
