"""`committee`, the default: members learn off-policy from every transition and compete for the next episode.

- *model* completes Q through learned dynamics and is curious: it finds what there is to find;
- *fitted* fits Q̂ to observed transitions only: it depends on no model;
- *linear* searches low-rank policies on raw features inside the model: it is sure-footed where values are hard to fit.

Each episode goes to the member with the best recent returns (in ranks and in units of their range, so that the scale
of rewards does not matter) plus a bonus for few tries; a loser is tried again whenever the data have grown enough, ever
more rarely, and only if the model does not call it hopeless. A member that loses an episode badly hands the rest of it
to another. Losers do not refit, so a committee costs little more than its best member. For observations that are
categories `tabular` does it all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polaug.checks import whole
from polaug.errors import StateError, invalid, unknown
from polaug.exploration.base import Batch, Explorer, FloatArray, IntArray
from polaug.exploration.fitted import Fitted
from polaug.exploration.imagination import imagined_return
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.linear import Linear
from polaug.exploration.member import Member
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.exploration.tabular import TabularExplorer
from polaug.features.spaces import Flattener, Space
from polaug.state import State, part, prefixed

MEMBERS = ("model", "fitted", "linear")
_DECAY = 0.8  # how much less an older return of a member counts
_BONUS = 0.3  # for few tries, in units where returns span 0 to 1
_MODEL_PRIOR = 0.1  # the model member keeps exploring: it gets the benefit of the doubt
_RECENT = 40  # episodes that make the scale
_MAX_TABLE = 1_000_000  # different observations up to which they are counted one by one
_NO_WORSE = 0.15  # how much less worth a member may be that is handed a lost episode
_LOST = 2.5  # times the usual low point of an episode: it is lost


@dataclass(slots=True)
class Standing:
    """What a member has achieved."""

    plays: int = 0
    counted: int = 0  # plays that tell something about its worth
    flying: int = 0  # episodes under way
    last: int = 0  # step at which it last finished one
    at: list[int] = field(default_factory=list)  # steps at which its last plays ended
    returns: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """An episode under way."""

    member: str
    total: float = 0.0
    low: float = 0.0  # lowest point of the total so far
    length: int = 0
    handed: bool = False  # whether another member has given it up
    settled: bool = False  # whether nobody better was found when it was lost


class CommitteeExplorer(Explorer):
    """Several explorers in one, without settings per environment.

    Parameters
    ----------
    members
        Which of "model", "fitted" and "linear" belong to it; the model is always there, since the others lean on it.
    gamma
        Discount.
    capacity
        Stored transitions.
    """

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
        if self._flatten.categorical.all() and _combinations(self._flatten) <= _MAX_TABLE:
            self._table = TabularExplorer(observation_space, action_space, seed=seed, features=features, gamma=gamma)
        self._returns = Returns(float(gamma))
        self._store = Store(self._flatten.size, self.actions.size, whole("capacity", capacity, 100))
        self._model = Imaginer(self._store, self.actions.Y, self._returns, self._rng)
        self._linear = Linear(self._model, self.actions.Y, self._flatten.size, self._rng)
        every: dict[str, Member] = {
            "model": self._model,
            "fitted": Fitted(self._store, self.actions.Y, self._returns, self._rng),
            "linear": self._linear,
        }
        self._members = {name: every[name] for name in MEMBERS if name in members}
        self._standings = {name: Standing() for name in self._members}
        self._runs: dict[int, Run] = {}
        self._episodes = 0
        self._recent: list[float] = []
        self._lows: list[float] = []
        self._lost_below = 0.0
        self._terminated = False

    # -- acting -----------------------------------------------------------------------------------------------------

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        if self._table is not None:
            return self._table._choose(flat, states)
        chosen = np.empty(len(flat), dtype=np.int64)
        for i in range(len(flat)):
            run = self._runs.get(i) or self._begin(i, flat[i])
            member = self._members[run.member] if self._model.ready else self._model
            chosen[i] = member.choose(i, flat[i])
        return chosen

    def _begin(self, environment: int, flat: FloatArray) -> Run:
        self._linear.started(flat)
        self._episodes += 1
        name = self._next_member(flat)
        self._standings[name].flying += 1
        self._members[name].begin(environment)
        self._runs[environment] = Run(name)
        return self._runs[environment]

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if self._table is not None:
            return self._table._q_values(flat, states)
        tried = [name for name, standing in self._standings.items() if standing.counted]
        if not self._model.ready:
            return None
        best = max(tried, key=self._worth) if tried else "model"
        values = self._members[best].values(flat)
        if best != "linear":
            return values
        # Its scores rank actions but are no returns: the model's values, with the highest at the linear choice.
        choice, rows = values.argmax(axis=1), np.arange(len(flat))
        values = self._model.values(flat)
        top = values.argmax(axis=1)
        values[rows, choice], values[rows, top] = values[rows, top], values[rows, choice]
        return values

    # -- who plays --------------------------------------------------------------------------------------------------

    @property
    def _barren(self) -> bool:
        """Nothing good was ever seen: no positive reward, no end of the task."""
        return not (self._returns.best_reward > 0 or self._terminated)

    @property
    def _all_alike(self) -> bool:
        """Every reward so far was the same."""
        best, worst = self._returns.best_reward, self._returns.worst_reward
        return best - worst <= 1e-9 * max(abs(best), abs(worst))

    @property
    def _dear(self) -> bool:
        """Every step costs clearly: doing nothing is no way out, so bad returns do tell something."""
        return self._returns.best_reward < -0.01 * abs(self._returns.worst_reward)

    def _next_member(self, flat: FloatArray) -> str:
        standings, k = self._standings, self._episodes
        if not self._model.ready or len(standings) == 1:
            return "model"
        if self._barren:
            rare = standings["model"].plays < k / 3 and not self._dear
            if self._all_alike or k < 4 or rare:
                return "model"
        if self._recent and max(self._recent) == min(self._recent) and not self._returns.best_reward > 0:
            return "model"  # all episodes alike: keep exploring
        fewest = {name: s.counted + s.flying for name, s in standings.items()}
        untried = [name for name, tries in fewest.items() if tries < (2 if name == "model" else 1)]
        if untried:
            return min(untried, key=lambda name: fewest[name])
        best, chosen = -np.inf, "model"
        for name, standing in standings.items():
            # A play counts by the share of today's data that its member knew then.
            tries = sum(standing.at) / self._store.steps + standing.flying
            worth = self._worth(name) + _BONUS / math.sqrt(1.0 + tries) + (_MODEL_PRIOR if name == "model" else 0.0)
            if self._store.steps > (1.0 + 2.0 ** min(standing.counted - 2, 50)) * standing.last:
                # Due again: the data have grown 1.5, 2, 3, 5, … times since its last try.
                if self._hopeless(name, flat):
                    standing.last = self._store.steps
                    continue
                worth += 10.0
            if worth > best:
                best, chosen = worth, name
        return chosen

    def _worth(self, name: str) -> float:
        """Discounted mean of a member's last returns, a quarter in ranks and the rest in units of the range of all."""
        everyone = np.sort(np.concatenate([self._recent, *(s.returns for s in self._standings.values())]))
        own = np.array(self._standings[name].returns)
        if not len(own):
            return 0.0  # its first episode is still under way
        slack = 1e-9 * np.abs(own)
        ranks = np.searchsorted(everyone, own - slack, "left") + np.searchsorted(everyone, own + slack, "right")
        low, high = everyone[len(everyone) // 10], everyone[-1]
        height = np.clip((own - low) / (high - low), -1.0, 1.0) if high > low else np.zeros(len(own))
        weights = _DECAY ** np.arange(len(own))[::-1]
        return float(weights @ (0.25 * ranks / (2 * len(everyone)) + 0.75 * height) / weights.sum())

    def _hopeless(self, name: str, flat: FloatArray) -> bool:
        """Even the model says that this member would do much worse than the best other one does."""
        others = [other for other, s in self._standings.items() if other != name and s.counted]
        laws = self._model.dynamics.laws
        if not others or not self._recent or laws is None:
            return False
        rival = max(others, key=self._worth)
        ordered = np.sort(self._recent)
        bar = np.mean(self._standings[rival].returns[-5:]) - 0.25 * (ordered[-1] - ordered[len(ordered) // 10])
        self._model.refit(values=name == "model")
        if name == "linear":
            if self._linear.best_record() is None:
                return False
            self._linear.search(flat)
            return bool((self._linear.best_record() or 0.0) < bar)
        if name == "fitted":
            self._members["fitted"].begin(-1)
        starts = np.concatenate([flat[None], self._linear.sample_starts(3)])
        laws = self._model.dynamics.laws
        assert laws is not None  # it was there before the refit
        promised = imagined_return(laws, self._members[name].values, starts, self._linear.horizon(200))
        return bool(promised < bar)

    # -- learning ---------------------------------------------------------------------------------------------------

    def _learn(self, batch: Batch) -> None:
        if self._table is not None:
            self._table._learn(batch)
            self._table.steps += len(batch)
            return
        for i in range(len(batch)):
            if i not in self._runs:
                self._begin(i, batch.flat[i])
        self._terminated |= bool(batch.terminated.any())
        playing = {self._runs[i].member for i in range(len(batch))}
        self._store.add(batch, self._rng)
        self._returns.follow(batch)
        for name, member in self._members.items():
            member.learn(batch, playing=name in playing)
        for i in range(len(batch)):
            run = self._runs[i]
            run.total += float(batch.rewards[i])
            run.low = min(run.low, run.total)
            run.length += 1
            if batch.terminated[i] or batch.truncated[i]:
                self._end(i, run, cut=bool(batch.truncated[i] and not batch.terminated[i]))
            elif self._is_lost(run):
                self._hand_over(i, run)

    def _is_lost(self, run: Run) -> bool:
        """Far below the low points of recent episodes: somebody else may still save it."""
        if run.handed or run.settled or len(self._members) == 1 or len(self._lows) < 4 or not self._model.ready:
            return False
        return run.total < self._lost_below

    def _hand_over(self, environment: int, run: Run) -> None:
        others = [name for name, s in self._standings.items() if name != run.member and s.counted]
        heir = max(others, key=self._worth, default=run.member)
        if heir == run.member or self._worth(heir) < self._worth(run.member) - _NO_WORSE:
            run.settled = True  # a bad day of the better member is still a better day
            return
        self._book(environment, run)
        run.member, run.handed = heir, True
        self._standings[run.member].flying += 1
        self._members[run.member].begin(environment)

    def _end(self, environment: int, run: Run, cut: bool) -> None:
        del self._runs[environment]
        self._linear.ended(run.length, cut)
        self._recent = [*self._recent, run.total][-_RECENT:]
        self._lows = [*self._lows, run.low][-16:]
        self._lost_below = _LOST * float(np.quantile(self._lows, 0.25))
        if run.handed:
            self._standings[run.member].flying -= 1
            self._members[run.member].finish(environment, None)
        else:
            self._book(environment, run)

    def _book(self, environment: int, run: Run) -> None:
        """Credit the return so far to the member that played; exploring while nothing good was seen does not count."""
        standing = self._standings[run.member]
        self._members[run.member].finish(environment, run.total)
        standing.flying -= 1
        standing.plays += 1
        if run.member == "model" and self._barren and not self._dear:
            return
        standing.counted += 1
        standing.at = [*standing.at, self._store.steps][-20:]
        standing.last = self._store.steps
        standing.returns = [*standing.returns, run.total][-10:]

    # -- logging and state ------------------------------------------------------------------------------------------

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        if self._table is not None:
            return self._table.statistics() | super().statistics()
        rows = {"stored": float(self._store.size), "episodes": float(self._episodes)}
        rows |= {f"plays_{name}": float(standing.plays) for name, standing in self._standings.items()}
        return super().statistics() | rows

    def _state(self) -> State:
        if self._table is not None:
            return prefixed("table", self._table.state_dict())
        names = list(self._members)
        state: State = {
            "recent": np.array(self._recent), "lows": np.array(self._lows),
            "counters": np.array([self._episodes, self._terminated], dtype=np.int64),
            "runs": np.array(
                [
                    [env, names.index(r.member), r.total, r.low, r.length, r.handed, r.settled]
                    for env, r in self._runs.items()
                ]
            ).reshape(-1, 7),
            "standings": np.array([[s.plays, s.counted, s.flying, s.last] for s in self._standings.values()]),
        }  # fmt: skip
        for name, standing in self._standings.items():
            state[f"at_{name}"] = np.array(standing.at, dtype=np.int64)
            state[f"returns_{name}"] = np.array(standing.returns, dtype=np.float64)
            state |= prefixed(name, self._members[name].state_dict())
        return state | prefixed("store", self._store.state_dict()) | prefixed("returns", self._returns.state_dict())

    def _load(self, state: State) -> None:
        if self._table is not None:
            self._table.load_state_dict(part("table", state))
            return
        twin = CommitteeExplorer(self._state_space, self.action_space, **self._options)
        twin._store.load_state_dict(part("store", state))
        twin._returns.load_state_dict(part("returns", state))
        names, standings, runs = list(self._members), state["standings"], state["runs"]
        if standings.shape != (len(names), 4) or runs.ndim != 2 or runs.shape[1] != 7:
            raise StateError("standings, runs: belong to another committee. Build it with the same members.")
        for k, name in enumerate(names):
            twin._members[name].load_state_dict(part(name, state))
            twin._members[name].use(self._rng)
            plays, counted, flying, last = (int(number) for number in standings[k])
            at, returns = state[f"at_{name}"].tolist(), state[f"returns_{name}"].tolist()
            twin._standings[name] = Standing(plays, counted, flying, last, at, returns)
        twin._runs = {
            int(r[0]): Run(names[int(r[1])], float(r[2]), float(r[3]), int(r[4]), bool(r[5]), bool(r[6])) for r in runs
        }
        twin._recent, twin._lows = state["recent"].tolist(), state["lows"].tolist()
        twin._lost_below = _LOST * float(np.quantile(twin._lows, 0.25)) if twin._lows else 0.0
        twin._episodes, twin._terminated = int(state["counters"][0]), bool(state["counters"][1])
        for name in ("_store", "_returns", "_model", "_linear", "_members", "_standings", "_runs", "_episodes",
                     "_recent", "_lows", "_lost_below", "_terminated"):  # fmt: skip
            setattr(self, name, getattr(twin, name))


def _combinations(flatten: Flattener) -> int:
    """How many different observations there are."""
    return math.prod(int(n) for n in flatten.high - flatten.low + 1)
