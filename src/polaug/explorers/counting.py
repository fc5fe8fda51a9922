"""`counting`: SimHash counts (Tang et al., 2017): a bonus β/√n(s) for rarely seen states.

Observations are centred and scaled first, since a raw sign hash ignores scale. The code of a state is counted in
several tables of different prime sizes, and n(s) is the least of its counts: a collision in one table rarely happens in
all. The batch is counted first (`observe`) and queried after (`bonus`). When the scale is refreshed the cells move:
what was counted in a cell is then counted where the mean of what was seen in it has come to lie. Categories are counted
as they are: planes cut a line of states into a handful of cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import non_negative, whole
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.features.one_hot import OneHot
from polaug.features.simhash import SimHash
from polaug.features.spaces import Space
from polaug.snapshot import saved

_PRIMES = (999_931, 999_953, 999_959, 999_961, 999_979, 999_983)
_MOST_COMBINATIONS = 1_000_000  # of several choices that are counted one by one; more are hashed, to see any twice


@saved("_counts", "_scaled", "_arrays", "_hash")
class CountingExplorer(Explorer):
    """Counts hashed states and gives a bonus for rare ones; acts at random.

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
        beta: float = 0.01,
        bits: int = 16,
        tables: int = len(_PRIMES),
        bias: bool = True,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        self._beta = non_negative("beta", beta)
        self._hash: SimHash | OneHot = SimHash(self._state_space, seed=self._seed, bits=bits, bias=bias)
        if self._flatten.categorical.all():
            each = OneHot(self._state_space, max_size=2**62)
            if self._flatten.size == 1 or each.n_rows <= _MOST_COMBINATIONS:
                self._hash = each
        self._sizes = np.array(_PRIMES[: whole("tables", tables, 1, len(_PRIMES))])
        self._counts: list[dict[int, int]] = [{} for _ in self._sizes]
        self._moves = not self._flatten.categorical.all()  # whether cells ever do
        self._scaled = False  # until a scale is known, every observation is a cell of its own
        self._cells: dict[int | bytes, tuple[int, FloatArray]] = {}  # how often each was seen, and the mean of that

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return self._rng.integers(self.actions.n_actions, size=len(flat))

    def _learn(self, batch: Batch) -> None:
        """Count where the steps led to."""
        if self._hash.observe(batch.next_flat):
            self._refile()
        codes = self._hash.rows(batch.next_flat)
        self._add(codes, [1] * len(codes))
        if self._moves:
            for code, x in zip(codes.tolist(), batch.next_flat, strict=True):
                self._meet(code if self._scaled else x.tobytes(), 1, x)

    def _add(self, codes: IntArray, times: list[int]) -> None:
        """Count codes (n,) so many times each."""
        for slot, more in zip((codes[:, None] % self._sizes).tolist(), times, strict=True):
            for table, at in zip(self._counts, slot, strict=True):
                table[at] = table.get(at, 0) + more

    def _meet(self, cell: int | bytes, more: int, x: FloatArray) -> None:
        """`more` observations with the mean x (d,) were seen in a cell."""
        seen, mean = self._cells.get(cell, (0, x))
        self._cells[cell] = (seen + more, mean + (x - mean) * (more / (seen + more)))

    def _refile(self) -> None:
        """The scale has changed: move the counts of each cell to its new cell."""
        cells = list(self._cells.values())
        self._cells, self._scaled, self._counts = {}, True, [{} for _ in self._sizes]
        if not cells:
            return
        codes = self._hash.rows(np.array([mean for _, mean in cells]))
        self._add(codes, [seen for seen, _ in cells])
        for code, (seen, mean) in zip(codes.tolist(), cells, strict=True):
            self._meet(code, seen, mean)

    def _bonus(self, batch: Batch) -> FloatArray:
        return self._beta / np.sqrt(np.maximum(self.counts(batch.next_flat), 1.0))

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

    @property
    def _arrays(self) -> tuple[IntArray, IntArray, FloatArray]:
        """The cells as arrays: code, times seen and mean of each."""
        codes = [cell if isinstance(cell, int) else 0 for cell in self._cells]
        seen, means = [seen for seen, _ in self._cells.values()], [mean for _, mean in self._cells.values()]
        return np.array(codes), np.array(seen), np.array(means).reshape(-1, self._flatten.size)

    @_arrays.setter
    def _arrays(self, arrays: tuple[IntArray, IntArray, FloatArray]) -> None:
        codes, seen, means = arrays
        keys = codes.tolist() if self._scaled else map(np.ndarray.tobytes, means)
        self._cells = dict(zip(keys, zip(seen.tolist(), means, strict=True), strict=True))
