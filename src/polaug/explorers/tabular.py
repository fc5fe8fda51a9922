"""`tabular`: R-max on counted transitions (Brafman & Tennenholtz, 2002), for observations that repeat exactly.

Every visited pair has exact counts, so Q̂ is solved by prioritised sweeping (Moore & Atkeson, 1993), not fitted. Two
modes share the counts. *Exploring* values an untried pair at the optimum, or at the value of its predicted next state
if the action has proved to be a translation (translations.py). *Exploiting* never takes an untried pair. If repeated
pairs have different results (the task is stochastic), virtual visits to the optimum are added to each pair. Each
episode is played in one mode. The more exploring episodes brought no better return, the fewer explore.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polaug.explorers.base import Batch, BoolArray, Explorer, FloatArray, IntArray
from polaug.explorers.memoryless import Choice, memoryless_path
from polaug.explorers.places import Places
from polaug.explorers.replay import BestEpisode
from polaug.explorers.returns import Returns
from polaug.explorers.table import EXPLOITING, EXPLORING, Table, TabularOptions
from polaug.features.spaces import Space
from polaug.snapshot import saved

_LEAD = 0.5  # of an action on the path without memory over all others, in spreads of the returns
REPLAYING = 2  # an exploiting episode that plays the best one again


@saved("_returns", "_places", "_table", "_observations", "_modes", "_best", "_start", "_path", "_searched")
class TabularExplorer(Explorer):
    """Counts and optimistic planning for observations that repeat exactly.

    Parameters
    ----------
    **options
        Fields of `TabularOptions`.
    """

    Options = TabularOptions

    def __init__(self, observation_space: Space, action_space: Space, **options: Any) -> None:
        common = {name: options.pop(name) for name in ("seed", "features") if name in options}
        super().__init__(observation_space, action_space, **common)
        settings = TabularOptions(**options)
        self._returns = Returns(float(settings.gamma))
        self._table = Table(self.actions.n_actions, self._returns, settings)
        self._numbers: dict[bytes, int] = {}  # of each distinct observation
        self._places = Places(self.actions.n_actions)
        self._start = 0  # the state in which the latest episode began
        self._searched = 0  # number of known transitions when a path was searched
        self._path: dict[int, Choice] = {}  # by observation: the best path of an agent without memory
        self._modes = np.zeros(0, dtype=np.int64)  # in which each environment's episode is played
        self._best = BestEpisode()

    def reset(self) -> None:
        """Other episodes begin, in modes of their own."""
        self._returns.restart()
        self._modes = self._modes[:0]
        self._best.reset()

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        modes = self._modes if len(self._modes) == len(flat) else np.full(len(flat), EXPLORING)
        views = self._numbered(flat)
        chosen = [self._action(i, view, mode) for i, (view, mode) in enumerate(zip(views, modes.tolist(), strict=True))]
        return np.array(chosen, dtype=np.int64)

    def _choose_allowed(self, flat: FloatArray, states: Any, allowed: BoolArray) -> IntArray:
        for i in np.flatnonzero(~allowed.all(axis=1)):
            s = self._places.state(int(i), self._numbered(flat[i : i + 1], add=True)[0])
            for action in np.flatnonzero(~allowed[i]).tolist():
                self._table.forbid(s, action)
        return super()._choose_allowed(flat, states, allowed)

    def _action(self, environment: int, view: int, mode: int) -> int:
        s = self._places.state(environment, view)
        if mode == EXPLOITING and view in self._path:
            return self._path[view].action
        again = self._best.action(environment, s) if mode == REPLAYING else None
        return self._table.choose(s, EXPLOITING if mode == REPLAYING else mode, self._rng) if again is None else again

    def _numbered(self, flat: FloatArray, *, add: bool = False) -> list[int]:
        """Numbers of observations (n, d); those never seen have the next one."""
        numbers, new = [], len(self._numbers)
        for row in flat + 0.0:  # −0 is 0
            key = row.tobytes()
            if add and key not in self._numbers:
                self._numbers[key] = new = len(self._numbers)
            numbers.append(self._numbers.get(key, new))
            new = len(self._numbers)
        return numbers

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if not self._numbers:
            return None
        return np.stack([self._values(view) for view in self._numbered(flat)])

    def _values(self, view: int) -> FloatArray:
        """Of the state with this observation on the path without memory, or else of the one that is best known."""
        path = self._path.get(view)
        alike = self._places.alike(view)
        s = path.state if path else max(alike, key=self._table.tries, default=len(self._places.views))
        q = self._table.known_values(s)
        again = [path.action] if path else self._best.actions_in(s)
        if again:  # while the plan fails, what the best episode did is worth more than all else
            spread = max(self._returns.high - self._returns.low, 1e-12)
            q[again] = q.max() + (_LEAD if path else 0.01) * spread
        return q

    def _learn(self, batch: Batch) -> None:
        if len(batch) != len(self._modes):
            self._modes = np.full(len(batch), EXPLORING)
            self._best.reset()
            self._places.restart(len(batch))
        views, thens = self._numbered(batch.flat, add=True), self._numbered(batch.next_flat, add=True)
        rows = zip(
            views, batch.actions.tolist(), thens, batch.ended.tolist(), batch.rewards.tolist(),
            batch.terminated.tolist(), strict=True,
        )  # fmt: skip
        for i, row in enumerate(rows):
            begins, action = self._best.begins(i), row[1]
            s, to = self._places.follow(i, (i, *row))
            self._start = s if begins else self._start
            self._table.count(s, action, row[4], to, row[5])
            self._best.step(i, s, action)
        finished = self._returns.follow(batch)
        for i, total in finished:
            mode = int(self._modes[i])
            self._table.judge(EXPLOITING if mode == REPLAYING else mode, total)
            self._best.ended(i, total, exploited=mode != EXPLORING, replayed=mode == REPLAYING)
            mode = self._table.next_mode()
            self._modes[i] = REPLAYING if mode == EXPLOITING and self._best.is_due() else mode
        if finished:
            self._tell_apart()
            self._table.episode_ended()
            self._find_path()
        else:
            self._table.plan()

    def _tell_apart(self) -> None:
        """Count anew as soon as places that look alike can be told apart."""
        steps = self._places.explain()
        if not steps:
            return
        self._table, self._best = self._table.with_places(self._places), BestEpisode()
        for (_, _, action, _, _, reward, ends), (s, to) in steps:
            self._table.count(s, action, reward, to, ends)
        self._start = steps[0][1][0]

    def _find_path(self) -> None:
        """An agent without memory has to do the same wherever things look the same: find a path that it can learn."""
        known = self._table.transitions if self._returns.best_reward > 0 else 0
        if self._places.effects is not None and known and (known != self._searched or self._best.in_force):
            self._searched = known
            self._path = memoryless_path(self._table, self._start, self._places.views, self._returns.gamma)

    def _learn_hindsight(self, batch: Batch) -> None:
        here, there = self._numbered(batch.flat, add=True), self._numbered(batch.next_flat, add=True)
        if self._places.effects is not None:
            return  # states are places then, and these observations say nothing of where they were made
        for s, action, reward, to, ends in zip(
            here, batch.actions.tolist(), batch.rewards.tolist(), there, batch.terminated.tolist(), strict=True
        ):
            self._table.count(s, action, reward, to, ends)

    @property
    def searching(self) -> bool:
        """Whether no reward was above 0 so far."""
        return self._table.searching

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        exploring = float(np.mean(self._modes == EXPLORING)) if len(self._modes) else 0.0
        own = {"exploring_share": exploring, "tells_places_apart": float(self._places.effects is not None)}
        return super().statistics() | self._table.statistics() | own

    @property
    def _observations(self) -> FloatArray:
        """The distinct observations (n, d), by their numbers."""
        return np.frombuffer(b"".join(self._numbers)).reshape(-1, self._flatten.size)

    @_observations.setter
    def _observations(self, rows: FloatArray) -> None:
        self._numbers = {row.tobytes(): s for s, row in enumerate(rows)}
