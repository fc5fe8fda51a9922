"""Who of the committee plays the next episode: standings, and what they are worth.

The best recent returns plus a bonus for few tries decide. A loser is tried again whenever the data have grown enough,
ever more rarely, and only if the model does not call it hopeless.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from polaug.errors import StateError
from polaug.exploration.base import Batch, FloatArray
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.linear import Linear
from polaug.exploration.member import Member
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.state import State

_DECAY = 0.8  # how much less an older return of a member counts
_BONUS = 0.3  # for few tries, in units where returns span 0 to 1
_MODEL_PRIOR = 0.1  # the model member keeps exploring: it gets the benefit of the doubt
_RECENT = 40  # episodes that make the scale
_JUDGED, _SURELY = 5, 3  # returns by which a search is compared with others, and the fewest of theirs
_FAILING = 12  # episodes in a row of ours of which
_MOSTLY = 0.6  # so many were as bad as any: whoever waits in reserve is called
_AGAIN = 3  # times that the best return of all came back, to the last digit
_SOON, _FAR = 1.3, 0.15  # growth of the data after which all are tried again; of the range below the best return
_NO_WORSE = 0.15  # how much less worth a member may be that is handed a lost episode


@dataclass(slots=True)
class Standing:
    """What a member has achieved."""

    plays: int = 0
    counted: int = 0  # plays that tell something about its worth
    flying: int = 0  # episodes under way
    last: int = 0  # step at which it last finished one
    at: list[int] = field(default_factory=list)  # steps at which its last plays ended
    returns: list[float] = field(default_factory=list)
    searched: list[float] = field(default_factory=list)  # returns that told only what a search has cost


class Contest:
    """The standings of all members; `members`, the model and the linear one are only asked, never kept in a state."""

    def __init__(
        self, members: Mapping[str, Member], model: Imaginer, linear: Linear, store: Store, returns: Returns
    ) -> None:
        self._members, self._model, self._linear, self._store, self._returns = members, model, linear, store, returns
        self.standings = {name: Standing() for name in members}
        self.episodes = 0
        self._recent: list[float] = []
        self._terminated = False
        self._best = -np.inf  # return of all
        self._own: list[float] = []  # returns of our last episodes, whoever of us played
        self._called = "cells" not in members  # whether all members take part

    # -- what happened ----------------------------------------------------------------------------------------------

    def follow(self, batch: Batch) -> None:
        """Note whether an episode ever terminated."""
        self._terminated = self._terminated or bool(batch.terminated.any())

    def ended(self, total: float, own: bool) -> None:
        """An episode ended with this return; `own`: one of the members drove most of it."""
        self._recent, self._best = [*self._recent, total][-_RECENT:], max(self._best, total)
        if own:
            self._own = [*self._own, total][-_FAILING:]
            self._called |= self._failing

    def forget(self) -> None:
        """Returns so far were of spells, and episodes turn out to end soon enough: the two do not compare."""
        self._recent, self._own, self._best = [], [], -np.inf
        for standing in self.standings.values():
            standing.counted = standing.last = 0
            standing.at, standing.returns, standing.searched = [], [], []

    def book(self, name: str, total: float) -> None:
        """Credit a return to the member that played; exploring while nothing good was seen does not count."""
        standing = self.standings[name]
        standing.flying -= 1
        standing.plays += 1
        if name == "model" and self.exploring:
            standing.searched = [*standing.searched, total][-_JUDGED:]
            return
        standing.counted += 1
        standing.at = [*standing.at, self._store.steps][-20:]
        standing.last = self._store.steps
        standing.returns = [*standing.returns, total][-10:]

    @property
    def range(self) -> float:
        """Of recent returns."""
        return max(self._recent) - min(self._recent) if self._recent else 0.0

    # -- who is best ------------------------------------------------------------------------------------------------

    def best(self, names: Iterable[str] | None = None) -> str | None:
        """The member of most worth among those that count; None if none does."""
        tried = [name for name in (names or self.standings) if self.standings[name].counted]
        return max(tried, key=self.worth, default=None)

    def teacher(self) -> str:
        """Whose values are to be believed: the best member's, but the model's while only its search plays; others that
        were tried once or twice may have been lucky.
        """
        best, searched = self.best(), self.standings["model"].searched
        if best is None:
            return "model"
        found = self.standings[best].returns[-_JUDGED:]
        surely = not searched or (len(found) >= _SURELY and np.mean(found) > np.mean(searched))
        return best if surely or not self.exploring else "model"

    def heir(self, name: str) -> str | None:
        """Who may be handed an episode that this member is losing; None if a bad day of it is still a better day."""
        heir = self.best(other for other in self.standings if other != name)
        if heir is None or self.worth(heir) < self.worth(name) - _NO_WORSE:
            return None
        return heir

    # -- who plays --------------------------------------------------------------------------------------------------

    @property
    def _failing(self) -> bool:
        """Most of our last episodes were as bad as any, and nothing good was ever seen, or better ones were."""
        if len(self._own) < _FAILING:
            return False
        worst = min([*self._own, *self._recent])
        near = worst + 1e-9 * abs(worst)
        return bool((np.array(self._own) <= near).mean() >= _MOSTLY) and (self._barren or self._best > near)

    @property
    def _unsettled(self) -> bool:
        """Even the best member is far from the best return of late: somebody else may do better by now."""
        best = self.best()
        if best is None:
            return False
        return bool(max(self._recent) - np.mean(self.standings[best].returns[-_JUDGED:]) > _FAR * self.range)

    @property
    def _barren(self) -> bool:
        """Nothing good was ever seen: no outstanding reward, no end of the task."""
        return not (self._returns.rewarded or self._terminated)

    @property
    def _all_alike(self) -> bool:
        """Every reward so far was the same."""
        best, worst = self._returns.best_reward, self._returns.worst_reward
        return best - worst <= 1e-9 * max(abs(best), abs(worst))

    @property
    def _dear(self) -> bool:
        """Every step costs clearly: doing nothing is no way out, so bad returns do tell something."""
        return self._returns.best_reward < -0.01 * abs(self._returns.worst_reward)

    @property
    def _stalled(self) -> bool:
        """Several of the last episodes had the best return of all, to the last digit: nothing happened in them."""
        return sum(total >= self._best - 1e-9 * abs(self._best) for total in self._recent) >= _AGAIN

    @property
    def exploring(self) -> bool:
        """Nothing good was seen yet, and returns tell only what the search has cost."""
        return self._barren and not self._dear

    def next_member(self, flat: FloatArray) -> str:
        """The member that plays the episode which starts at `flat` (d,)."""
        self.episodes += 1
        standings, k = self.standings, self.episodes
        if not self._called:
            standings = {name: standing for name, standing in standings.items() if name != "cells"}
        if not self._model.ready or len(standings) == 1:
            return "model"
        if "cells" in standings and self._failing and k % 2:
            return "cells"
        if self._barren:
            rare = standings["model"].plays < (k / 2 if self._dear else k / 3) and (not self._dear or self._stalled)
            if self._all_alike or k < 4 or rare:
                return "model"
        if self._recent and max(self._recent) == min(self._recent) and not self._returns.rewarded:
            return "model"  # all episodes alike: keep exploring
        fewest = {name: s.counted + s.flying for name, s in standings.items()}
        untried = [name for name, tries in fewest.items() if tries < (2 if name == "model" else 1)]
        if untried:
            return min(untried, key=lambda name: fewest[name])
        best, chosen, unsettled = -np.inf, "model", self._unsettled
        for name, standing in standings.items():
            # A play counts by the share of today's data that its member knew then.
            tries = sum(standing.at) / self._store.steps + standing.flying
            worth = self.worth(name) + _BONUS / math.sqrt(1.0 + tries) + (_MODEL_PRIOR if name == "model" else 0.0)
            growth = 1.0 + 2.0 ** min(standing.counted - 2, 50)
            due = self._store.steps > (min(growth, _SOON) if unsettled else growth) * standing.last
            if due and not standing.flying:
                # Due again: the data have grown 1.5, 2, 3, 5, … times since its last try, or not even that much.
                if self._hopeless(name, flat):
                    standing.last = self._store.steps
                    continue
                worth += 10.0
            if worth > best:
                best, chosen = worth, name
        return chosen

    def worth(self, name: str) -> float:
        """Discounted mean of a member's last returns, a quarter in ranks and the rest in units of the range of all."""
        everyone = np.sort(np.concatenate([self._recent, *(s.returns for s in self.standings.values())]))
        own = np.array(self.standings[name].returns)
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
        others = [other for other, s in self.standings.items() if other != name and s.counted]
        laws = self._model.dynamics.laws
        if not others or not self._recent or laws is None:
            return False
        rival = max(others, key=self.worth)
        ordered = np.sort(self._recent)
        bar = np.mean(self.standings[rival].returns[-5:]) - 0.25 * (ordered[-1] - ordered[len(ordered) // 10])
        self._model.refit(values=name == "model")
        if name == "linear":
            if self._linear.best_record() is None:
                return False
            self._linear.search(flat)
            return bool((self._linear.best_record() or 0.0) < bar)
        if name == "cells":
            return False  # what it knows about walls, the model does not
        if name == "fitted":
            self._members["fitted"].begin(-1)
        starts = np.concatenate([flat[None], self._linear.sample_starts(3)])
        laws = self._model.dynamics.laws
        assert laws is not None  # it was there before the refit
        return bool(self._members[name].promise(laws, starts, self._linear.horizon(200)) < bar)

    # -- state ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Standings, recent returns and counters."""
        state: State = {
            "recent": np.array(self._recent),
            "counters": np.array([self.episodes, self._terminated, self._called], dtype=np.int64),
            "own": np.array(self._own, dtype=np.float64),
            "best": np.array(self._best),
            "standings": np.array([[s.plays, s.counted, s.flying, s.last] for s in self.standings.values()]),
        }
        for name, standing in self.standings.items():
            state[f"at_{name}"] = np.array(standing.at, dtype=np.int64)
            state[f"returns_{name}"] = np.array(standing.returns, dtype=np.float64)
            state[f"searched_{name}"] = np.array(standing.searched, dtype=np.float64)
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        rows = state["standings"]
        if rows.shape != (len(self._members), 4):
            raise StateError("standings: belong to another committee. Build it with the same members.")
        standings = {}
        for row, name in zip(rows, self._members, strict=True):
            plays, counted, flying, last = (int(number) for number in row)
            lists = (state[f"{what}_{name}"].tolist() for what in ("at", "returns", "searched"))
            standings[name] = Standing(plays, counted, flying, last, *lists)
        episodes, terminated, called = (int(number) for number in state["counters"])
        self.standings, self._recent = standings, state["recent"].tolist()
        self.episodes, self._terminated = episodes, bool(terminated)
        self._own, self._best, self._called = state["own"].tolist(), float(state["best"]), bool(called)
