"""Tabular R-max: transition counts between numbered states, and the values of these states.

Used by `tabular` and by the arm `aggregation`. The caller numbers the states from 0 on; the order has no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polaug.checks import non_negative, whole
from polaug.errors import invalid
from polaug.explorers.base import FloatArray
from polaug.explorers.places import Places
from polaug.explorers.planning import NEVER, BoolArray, IntArray, Tables, pair_values, sweep
from polaug.explorers.returns import Returns
from polaug.explorers.translations import MOST_ACTIONS, Translations
from polaug.snapshot import saved
from polaug.state import within

EXPLOITING, EXPLORING = 0, 1
_TOLERANCE = 1e-5  # change of a value, in units of the optimum, that others are told of
_FORBIDDEN = 100.0  # times the spread of the returns, below them all: an illegal action is never worth a try
_EPISODE_END = 20  # times the updates of a step


@dataclass(frozen=True)
class TabularOptions:
    """Settings of `tabular`."""

    gamma: float = 0.99
    """Discount."""
    caution: float = 3.0
    """Virtual visits to the optimum at each pair if all repeats of a pair have different results. More of them make a
    stochastic task be explored for longer."""
    patience: int = 2
    """After this many exploring episodes in a row without a better return, every other episode exploits."""
    patience_unrewarded: int = 1000
    """`patience` while no reward was above 0."""
    optimism: float = 1.0
    """How far above the best return an untried pair may be worth, in spreads of the returns."""
    optimism_unrewarded: float = 10.0
    """`optimism` while no reward was above 0."""
    budget: int = 400
    """Maximum number of value updates per environment step. The end of an episode gets twenty times as many."""

    def __post_init__(self) -> None:
        if not 0.0 < self.gamma < 1.0:
            raise invalid("gamma", "must lie in (0, 1)", self.gamma, "Pass for example 0.99.")
        for name in ("caution", "optimism", "optimism_unrewarded"):
            non_negative(name, getattr(self, name))
        for name in ("patience", "patience_unrewarded", "budget"):
            whole(name, getattr(self, name), 1)


class Outcome(NamedTuple):
    """A transition of a state: where it leads, its mean reward, and its share of those of its pair."""

    action: int
    to: int
    ends: bool
    reward: float
    share: float


@saved(
    "_returns", "_tables", "_states", "_edges", "_translations", "_predicted", "_V", "_queue", "_waiting", "_span",
    "_repeats", "_surprises", "_optimum", "_doubt", "_best", "_barren", "_turn", fixed=("_actions",),
)  # fmt: skip
class Table:
    """Transition counts of states by `actions` actions, and the values of both modes: exploring and exploiting.

    `returns`, which the caller keeps up to date, are the scale of optimism. `places` complete the table of next states
    instead of `Translations`.
    """

    def __init__(
        self, actions: int, returns: Returns, options: TabularOptions | None = None, places: Places | None = None
    ) -> None:
        self._actions, self._returns, self._gamma = actions, returns, returns.gamma
        self._options = options or TabularOptions()
        self._tables = _empty(64, 256, actions)
        self._states = self._edges = 0
        self._found: dict[tuple[int, int, int, bool], int] = {}  # edges by state, action, next state and its end
        self._translations: Translations | Places | None = places
        if places is None and actions <= MOST_ACTIONS:
            self._translations = Translations(actions)
        self._predicted = np.zeros((2, actions), dtype=np.int64)  # first tries that were predicted, and rightly so
        self._V: FloatArray = np.zeros((2, 64))
        self._queue: IntArray = np.zeros((2, 64), dtype=np.int64)
        self._waiting: BoolArray = np.zeros((2, 64), dtype=np.bool_)
        self._span = [(0, 0), (0, 0)]  # start and length of each queue
        self._repeats = self._surprises = 0
        self._optimum, self._doubt = 1.0, 0.0
        self._best = -np.inf
        self._barren = 0  # exploring episodes in a row without a better return
        self._turn = 0.0

    def _restored(self) -> None:
        t, last, states, edges = self._tables, self._edges, len(self._tables.latest), len(self._tables.to)
        for most, names in ((edges, ("first", "latest", "entering", "following", "earlier", "sibling")),
                            (states, ("target", "origin", "to", "source")), (self._actions, ("action",))):  # fmt: skip
            for name in names:  # compiled loops do not check bounds
                within(f"table.{name}", getattr(t, name), -1, most - 1)
        within("table.queue", self._queue, 0, states - 1)
        keys = (getattr(t, name)[:last].tolist() for name in _EDGE_KEY)
        self._found = dict(zip(zip(*keys, strict=True), range(last), strict=True))

    def with_places(self, places: Places) -> Table:
        """An empty table that judges episodes as this one, for states that `places` numbers."""
        table = Table(self._actions, self._returns, self._options, places)
        table._best, table._barren, table._turn, table._optimum = self._best, self._barren, self._turn, self._optimum
        table._grow(len(places.views))
        return table

    # -- modes ------------------------------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """Whether no reward was above 0 so far, and the search has lasted less than `patience_unrewarded` episodes."""
        return self._returns.best_reward <= 0 and self._barren < self._options.patience_unrewarded

    def next_mode(self) -> int:
        """EXPLORING in a share patience / (patience + unimproved episodes) of the episodes, evenly spread."""
        options = self._options
        patience = options.patience if self._returns.best_reward > 0 else options.patience_unrewarded
        self._turn += patience / (patience + self._barren)
        if self._turn >= 1.0:
            self._turn -= 1.0
            return EXPLORING
        return EXPLOITING

    def judge(self, mode: int, total: float) -> None:
        """An episode has ended."""
        if not np.isfinite(self._best) or total > self._best + 1e-9 * abs(self._best):
            self._best, self._barren = total, 0
        elif mode == EXPLORING:
            self._barren += 1

    def values(self, s: int, mode: int) -> FloatArray:
        """Q(s, ·) (A,) in a mode; if nothing was tried, those of exploring."""
        if s >= self._states:
            return np.zeros(self._actions)
        if mode == EXPLOITING and not self._tables.tries[s].any():
            mode = EXPLORING
        return pair_values(self._tables, s, self._V[mode], self._gamma, *self._settings(mode))

    @property
    def transitions(self) -> int:
        """How many different ones were counted."""
        return self._edges

    def tries(self, s: int) -> int:
        """How often an action was tried in a state."""
        return int(self._tables.tries[s].sum()) if s < self._states else 0

    def outcomes(self, s: int) -> list[Outcome]:
        """What followed on the actions in a state."""
        t, result = self._tables, []
        for action in np.flatnonzero(t.tries[s]).tolist():
            edge = int(t.first[s, action])
            while edge >= 0:
                times = int(t.times[edge])
                mean, share = float(t.reward[edge]) / times, times / int(t.tries[s, action])
                result.append(Outcome(action, int(t.to[edge]), bool(t.ends[edge]), mean, share))
                edge = int(t.following[edge])
        return result

    def choose(self, s: int, mode: int, rng: np.random.Generator) -> int:
        """The action with the highest value; ties are broken at random."""
        q = self.values(s, mode)
        best = np.flatnonzero(q >= q.max() - 1e-9 * abs(q.max()))
        return int(best[rng.integers(len(best))])

    def known_values(self, s: int) -> FloatArray:
        """Q(s, ·) (A,) for teaching: an untried pair is worth less than all that were tried.

        The worst return is not low enough: returns end with the episode, values go on where it was truncated.
        """
        q = self.values(s, EXPLOITING)
        tried = q > NEVER
        if tried.all():
            return q
        return np.where(tried, q, np.nextafter(min(self._returns.low, q[tried].min(initial=0.0)), -np.inf))

    def _settings(self, mode: int) -> tuple[bool, float, float]:
        """Whether untried pairs count, the optimum, and the number of virtual visits to it."""
        if mode == EXPLORING:
            return True, self._optimum, self._doubt
        return False, self._returns.high, 0.3 * self._doubt

    # -- learning ---------------------------------------------------------------------------------------------------

    def count(self, s: int, action: int, reward: float, to: int, ends: bool) -> None:
        """Add a transition."""
        self._grow(max(s, to) + 1)
        hit, t = self._found.get((s, action, to, ends), -1), self._tables
        tries = int(t.tries[s, action])
        if tries:
            usual = hit >= 0 and 2 * t.times[hit] >= tries
            same_reward = usual and abs(t.reward[hit] / t.times[hit] - reward) <= 1e-9 * abs(reward)
            self._repeats += 1
            self._surprises += not same_reward
        else:
            self._translate(s, action, to)
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
        for mode in (EXPLOITING, EXPLORING):
            self._wait(mode, s)

    def forbid(self, s: int, action: int) -> None:
        """An untried action that a mask rules out: as if it had ended an episode far below all returns."""
        if s < self._states and self._tables.tries[s, action]:
            return
        scale = max(self._returns.high - self._returns.low, abs(self._optimum))
        self.count(s, action, self._returns.low - _FORBIDDEN * scale, s, True)
        self._tables.final[s], self._tables.final_reward[s] = 0, 0.0  # the state itself is no end

    def _translate(self, s: int, action: int, to: int) -> None:
        """Judge the prediction for a pair tried for the first time, and learn from the pair."""
        if self._translations is None:
            return
        t = self._tables
        if t.target[s, action] >= 0:
            made, right = self._predicted[:, action]
            self._predicted[:, action] = made + 1, right + (t.target[s, action] == to)
        for moved in self._translations.learn(s, action, to):
            self._predict(moved)

    def _predict(self, s: int) -> None:
        assert self._translations is not None
        t = self._tables
        for a in range(self._actions):
            target, origin = self._translations.predict(s, a), self._translations.origin(s, a)
            t.target[s, a], t.origin[s, a] = target, origin
            if target >= 0:
                t.origin[target, a] = s
            if origin >= 0:
                t.target[origin, a] = s
                self._wait(EXPLORING, origin)
        self._wait(EXPLORING, s)

    def _new_edge(self, s: int, action: int, to: int, ends: bool) -> int:
        if self._edges == len(self._tables.to):
            self._tables = _enlarged(self._tables, _EDGE_FIELDS)
        t, edge = self._tables, self._edges
        self._edges += 1
        t.to[edge], t.ends[edge], t.source[edge], t.action[edge] = to, ends, s, action
        _link(t, edge)
        self._found[s, action, to, ends] = edge
        return edge

    def _grow(self, states: int) -> None:
        while states > len(self._tables.latest):
            self._tables = _enlarged(self._tables, _STATE_FIELDS)
            waiting = [self._in_queue(mode) for mode in (EXPLOITING, EXPLORING)]
            empty = np.zeros_like(self._queue)
            self._queue, self._waiting = np.hstack([empty, empty]), np.hstack([self._waiting, empty.astype(np.bool_)])
            self._V = np.hstack([self._V, np.zeros_like(self._V)])
            for mode, numbers in enumerate(waiting):
                self._queue[mode, : len(numbers)], self._span[mode] = numbers, (0, len(numbers))
        if states > self._states:
            self._V[EXPLORING, self._states : states] = self._optimum
            self._states = states

    # -- planning ---------------------------------------------------------------------------------------------------

    def episode_ended(self) -> None:
        """Set optimism by the returns and surprises so far, and plan longer."""
        spread = self._returns.high - self._returns.low
        rewarded = self._returns.best_reward > 0
        optimism = self._options.optimism if rewarded else self._options.optimism_unrewarded
        optimum = self._returns.high + optimism * spread if spread > 0 else 1.0
        doubt = self._options.caution * self._surprises / max(self._repeats, 1)
        made, right = self._predicted
        trust = np.maximum(2.0 * right / (made + 1.0) - 1.0, 0.0)
        if np.isfinite(optimum) and not (
            optimum == self._optimum and doubt == self._doubt and np.array_equal(trust, self._tables.trust)
        ):
            self._optimum, self._doubt, self._tables.trust[:] = optimum, doubt, trust
            for mode in (EXPLOITING, EXPLORING):
                for s in range(self._states - 1, -1, -1):
                    self._wait(mode, s)
        self.plan(_EPISODE_END)

    def plan(self, times: int = 1) -> None:
        """Prioritised sweeping for `times` the updates of a step."""
        tolerance = abs(self._optimum) * _TOLERANCE
        for mode in (EXPLOITING, EXPLORING):
            if self._span[mode][1]:
                self._span[mode] = sweep(
                    self._tables, self._V[mode], self._gamma, *self._settings(mode),
                    self._queue[mode], self._waiting[mode], *self._span[mode], times * self._options.budget, tolerance,
                )  # fmt: skip

    def _wait(self, mode: int, s: int) -> None:
        if not self._waiting[mode, s]:
            start, length = self._span[mode]
            self._queue[mode, (start + length) % self._queue.shape[1]] = s
            self._waiting[mode, s] = True
            self._span[mode] = start, length + 1

    def _in_queue(self, mode: int) -> IntArray:
        start, length = self._span[mode]
        waiting: IntArray = self._queue[mode, np.arange(start, start + length) % self._queue.shape[1]]
        return waiting

    # -- logging ------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return {
            "visited_states": float(self._states),
            "tried_pairs": float(np.count_nonzero(self._tables.tries)),
            "surprise": self._surprises / max(self._repeats, 1),
            "predicted_right": float(self._predicted[1].sum() / max(self._predicted[0].sum(), 1)),
        }


_EDGE_KEY = ("source", "action", "to", "ends")
_EDGE_FIELDS = (*_EDGE_KEY, "times", "reward", "following", "earlier", "sibling")
_STATE_FIELDS = ("first", "tries", "target", "origin", "latest", "entering", "final", "final_reward")


def _link(t: Tables, edge: int) -> None:
    """Put an edge into the lists of its pair, of its state's tried pairs, and of the state it enters."""
    s, action, to = t.source[edge], t.action[edge], t.to[edge]
    if t.first[s, action] < 0:
        t.earlier[edge], t.latest[s] = t.latest[s], edge
        t.first[s, action] = edge
    else:
        t.following[edge], t.following[t.first[s, action]] = t.following[t.first[s, action]], edge
    if not t.ends[edge]:
        t.sibling[edge], t.entering[to] = t.entering[to], edge


def _empty(states: int, edges: int, actions: int) -> Tables:
    def numbers(*shape: int, fill: int = 0) -> IntArray:
        return np.full(shape, fill, dtype=np.int64)

    return Tables(
        first=numbers(states, actions, fill=-1), tries=numbers(states, actions),
        target=numbers(states, actions, fill=-1), origin=numbers(states, actions, fill=-1),
        latest=numbers(states, fill=-1), entering=numbers(states, fill=-1),
        final=numbers(states), final_reward=np.zeros(states),
        following=numbers(edges, fill=-1), to=numbers(edges), ends=np.zeros(edges, dtype=np.bool_),
        times=numbers(edges), reward=np.zeros(edges), source=numbers(edges), action=numbers(edges),
        earlier=numbers(edges, fill=-1), sibling=numbers(edges, fill=-1), trust=np.zeros(actions),
    )  # fmt: skip


def _enlarged(tables: Tables, names: tuple[str, ...]) -> Tables:
    """Twice the capacity in the arrays called `names`."""
    fresh = _empty(len(tables.latest), len(tables.to), tables.tries.shape[1])
    return tables._replace(**{name: np.concatenate([getattr(tables, name), getattr(fresh, name)]) for name in names})
