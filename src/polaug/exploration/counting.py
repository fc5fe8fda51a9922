"""`counting`: SimHash counts (Tang et al., 2017), an explorer that pays β/√n(s) for rarely seen states.

Observations are centred and scaled first, since a raw sign hash ignores scale. The code of a state is counted in
several tables of different prime sizes, and n(s) is the least of its counts: a collision in one table rarely happens in
all. The batch is counted first (`observe`) and queried after (`bonus`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import non_negative, whole
from polaug.exploration.base import Batch, Explorer, FloatArray, IntArray
from polaug.features.simhash import SimHash
from polaug.features.spaces import Space
from polaug.state import State, fitting, part, prefixed

_PRIMES = (999_931, 999_953, 999_959, 999_961, 999_979, 999_983)


class CountingExplorer(Explorer):
    """Counts hashed states and pays for new ones; acts at random, because it only pays.

    `beta` scales the bonus, `bits` is the length k of the hash code, `tables` how many prime-sized tables count it.
    With `bias` the hash planes are shifted, so that states on the same ray from the mean can differ.
    """

    steers = False
    pays = True

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
        beta: float = 0.01,
        bits: int = 16,
        tables: int = len(_PRIMES),
        bias: bool = True,
    ) -> None:
        super().__init__(observation_space, action_space, seed=seed, features=features)
        self._beta = non_negative("beta", beta)
        self._hash = SimHash(self._state_space, seed=seed, bits=bits, bias=bias)
        self._sizes = np.array(_PRIMES[: whole("tables", tables, 1, len(_PRIMES))])
        self._counts: list[dict[int, int]] = [{} for _ in self._sizes]

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return self._rng.integers(self.actions.n_actions, size=len(flat))

    def _learn(self, batch: Batch) -> None:
        """Count where the steps led to."""
        self._hash.observe(batch.next_states)
        for slot in self._slots(batch.next_states):
            for table, at in zip(self._counts, slot.tolist(), strict=True):
                table[at] = table.get(at, 0) + 1

    def _bonus(self, batch: Batch) -> FloatArray:
        return self._beta / np.sqrt(np.maximum(self.counts(batch.next_states), 1.0))

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return 1.0 / np.sqrt(np.maximum(self.counts(states), 1.0))

    def counts(self, states: Any) -> FloatArray:
        """n(s) (n,) of n observations: the least count over the tables."""
        slots = self._slots(states).tolist()
        return np.array(
            [min(t.get(at, 0) for t, at in zip(self._counts, slot, strict=True)) for slot in slots], dtype=float
        )

    def _slots(self, states: Any) -> NDArray[np.int64]:
        """Place (n, tables) of each state's code in each table."""
        slots: NDArray[np.int64] = self._hash.rows(states)[:, None] % self._sizes
        return slots

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return super().statistics() | {"visited_cells": float(len(self._counts[0]))}

    def _state(self) -> State:
        state = prefixed("hash", self._hash.state_dict())
        for k, table in enumerate(self._counts):
            state[f"table{k}"] = np.array(list(table.items()), dtype=np.int64).reshape(-1, 2)
        return state

    def _load(self, state: State) -> None:
        layouts = {f"table{k}": ("i", f"cells of {k}", 2) for k in range(len(self._counts))}
        tables = fitting("counting", state, layouts).values()
        counts = [{int(at): int(count) for at, count in table} for table in tables]
        self._hash.load_state_dict(part("hash", state))  # the last that may fail
        self._counts = counts
