"""What was counted row by row, and what it is worth: exact counts, two heads, optimistic value iteration.

Behind `tabular`, whose rows are the observations themselves, and behind the committee's cells. Who plays, and what is a
row, is not known here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.exploration.base import FloatArray
from polaug.exploration.planning import NEVER, Tables, pair_values, sweep
from polaug.exploration.returns import Returns
from polaug.state import LARGEST_COUNT, State, fitting, within

CURIOUS, EXPLOITING = 1, 0
_MAX_INDEX = 4_000_000  # rows for which a look-up table from row to visited state is kept
_WELL_KNOWN = 10  # tries after which one more surprise at a pair says little,
_SHARE = 0.02  # and only so many of them, as a share of all repeats so far, are news together
_MOST_SHIFTS = 64  # of one action that are counted
_EXACT, _ROUGH = 1e-6, 1e-5  # change, in units of the optimum, at which values count as solved; if counts are noisy


class Table:
    """Counts of transitions between `rows` rows by `actions` actions, and the values of both heads.

    `returns` are followed by whoever owns the table. A `sparing` one plans ever more rarely on tasks of chance; where
    surprises come from rows that are coarse, each may be a wall, and they all count.
    """

    def __init__(
        self,
        rows: int,
        actions: int,
        returns: Returns,
        *,
        caution: float = 3.0,
        patience: int = 2,
        budget: int = 400,
        sparing: bool = False,
    ) -> None:
        self._rows, self._actions, self._returns, self._gamma = rows, actions, returns, returns.gamma
        self._caution, self._patience, self._budget, self._sparing = caution, patience, budget, sparing
        self._tables = _empty(64, actions, rows)
        self._numbers: dict[int, int] = {}
        self._edges = 0
        self._found: dict[tuple[int, int, int, bool], int] = {}  # edges by state, action, next state and its end
        self._V = np.zeros((2, 64))
        self._shifts: list[dict[int, int]] = [{} for _ in range(actions)]
        self._first_tries = np.zeros(actions, dtype=np.int64)
        self._repeats = self._surprises = 0
        self._unplanned = 0  # surprises at well-known pairs since they last were news
        self._optimum = 1.0
        self._at = [0, 0]
        self._settled = [True, True]
        self._best = -np.inf
        self._barren = 0  # curious episodes in a row without a better return
        self._turn = 0.0

    def __len__(self) -> int:
        """How many rows were visited."""
        return len(self._numbers)

    # -- who plays, and how -----------------------------------------------------------------------------------------

    def next_head(self) -> int:
        """The curious head in a share patience / (patience + barren) of the episodes, evenly spread."""
        patience = self._patience * (1 if self._returns.best_reward > 0 else 50)
        self._turn += patience / (patience + self._barren)
        if self._turn >= 1.0:
            self._turn -= 1.0
            return CURIOUS
        return EXPLOITING

    def pairs(self, row: int, head: int) -> FloatArray:
        """Q(s, ·) of a head; where the exploiting one knows nothing it does as the curious one."""
        s = self._numbers.get(row)
        if s is None:
            return np.zeros(self._actions)
        if head == EXPLOITING and not self._tables.tries[s].any():
            head = CURIOUS
        return pair_values(self._tables, s, self._V[head], self._gamma, *self._head(head))

    def _head(self, head: int) -> tuple[bool, float, float]:
        """Curious or not, what it hopes for, and by how many imagined visits."""
        surprise = self._surprises / self._repeats if self._repeats else 0.0
        if head == CURIOUS:
            return True, self._optimum, self._caution * surprise
        return False, self._returns.high, 0.3 * self._caution * surprise

    def choose(self, row: int, head: int, rng: np.random.Generator) -> int:
        """The action of most value to a head; among equals any."""
        q = self.pairs(row, head)
        best = np.flatnonzero(q >= q.max() - 1e-9 * abs(q.max()))
        return int(best[rng.integers(len(best))])

    def known_pairs(self, row: int) -> FloatArray:
        """Q(s, ·) by what was tried here, what was not is worth less than all that was; where nothing was, by hope.

        The worst return is not enough: returns end with the episode, values go on where it was only cut short.
        """
        q = self.pairs(row, EXPLOITING)
        tried = q > NEVER
        if tried.all():
            return q
        return np.where(tried, q, np.nextafter(min(self._returns.low, q[tried].min(initial=0.0)), -np.inf))

    # -- learning ---------------------------------------------------------------------------------------------------

    def judge(self, head: int, total: float) -> None:
        """An episode of a head has ended."""
        if total > self._best + 1e-9 * abs(self._best) if np.isfinite(self._best) else True:
            self._best, self._barren = total, 0
        elif head == CURIOUS:
            self._barren += 1

    def hope(self) -> bool:
        """What an untried pair may be worth, by the returns so far; True if that is news."""
        spread = self._returns.high - self._returns.low
        hope = 10.0 if self._returns.best_reward <= 0 else 1.0  # nothing good seen yet: hope for much more
        optimum = self._returns.high + hope * spread if spread > 0 else 1.0
        if optimum == self._optimum or not np.isfinite(optimum):
            return False
        self._optimum = optimum
        return True

    def count(self, row: int, action: int, reward: float, next_row: int, ends: bool) -> bool:
        """Add a transition; True if it is time to plan anew.

        That is so if it told something new about its pair. At pairs that are well known only many surprises together
        tell something: on a task of chance nearly every step is one, and planning would cost ever more.
        """
        s, to = self._number(row), self._number(next_row)
        t = self._tables
        hit = self._found.get((s, action, to, ends), -1)
        tries = int(t.tries[s, action])
        if tries:
            usual = hit >= 0 and 2 * t.times[hit] >= tries
            same_reward = usual and abs(t.reward[hit] / t.times[hit] - reward) <= 1e-9 * abs(reward)
            self._repeats += 1
            self._surprises += not same_reward
            news = not same_reward and self._is_enough(tries)
        else:
            news = True
            self._note_shift(action, next_row - row)
        if hit < 0:
            hit = self._new_edge(s, action, to, ends)
            t = self._tables
        t.times[hit] += 1
        t.reward[hit] += reward
        t.tries[s, action] += 1
        if ends:
            t.final[to] += 1
            t.final_reward[to] += reward
        elif t.final[to]:
            t.final[to], t.final_reward[to] = 0, 0.0
        return news

    def _is_enough(self, tries: int) -> bool:
        """Whether a surprise at a pair tried so often, with those before it, is worth planning anew."""
        if tries < _WELL_KNOWN or not self._sparing:
            return True
        self._unplanned += 1
        if self._unplanned < _SHARE * self._repeats:
            return False
        self._unplanned = 0
        return True

    def _note_shift(self, action: int, shift: int) -> None:
        """Learn by how many rows an action usually moves, from pairs tried for the first time.

        Where there are ever more shifts, one too many takes one count from all others, so that they stay few and one
        that moves most rows is never lost (Misra and Gries, 1982).
        """
        seen = self._shifts[action]
        self._first_tries[action] += 1
        if shift in seen or len(seen) < _MOST_SHIFTS:
            seen[shift] = seen.get(shift, 0) + 1
        else:
            seen = self._shifts[action] = {key: times - 1 for key, times in seen.items() if times > 1}
        usual = max(seen, key=seen.__getitem__, default=0)
        share = 2.0 * seen.get(usual, 0) / (int(self._first_tries[action]) + 2.0) - 1.0
        self._tables.shift[action] = usual
        self._tables.trust[action] = max(share, 0.0) if usual != 0 else 0.0

    def _number(self, row: int) -> int:
        known = self._numbers.get(row)
        if known is not None:
            return known
        number = len(self._numbers)
        if number == len(self._tables.row):
            self._tables = _doubled_states(self._tables)
            self._V = np.concatenate([self._V, np.zeros_like(self._V)], axis=1)
        self._numbers[row] = number
        self._tables.row[number] = row
        if len(self._tables.number):
            self._tables.number[row] = number
        self._V[CURIOUS, number] = self._optimum
        return number

    def _new_edge(self, s: int, action: int, to: int, ends: bool) -> int:
        if self._edges == len(self._tables.to):
            self._tables = _doubled_edges(self._tables)
        t, edge = self._tables, self._edges
        self._edges += 1
        t.to[edge], t.ends[edge], t.action[edge] = to, ends, action
        t.times[edge], t.reward[edge] = 0, 0.0
        t.following[edge] = t.first[s, action]
        if t.first[s, action] < 0:
            t.earlier[edge], t.latest[s] = t.latest[s], edge
        t.first[s, action] = edge
        self._found[s, action, to, ends] = edge
        return edge

    def plan(self, times: int, news: bool) -> None:
        """Go on with value iteration where the last call left off, or from the newest state if there are news, for
        `times` the budget of a step.
        """
        states, noisy = len(self._numbers), self._sparing and self._surprises > 0
        tolerance = abs(self._optimum) * (_ROUGH if noisy else _EXACT)
        for head in (EXPLOITING, CURIOUS):
            if news or not self._settled[head]:
                start = states if news else self._at[head]
                self._at[head], self._settled[head] = sweep(
                    self._tables, states, self._V[head], self._gamma, *self._head(head), start, times * self._budget,
                    tolerance,
                )  # fmt: skip

    # -- logging and state ------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return {
            "visited_states": float(len(self._numbers)),
            "tried_pairs": float(np.count_nonzero(self._tables.tries)),
            "surprise": self._surprises / max(self._repeats, 1),
        }

    def state_dict(self) -> State:
        """Plain arrays."""
        states, t = len(self._numbers), self._tables
        shifts = [(a, shift, n) for a, seen in enumerate(self._shifts) for shift, n in seen.items()]
        counters = [self._edges, self._repeats, self._surprises, self._barren, *self._at, *map(int, self._settled),
                    self._unplanned]  # fmt: skip
        state: State = {
            "rows": t.row[:states].copy(),
            "first": t.first[:states].copy(), "tries": t.tries[:states].copy(),
            "final": t.final[:states].copy(), "final_reward": t.final_reward[:states].copy(),
            "V": self._V[:, :states].copy(), "shift": t.shift.copy(), "trust": t.trust.copy(),
            "shifts": np.array(shifts, dtype=np.int64).reshape(-1, 3), "first_tries": self._first_tries.copy(),
            "counters": np.array(counters, dtype=np.int64),
            "scalars": np.array([self._optimum, self._best, self._turn]),
        }  # fmt: skip
        return state | {name: getattr(t, name)[: self._edges].copy() for name in _SAVED_OF_EDGES}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        new = fitting("table", state, _LAYOUT, A=self._actions)
        states, edges = len(new["rows"]), len(new["to"])
        # Compiled loops follow all of these without looking whether they lead anywhere, or back to where they were.
        within("table.rows", new["rows"], 0, self._rows - 1)
        within("table.to", new["to"], 0, states - 1)
        within("table.first", new["first"], -1, edges - 1)
        within("table.shifts", new["shifts"][:, 0], 0, self._actions - 1)
        for name in ("tries", "times", "final", "first_tries", "counters"):
            within(f"table.{name}", new[name], 0, LARGEST_COUNT)
        earlier = (new["following"] >= -1) & (new["following"] < np.arange(edges))
        if edges != int(new["counters"][0]) or not earlier.all() or len(np.unique(new["rows"])) < states:
            raise StateError("table: states and edges do not fit together. The state is damaged.")
        tries = np.zeros_like(new["tries"]).ravel()
        np.add.at(tries, _pairs(new["first"], new["following"]), new["times"])
        if (tries != new["tries"].ravel()).any():
            raise StateError("table: tries are not those of the edges. The state is damaged.")
        self._restore(new, new.pop("scalars"))

    def _restore(self, new: dict[str, NDArray[Any]], scalars: FloatArray) -> None:
        states, edges, A = len(new["rows"]), len(new["to"]), self._actions
        tables = _empty(max(64, states), A, self._rows)
        while len(tables.to) < edges:
            tables = _doubled_edges(tables)
        for name in ("first", "tries", "final", "final_reward"):
            getattr(tables, name)[:states] = new[name]
        for name in _SAVED_OF_EDGES:
            getattr(tables, name)[:edges] = new[name]
        tables.row[:states] = new["rows"]
        tables.shift[:], tables.trust[:] = new["shift"], new["trust"]
        self._numbers = {int(row): k for k, row in enumerate(new["rows"])}
        if len(tables.number):
            tables.number[new["rows"]] = np.arange(states)
        self._tables = tables
        self._V = np.zeros((2, len(tables.row)))
        self._V[:, :states] = new["V"]
        self._shifts = [{} for _ in range(A)]
        for action, shift, times in new["shifts"].tolist():
            self._shifts[action][shift] = times
        self._first_tries = new["first_tries"]
        pairs = np.divmod(_pairs(new["first"], new["following"]), A)
        edges_to = zip(*(column.tolist() for column in (*pairs, new["to"], new["ends"])), strict=True)
        self._found = {place: edge for edge, place in enumerate(edges_to)}
        tables.action[:edges] = pairs[1]
        for edge in np.flatnonzero(new["following"] < 0).tolist():  # the first of their pairs
            s = pairs[0][edge]
            tables.earlier[edge], tables.latest[s] = tables.latest[s], edge
        counters = [int(c) for c in new["counters"]]
        self._edges, self._repeats, self._surprises, self._barren = counters[:4]
        self._at, self._settled = counters[4:6], [bool(c) for c in counters[6:8]]
        self._unplanned = counters[8]
        self._optimum, self._best, self._turn = (float(s) for s in scalars)


def _pairs(first: NDArray[np.int64], following: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pair s · A + a (E,) that each edge belongs to; the last pair for one that no pair leads to."""
    pairs = np.full(len(following), first.size - 1)
    tried = np.flatnonzero(first.ravel() >= 0)
    pairs[first.ravel()[tried]] = tried
    for edge in range(len(following) - 1, -1, -1):  # edges lead to earlier ones
        if following[edge] >= 0:
            pairs[following[edge]] = pairs[edge]
    return pairs


_LAYOUT = {
    "rows": ("i", "S"), "first": ("i", "S", "A"), "tries": ("i", "S", "A"), "final": ("i", "S"),
    "final_reward": ("f", "S"), "V": ("f", 2, "S"), "shift": ("i", "A"), "trust": ("f", "A"),
    "shifts": ("i", "n", 3), "first_tries": ("i", "A"), "counters": ("i", 9), "scalars": ("f", 3),
    "following": ("i", "E"), "to": ("i", "E"), "ends": ("b", "E"), "times": ("i", "E"), "reward": ("f", "E"),
}  # fmt: skip
_SAVED_OF_EDGES = ("following", "to", "ends", "times", "reward")
_EDGE_FIELDS = (*_SAVED_OF_EDGES, "action", "earlier")
_STATE_FIELDS = ("first", "tries", "latest", "row", "final", "final_reward")


def _empty(states: int, actions: int, rows: int) -> Tables:
    return Tables(
        first=np.full((states, actions), -1),
        tries=np.zeros((states, actions), dtype=np.int64),
        following=np.full(256, -1),
        to=np.zeros(256, dtype=np.int64),
        ends=np.zeros(256, dtype=np.bool_),
        times=np.zeros(256, dtype=np.int64),
        reward=np.zeros(256),
        action=np.zeros(256, dtype=np.int64),
        latest=np.full(states, -1),
        earlier=np.full(256, -1),
        row=np.zeros(states, dtype=np.int64),
        number=np.full(rows if rows <= _MAX_INDEX else 0, -1),
        final=np.zeros(states, dtype=np.int64),
        final_reward=np.zeros(states),
        shift=np.zeros(actions, dtype=np.int64),
        trust=np.zeros(actions),
    )


def _doubled_states(tables: Tables) -> Tables:
    fresh = _empty(len(tables.row), tables.tries.shape[1], 0)
    return tables._replace(
        **{name: np.concatenate([getattr(tables, name), getattr(fresh, name)]) for name in _STATE_FIELDS}
    )


def _doubled_edges(tables: Tables) -> Tables:
    return tables._replace(**{name: np.concatenate([getattr(tables, name)] * 2) for name in _EDGE_FIELDS})
