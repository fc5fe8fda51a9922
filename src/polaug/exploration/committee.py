"""`committee`, the default: members learn off-policy from every transition and compete for the next episode.

- *model* completes Q through learned dynamics and is curious: it finds what there is to find;
- *fitted* fits Q̂ to observed transitions only: it depends on no model;
- *linear* searches low-rank policies on raw features inside the model: it is sure-footed where values are hard to fit;
- *cells* counts on a coarse grid, where walls are walls: it joins when the others keep failing.

Each episode goes to the member with the best recent returns (in ranks and in units of their range, so that the scale of
rewards does not matter) plus a bonus for few tries; a loser is tried again whenever the data have grown enough, ever
more rarely if the best does well, and only if the model does not call it hopeless. Very long episodes are played in
spells, each with a choice of its own. A member that loses an episode badly hands the rest of it to another. Losers do
not refit, so a committee costs little more than its best member. Episodes that somebody else drives (an agent under
training) are learnt from, but speak for no member and cause no refit: whoever plays next catches up. `drive_only` says
where they do, if there are several environments. For observations that are categories `tabular` does it all, unless
they are very many combinations of several positions: those are read as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from polaug.checks import whole
from polaug.errors import StateError, invalid, unknown
from polaug.exploration.base import Batch, BoolArray, Explorer, FloatArray, IntArray, Transitions, driving
from polaug.exploration.cells import Cells
from polaug.exploration.contest import Contest
from polaug.exploration.fitted import Fitted
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.linear import Linear
from polaug.exploration.member import Member
from polaug.exploration.returns import Returns
from polaug.exploration.run import CALM, Run, runs_from, runs_state
from polaug.exploration.spells import Spells
from polaug.exploration.store import Store
from polaug.exploration.tabular import TabularExplorer
from polaug.exploration.teacher import Teacher
from polaug.features.spaces import Flattener, Space
from polaug.state import LARGEST_COUNT, Layout, State, alike, fitting, part, prefixed, within

MEMBERS = ("model", "fitted", "linear", "cells")
_MAX_TABLE = 1_000_000  # different observations up to which they are counted one by one,
_MAX_POSITIONS = 1_000  # or so many, if each is made of positions: what is near must tell something then
_POSITIONS = 9  # choices from which on a column is a position
_LOST = 2.5  # times the usual low point of an episode: it is lost
_GRACE = 60  # steps that the model's proven visions get to save an episode
_HOLD = (5, 40)  # steps for which an action is held when nothing else helps


class CommitteeExplorer(Explorer):
    """Several explorers in one, without settings per environment.

    Parameters
    ----------
    members
        Which of "model", "fitted", "linear" and "cells" belong to it; the model always does, since others lean on it.
        Cells are left out beyond four dimensions or nine actions, and where categories are among the observations;
        fitted and linear where there are so many dimensions and actions that they would cost seconds.
    gamma
        Discount.
    capacity
        Stored transitions.
    """

    searches = True

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
        members: tuple[str, ...] = MEMBERS,
        gamma: float = 0.99,
        capacity: int = 6000,
    ) -> None:
        super().__init__(observation_space, action_space, seed=seed, features=features)
        for name in members:
            if name not in MEMBERS:
                raise unknown("member", name, MEMBERS)
        if "model" not in members:
            raise invalid("members", 'must include "model"', members, "The others lean on its dynamics.")
        if not 0.0 < gamma < 1.0:
            raise invalid("gamma", "must lie in (0, 1)", gamma, "Pass for example 0.99.")
        self._options: dict[str, Any] = {"members": tuple(members), "gamma": gamma, "capacity": capacity}
        self._table: TabularExplorer | None = None
        positions = _are_positions(self._flatten)
        if self._flatten.categorical.all() and not positions and _combinations(self._flatten) <= _MAX_TABLE:
            self._table = TabularExplorer(observation_space, action_space, seed=seed, features=features, gamma=gamma)
        self._returns = Returns(float(gamma))
        self._store = Store(self._flatten.size, self.actions.size, whole("capacity", capacity, 100))
        self._model = Imaginer(self._store, self.actions.Y, self._returns, self._rng)
        self._linear = Linear(self._model, self.actions.Y, self._flatten.size, self._rng)
        d, Y = self._flatten.size, self.actions.Y
        every: dict[str, Member] = {"model": self._model}
        if Fitted.suits(d, Y):
            every["fitted"] = Fitted(self._store, Y, self._returns, self._rng)
        if Linear.suits(d, len(Y)):
            every["linear"] = self._linear
        if Cells.suits(d, len(Y)) and (positions or not self._flatten.categorical.any()):
            exact = positions and _combinations(self._flatten) <= _MAX_TABLE
            bounds = (self._flatten.low, self._flatten.high) if exact else None
            every["cells"] = Cells(self._store, len(Y), self._returns, seed, bounds)
        self._members = {name: every[name] for name in MEMBERS if name in members and name in every}
        self._contest = Contest(self._members, self._model, self._linear, self._store, self._returns)
        self._teacher = Teacher(self._members, self._model, self._linear, self._contest)
        self._runs: dict[int, Run] = {}
        self.played: dict[int, str] = {}
        """Whom each environment's last finished episode belonged to at its end."""
        self._chosen = np.zeros(0, dtype=np.int64)  # by the last call of `_choose`, -1 once the step was observed
        self._driven: BoolArray | None = None  # where the next choice will be followed, if it was said
        self._spells = Spells()
        self._lows: list[float] = []
        self._lost_below = 0.0

    def reset(self) -> None:
        """Episodes under way speak for no member."""
        if self._table is not None:
            self._table.reset()
        for environment in list(self._runs):
            self._drop(environment)
        self._returns.restart()
        self._chosen[:] = -1
        self._driven = None

    # -- acting -----------------------------------------------------------------------------------------------------

    def drive_only(self, where: BoolArray) -> None:
        """Episodes that somebody else drives are given to no member."""
        self._driven = np.array(where, dtype=np.bool_)

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        if self._table is not None:
            return self._table._choose(flat, states)
        where, self._driven = self._driven, None
        chosen = np.full(len(flat), -1, dtype=np.int64)
        for i in driving(where, len(flat)):
            run = self._runs.get(i)
            if run is None or not run.member:
                run = self._begin(i, flat[i])
            member = self._members[run.member] if self._model.ready else self._model
            chosen[i] = run.held if self._is_shaken(run) else member.choose(i, flat[i])
        self._chosen = chosen
        return np.maximum(chosen, 0)

    def _is_shaken(self, run: Run) -> bool:
        """A lost episode that nobody can save may be caught in a loop: now and then an action is held for long."""
        if run.settled and run.held_until + CALM <= run.length:
            run.held = int(self._rng.integers(self.actions.n_actions))
            run.held_until = run.length + int(self._rng.integers(*_HOLD))
        return run.settled and run.length < run.held_until

    def _begin(self, environment: int, flat: FloatArray) -> Run:
        """Give the episode to a member. Somebody else may have driven a part of it (actions are chosen for all
        environments): returns are of whole episodes, and speak for the member only if it has driven most of them.
        """
        run = self._runs.get(environment) or self._start(environment, flat)
        if self.teaches:
            self._teacher.choose(flat, self._store.steps)
        self._give(environment, run, self._contest.next_member(flat))
        return run

    def _give(self, environment: int, run: Run, member: str) -> None:
        run.member = member
        self._contest.standings[member].flying += 1
        self._members[member].begin(environment)

    def _start(self, environment: int, flat: FloatArray) -> Run:
        self._linear.started(environment, flat)
        self._runs[environment] = Run("")
        return self._runs[environment]

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if self._table is not None:
            return self._table._q_values(flat, states)
        if not self._model.ready:
            return None
        return self._teacher.values(flat)

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._model.novelty(flat) if self._table is None and self._model.ready else None

    # -- learning ---------------------------------------------------------------------------------------------------

    def observe_past(self, steps: Sequence[Transitions]) -> None:
        """Read, check and store all at once: most of a step's cost is in the calls, not in the numbers."""
        shapes = {np.shape(step.observations) if isinstance(step.observations, np.ndarray) else None for step in steps}
        shape = shapes.pop() if len(shapes) == 1 else None
        if self._table is not None or not shape or not shape[0]:
            super().observe_past(steps)
            return
        batch, n = self._read(Transitions.joined(steps)), shape[0]
        self._follow_environments(n)
        self._chosen = np.full(n, -1)
        for first, last in pairwise(self._cuts(batch, n)):
            self._take_in_past(batch.rows(slice(first, last)), n)

    def _cuts(self, batch: Batch, n: int) -> list[int]:
        """Where to cut steps of n environments. Store and terminal states draw from one generator: once both are full
        it must be in the same order as step by step.
        """
        ends = batch.terminated.nonzero()[0]
        if not self._model.dynamics.replaces(len(ends)):
            return [0, len(batch)]
        return sorted({0, *((ends // n + 1) * n).tolist(), len(batch)})

    def _take_in_past(self, batch: Batch, n: int) -> None:
        ended = batch.ended
        for t in range(0, len(batch), n):
            self._returns.follow_step(batch.rewards[t : t + n], ended[t : t + n])
        self._take_in(batch, set())
        self.steps += len(batch)  # now: whoever is interrupted later must not be shown it again
        for k in range(len(batch)):
            run = self._runs.get(k % n) or self._start(k % n, batch.flat[k])
            self._count(k % n, run, batch, k)

    def _learn(self, batch: Batch) -> None:
        if self._table is not None:
            self._table._learn(batch)
            self._table.steps += len(batch)
            return
        playing, own, n = set(), 0, len(batch)
        self._follow_environments(n)
        asked = self._chosen.tolist() if len(self._chosen) == n else [-1] * n
        for i, (wanted, done) in enumerate(zip(asked, batch.actions.tolist(), strict=True)):
            run = self._runs.get(i) or self._start(i, batch.flat[i])
            if wanted == done:
                run.followed += 1
                own += 1
                playing.add(run.member)
        self._chosen = np.full(n, -1) if len(self._chosen) != n else self._chosen
        self._chosen[:] = -1
        self._returns.follow(batch)
        self._linear.earn(own)
        self._take_in(batch, playing)
        for i in range(n):
            self._count(i, self._runs[i], batch, i)

    def _follow_environments(self, n: int) -> None:
        """Episodes of environments that are no more have no end; nor, where there are others, have those under way."""
        others = n != self._returns.environments
        for i in [i for i, run in self._runs.items() if i >= n or (others and run.length)]:
            self._drop(i)

    def _drop(self, environment: int) -> None:
        """An episode without an end speaks for no member."""
        run = self._runs.pop(environment)
        if run.member:
            self._withdraw(environment, run)

    def _take_in(self, batch: Batch, playing: set[str]) -> None:
        self._contest.follow(batch)
        self._store.add(batch, self._rng)
        for name, member in self._members.items():
            member.learn(batch, playing=name in playing)

    def _count(self, environment: int, run: Run, batch: Batch, row: int) -> None:
        """One more step of an episode."""
        run.total += float(batch.rewards[row])
        run.low = min(run.low, run.total)
        run.length += 1
        if batch.terminated[row] or batch.truncated[row]:
            self._end(environment, run, cut=bool(batch.truncated[row] and not batch.terminated[row]))
        elif run.length >= self._spells.longest:
            self._end_spell(environment, run, batch.next_flat[row])
        elif self._falls_back(run):
            run.fallen = run.length
        elif self._is_lost(run):
            self._hand_over(environment, run)

    def _falls_back(self, run: Run) -> bool:
        if run.member != "model" or run.fallen or not run.own or self._contest.exploring:
            return False
        return self._model.falls_back(run.total)

    def _is_lost(self, run: Run) -> bool:
        """Far below the low points of recent episodes: somebody else may still save it."""
        if run.handed or run.settled or len(self._members) == 1 or len(self._lows) < 4 or not self._model.ready:
            return False
        return run.own and (run.total < self._lost_below or 0 < run.fallen < run.length - _GRACE)

    def _hand_over(self, environment: int, run: Run) -> None:
        heir = self._contest.heir(run.member)
        if heir is None:
            run.settled = True
            return
        self._book(environment, run)
        run.handed = True
        self._give(environment, run, heir)

    def _end(self, environment: int, run: Run, cut: bool) -> None:
        length = run.before + run.length
        self.played[environment] = run.member
        self._linear.ended(length, cut)
        self._spells.ended(length)
        if not run.before or (length > self._spells.longest and not cut):
            del self._runs[environment]
            self._judge(environment, run)
            return
        self._drop(environment)  # a spell that was cut short
        if length <= self._spells.longest:  # from now on such episodes are whole
            self._contest.forget()
            self._lows, self._lost_below = [], 0.0
            self._contest.ended(run.earned + run.total, run.own)

    def _end_spell(self, environment: int, run: Run, flat: FloatArray) -> None:
        """The episode goes on from `flat` (d,): its member is judged by this much, and the next one chosen."""
        self._linear.ended(run.length, cut=True)
        self._judge(environment, run)
        rest = self._start(environment, flat)
        rest.before, rest.earned = run.before + run.length, run.earned + run.total

    def _judge(self, environment: int, run: Run) -> None:
        self._contest.ended(run.total, run.own)
        if not run.member:
            return
        if run.own:
            self._lows = [*self._lows, run.low][-16:]
            self._lost_below = _LOST * float(np.quantile(self._lows, 0.25))
        if run.handed or not run.own:
            self._withdraw(environment, run)
        else:
            self._book(environment, run)

    def _withdraw(self, environment: int, run: Run) -> None:
        """The return says nothing about the member."""
        self._contest.standings[run.member].flying -= 1
        self._members[run.member].finish(environment, None)

    def _book(self, environment: int, run: Run) -> None:
        """Credit the return so far to the member that played."""
        searching = run.member == "model" and self._contest.exploring
        self._members[run.member].finish(environment, None if searching else run.total)
        self._contest.book(run.member, run.total)

    # -- logging and state ------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        if self._table is not None:
            return self._table.statistics() | super().statistics()
        rows = {"stored": float(self._store.size), "episodes": float(self._contest.episodes)}
        rows |= {f"plays_{name}": float(standing.plays) for name, standing in self._contest.standings.items()}
        return super().statistics() | rows

    def _state(self) -> State:
        if self._table is not None:
            return prefixed("table", self._table.state_dict())
        state: State = {
            "runs": runs_state(self._runs, list(self._members)), "chosen": self._chosen.copy(),
            "lows": np.array(self._lows), "lengths": np.array(self._spells.lengths, dtype=np.int64),
            "teacher": self._teacher.state(),
        }  # fmt: skip
        parts: dict[str, Any] = {"contest": self._contest, "store": self._store, "returns": self._returns}
        for name, each in (parts | self._kept()).items():
            state |= prefixed(name, each.state_dict())
        return state

    def _kept(self) -> dict[str, Member]:
        """The members, and the linear one in any case: whoever plays, it knows where episodes start and how long they
        are.
        """
        return {"linear": self._linear, **self._members}

    def _load(self, state: State) -> None:
        if self._table is not None:
            self._table.load_state_dict(part("table", state))
            return
        twin = CommitteeExplorer(self._state_space, self.action_space, **self._options)
        twin._store.load_state_dict(part("store", state), self.actions.n_actions)
        twin._returns.load_state_dict(part("returns", state))
        twin._contest.load_state_dict(alike("contest", part("contest", state), twin._contest.state_dict(), grows=True))
        for name, member in twin._kept().items():
            member.load_state_dict(part(name, state))
            member.use(self._rng)
        twin._runs = runs_from(state["runs"], list(self._members))
        within("runs, held", [run.held for run in twin._runs.values()], 0, self.actions.n_actions - 1)
        for environment, run in twin._runs.items():
            if run.member and not twin._members[run.member].plays(environment):
                raise StateError(f"runs: {run.member} does not play environment {environment}. The state is damaged.")
        layout: dict[str, Layout] = {
            "chosen": ("i", "n"),
            "lows": ("f", "m"),
            "lengths": ("i", "k"),
            "teacher": ("i", 2),
        }
        own = fitting("committee", state, layout)
        within("lengths", own["lengths"], 0, LARGEST_COUNT)
        twin._spells = Spells(own["lengths"].tolist())
        twin._chosen, twin._lows = own["chosen"], own["lows"].tolist()
        twin._lost_below = _LOST * float(np.quantile(twin._lows, 0.25)) if twin._lows else 0.0
        twin._teacher.restore(own["teacher"])
        for name in ("_store", "_returns", "_model", "_linear", "_members", "_contest", "_runs", "_chosen", "_spells",
                     "_lows", "_lost_below", "_teacher"):  # fmt: skip
            setattr(self, name, getattr(twin, name))


def _combinations(flatten: Flattener) -> int:
    """How many different observations there are."""
    return math.prod(int(n) for n in flatten.high - flatten.low + 1)


def _are_positions(flatten: Flattener) -> bool:
    """Whether categories are read as numbers: several columns, some of many choices, in too many combinations to meet
    one twice. A single column may be numbered anyhow.
    """
    choices = flatten.high - flatten.low + 1
    many = flatten.size > 1 and bool((choices >= _POSITIONS).any())
    return bool(flatten.categorical.all()) and many and _combinations(flatten) > _MAX_POSITIONS
