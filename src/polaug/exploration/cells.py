"""The member that counts cells: a coarse grid over what was seen, and `tabular`'s optimistic planning on it.

A smooth model goes through walls, and a smooth Q̂ leaks through them; counts do neither. A cell is about two steps wide,
so that most steps are seen to lead somewhere. It pays where observations are few numbers and steps are large, and costs
tries elsewhere, so it joins the committee only when the others keep failing: see `Contest`. Whole numbers that are not
too many have a cell each: what is counted is then exact.
"""

from __future__ import annotations

import math

import numpy as np

from polaug.errors import StateError
from polaug.exploration.base import Batch, FloatArray, IntArray
from polaug.exploration.member import Member
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.exploration.table import CURIOUS, EXPLOITING, Table
from polaug.state import State, captured, checked, generator_state, part, prefixed, restored_generator, within

_MOST_DIMENSIONS, _MOST_ACTIONS = 4, 9
_FEWEST, _MOST = 4, 16  # cells across a dimension
_ALL = 4_000  # cells of a grid, at most
_STEPS_WIDE = 2.0  # of a cell
_LONG = 0.9  # quantile of the steps seen that counts as one
_THOROUGHLY = 20  # times the planning of a step, before each episode
_GROWN = 1.1  # times the range: the grid is laid anew


class Cells(Member):
    """Counts on a grid, laid when it is first asked and again whenever the range seen has grown.

    `bounds`, the lowest and highest whole numbers (d,) there are, make it one of a cell for each.
    """

    _SAVED = ("_low", "_width", "_across", "_seen", "_heads", "_laid")

    def __init__(
        self,
        store: Store,
        n_actions: int,
        returns: Returns,
        seed: int,
        bounds: tuple[FloatArray, FloatArray] | None = None,
    ) -> None:
        self._store, self._n_actions, self._returns, self._bounds = store, n_actions, returns, bounds
        self._rng = np.random.default_rng([seed, 5])  # its own: while it does not play, nothing depends on it
        d = store.states.shape[1]
        self._low, self._width, self._across = np.zeros(d), np.ones(d), np.ones(d, dtype=np.int64)
        self._table = Table(1, n_actions, returns)
        self._seen = 0  # step up to which the store was counted
        self._heads = np.zeros(0, dtype=np.int64)
        self._laid = False

    @staticmethod
    def suits(dimensions: int, n_actions: int) -> bool:
        """Whether a grid over so many dimensions has few enough cells to be worth counting."""
        return dimensions <= _MOST_DIMENSIONS and n_actions <= _MOST_ACTIONS

    @property
    def ready(self) -> bool:
        """Whether there is a grid."""
        return self._laid

    def begin(self, environment: int) -> None:
        """Count what others have done, and choose a head for the episode."""
        if not self._laid or self._outgrown():
            self._lay()
        self._catch_up(_THOROUGHLY)
        more = environment + 1 - len(self._heads)
        self._heads = np.append(self._heads, np.zeros(max(more, 0), dtype=np.int64))
        self._heads[environment] = self._table.next_head()

    def choose(self, environment: int, flat: FloatArray) -> int:
        """The best of a head's values; among equals any."""
        return self._table.choose(int(self._rows(flat[None])[0]), int(self._heads[environment]), self._rng)

    def learn(self, batch: Batch, playing: bool) -> None:
        """Count at once while playing; others' steps are counted from the store when it plays next."""
        if playing:
            self._catch_up(1)

    def finish(self, environment: int, total: float | None) -> None:
        """Judge the head by its return."""
        if total is not None and environment < len(self._heads):
            self._table.judge(int(self._heads[environment]), total)

    def plays(self, environment: int) -> bool:
        """Whether a head was chosen for the episode."""
        return self._laid and 0 <= environment < len(self._heads)

    def values(self, flat: FloatArray) -> FloatArray:
        """Q̂ (n, N) by what was tried in each cell, or where nothing was, by hope."""
        return np.stack([self._table.known_pairs(int(row)) for row in self._rows(flat)])

    # -- the grid ---------------------------------------------------------------------------------------------------

    def _outgrown(self) -> bool:
        low, high = self._store.bounds()
        span = np.where(self._store.scale()[1] > 0.0, high - low, 0.0)
        return bool((span > _GROWN * self._width * self._across).any())

    def _lay(self) -> None:
        """A grid over the range seen, with cells that are `_STEPS_WIDE` steps wide; nothing is counted yet."""
        self._low, self._width, self._across = self._whole() if self._bounds else self._coarse()
        self._table = Table(int(self._across.prod()), self._n_actions, self._returns)
        self._seen, self._laid = 0, True

    def _whole(self) -> tuple[FloatArray, FloatArray, IntArray]:
        assert self._bounds is not None
        low, high = self._bounds
        return low.copy(), np.ones_like(low), (high - low).astype(np.int64) + 1

    def _coarse(self) -> tuple[FloatArray, FloatArray, IntArray]:
        store, n = self._store, self._store.size
        wide, (low, high) = store.scale()[1] > 0.0, store.bounds()
        span = np.where(wide, high - low, 1.0)
        steps = np.quantile(np.abs(store.next_states[:n] - store.states[:n]), _LONG, axis=0)
        across = np.divide(span, _STEPS_WIDE * steps, out=np.full_like(span, _MOST), where=steps > span / (2 * _MOST))
        across = np.where(wide, np.clip(across, _FEWEST, _MOST), 1.0)
        across = across * min(1.0, (_ALL / math.prod(across.tolist())) ** (1.0 / len(across)))
        cells = np.maximum(across.astype(np.int64), 1)
        return low.copy(), span / cells, cells

    def _rows(self, flat: FloatArray) -> IntArray:
        """The cells (n,) of observations (n, d)."""
        places = np.clip((flat - self._low) / self._width, 0, self._across - 1).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(places.T), tuple(self._across.tolist())), dtype=np.int64)

    def _catch_up(self, times: int) -> None:
        """Count what the store got since the last call, and plan for `times` the budget of a step."""
        store = self._store
        slots = store.written_since(self._seen)
        self._seen = store.steps
        rows, following = self._rows(store.states[slots]).tolist(), self._rows(store.next_states[slots]).tolist()
        news = self._table.hope()
        for slot, row, to in zip(slots.tolist(), rows, following, strict=True):
            ends = bool(store.terminated[slot])
            news |= self._table.count(row, int(store.actions[slot]), float(store.rewards[slot]), to, ends)
        self._table.plan(times, news or times > 1)

    # -- state ------------------------------------------------------------------------------------------------------

    def use(self, rng: np.random.Generator) -> None:
        """It keeps a generator of its own."""

    def state_dict(self) -> State:
        """The grid and the counts."""
        own = captured(self, self._SAVED) | {"generator": generator_state(self._rng)}
        return own | (prefixed("table", self._table.state_dict()) if self._laid else {})

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        values, rng = checked(self, self._SAVED, state), restored_generator(state["generator"])
        across = values["_across"]
        most = math.prod(self._whole()[2].tolist()) if self._bounds else _ALL
        if (across < 1).any() or math.prod(across.tolist()) > most or (values["_width"] <= 0.0).any():
            raise StateError("cells: do not fit these spaces. The state is damaged.")
        within("_heads", values["_heads"], EXPLOITING, CURIOUS)
        table = Table(int(across.prod()), self._n_actions, self._returns)
        if values["_laid"]:
            table.load_state_dict(part("table", state))
        for name, value in values.items():
            setattr(self, name, value)
        self._rng, self._table = rng, table
