"""A ring buffer of rows with random access. Rows are arrays or dicts of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import State

_ONLY = ""  # the key of rows that are no dict


def row_of(rows: Any, k: int) -> Any:
    """A copy of row k: environments may reuse their arrays."""
    return {key: np.array(column[k]) for key, column in rows.items()} if isinstance(rows, dict) else np.array(rows[k])


def stacked(rows: list[Any]) -> Any:
    """Rows side by side."""
    if isinstance(rows[0], dict):
        return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return np.stack(rows)


def columns_of(name: str, rows: Any) -> State:
    """Rows as arrays with names, for a state."""
    return {f"{name}/{key}": column for key, column in rows.items()} if isinstance(rows, dict) else {f"{name}/": rows}


def rows_from(name: str, state: State) -> Any:
    """The rows that `columns_of` stored."""
    start = f"{name}/"
    columns = {key.removeprefix(start): array for key, array in state.items() if key.startswith(start)}
    return columns.get(_ONLY, columns)


class Memory:
    """The last `capacity` rows. The first rows set the shape."""

    def __init__(self, capacity: int, name: str = "memory") -> None:
        self._capacity, self._name = capacity, name
        self._columns: dict[str, NDArray[Any]] = {}
        self._size = self._next = 0

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> Any:
        """The rows kept, in no particular order."""
        return self._given({key: column[: self._size] for key, column in self._columns.items()})

    def add(self, rows: Any) -> None:
        """Append rows (n, ...), overwriting the oldest."""
        columns = rows if isinstance(rows, dict) else {_ONLY: rows}
        arrays = {key: np.asarray(column) for key, column in columns.items()}
        n = len(next(iter(arrays.values())))
        if not self._columns:
            first = min(1024, self._capacity)
            self._columns = {key: np.zeros((first, *a.shape[1:]), a.dtype) for key, a in arrays.items()}
        allocated = len(next(iter(self._columns.values())))
        while self._next + n > allocated and allocated < self._capacity:
            more = min(allocated, self._capacity - allocated)
            self._columns = {key: np.concatenate([a, np.zeros((more, *a.shape[1:]), a.dtype)])
                             for key, a in self._columns.items()}  # fmt: skip
            allocated += more
        over = self._next + n > self._capacity
        at = (self._next + np.arange(n)) % self._capacity if over else slice(self._next, self._next + n)
        for key, array in arrays.items():
            self._columns[key][at] = array
        self._size = min(self._capacity, max(self._size, self._next + n))
        self._next = (self._next + n) % self._capacity

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        """`n` rows with repetition, or None while there are none."""
        if not self._size:
            return None
        return self.at(rng.integers(self._size, size=n))

    def at(self, rows: NDArray[np.int64]) -> Any:
        """The rows numbered `rows`."""
        return self._given({key: column[rows] for key, column in self._columns.items()})

    @staticmethod
    def _given(columns: dict[str, NDArray[Any]]) -> Any:
        return columns.get(_ONLY, np.zeros(0)) if set(columns) <= {_ONLY} else columns

    def state_dict(self) -> State:
        """Rows and position."""
        state = {f"{self._name}/{key}": column[: self._size].copy() for key, column in self._columns.items()}
        return state | {f"{self._name}_next": np.array(self._next, dtype=np.int64)}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        start = f"{self._name}/"
        columns = {key.removeprefix(start): array for key, array in state.items() if key.startswith(start)}
        position, sizes = int(state[f"{self._name}_next"]), {len(array) for array in columns.values()} or {0}
        size = max(sizes)
        if len(sizes) > 1 or size > self._capacity or not 0 <= position <= size:
            raise StateError(f"{self._name}: {size} rows, position {position}. The state is damaged.")
        self._columns = {key: array.copy() for key, array in columns.items()} if size else {}
        self._size, self._next = size, position
