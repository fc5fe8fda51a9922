"""The member that completes Q through a learned model, curious where the model has seen little."""

from __future__ import annotations

from typing import Any

import numpy as np

from polaug.errors import StateError
from polaug.exploration.base import Batch, FloatArray
from polaug.exploration.dynamics import Dynamics, Laws, Sample
from polaug.exploration.geometry import bumps
from polaug.exploration.imagination import FOUND, LOST, SEARCHING, Hopes, imagine
from polaug.exploration.look_ahead import FEW, count_visit, hopeful_values, look_ahead_each, values_of
from polaug.exploration.member import Member
from polaug.exploration.promise import in_units, promised_by_visions, sketched
from polaug.exploration.proven import Proven, Visions, restored_visions, visions_state
from polaug.exploration.returns import Returns
from polaug.exploration.store import Store
from polaug.exploration.threads import one_thread
from polaug.exploration.trodden import Trodden
from polaug.state import State, captured, checked, part, prefixed, within

_FIRST, _GROWTH, _LONGEST = 25, 0.15, 500  # steps before the first fit; then this share of the steps so far, at most
_FADE = 4.0  # episodes after which half of the optimism beyond the best return is gone
_KEEP = 4  # Q̂ is the mean over the last visions: refits seldom err alike
_ACTING = 2  # of them are asked at every step, which must be fast
_IDLE, _ASTRAY = 200, 1000  # first steps of an episode that all paid the same: for so many only the search counts


class Imaginer(Member):
    """Dynamics, the visions solved on them, and when to refit."""

    _SAVED = ("_fit_at", "_stale", "_ended", "_held", "_left", "_toll", "_usual", "_alike", "_asked", "_lost_until",
              "_calm")  # fmt: skip

    def __init__(
        self, store: Store, Y: FloatArray, returns: Returns, rng: np.random.Generator, *, longest: int = _LONGEST
    ) -> None:
        self._store, self._returns, self._rng, self._longest = store, returns, rng, longest
        self._n_actions, self._gamma = len(Y), returns.gamma
        self.dynamics = Dynamics(store, Y, rng)
        self._visions: Visions = []  # newest first
        self._proven = Proven()
        self._trodden, self._toll = Trodden(store.states.shape[1]), 0.0
        self._fit_at = _FIRST
        self._stale = True  # whether the newest vision is older than the laws
        self._ended = 0  # episodes
        self._usual = np.zeros(0)  # the first reward of each environment's episode, while playing it,
        self._alike = np.zeros(0, dtype=np.int64)  # and how many steps paid just that; -1 once one did not
        self._asked = np.zeros(0, dtype=np.bool_)  # since the last step was seen
        self._lost_until, self._calm = 0, _ASTRAY  # only the search counts up to a step; and not for so many after it
        self._held = np.zeros(0, dtype=np.int64)  # actions held before the first fit,
        self._left = np.zeros(0, dtype=np.int64)  # and for how many more steps

    @property
    def ready(self) -> bool:
        """Whether a vision exists."""
        return bool(self._visions)

    def begin(self, environment: int) -> None:
        """Make the vision as new as the laws."""
        self._trodden.begin(environment)
        self._alike[environment : environment + 1] = 0
        if self.ready:
            self.refit(values=True)

    def finish(self, environment: int, total: float | None) -> None:
        """Judge the visions in use by what they achieved."""
        if total is not None and self.ready:
            self._proven.played(self._visions, total)
            self.falls_back(total)

    def falls_back(self, total: float) -> bool:
        """Whether a return so far is so bad that the proven visions have taken over from the newest."""
        if not self._proven.beats(self._visions, total):
            return False
        self._visions = self._proven.visions
        self._trodden.forget()
        return True

    def choose(self, environment: int, flat: FloatArray) -> int:
        """Greedy on the completed Q, novelty included; before the first fit, random actions held for a few steps."""
        if not self.ready:
            return self._wander(environment)
        self._ask(environment)
        q = self._hopeful(environment, flat)
        if self._toll > 0.0:
            self._trodden.tread(environment, self._place(flat), self._toll)
        top = float(q.max())
        best = (q >= top - 1e-9 * abs(top)).nonzero()[0]
        return int(best[0] if len(best) == 1 else self._rng.choice(best))

    def _ask(self, environment: int) -> None:
        more = environment + 1 - len(self._asked)
        if more > 0:
            self._usual, self._alike = np.append(self._usual, [0.0] * more), np.append(self._alike, [0] * more)
            self._asked = np.append(self._asked, [False] * more)
        self._asked[environment] = True

    def _wander(self, environment: int) -> int:
        if environment >= len(self._held):
            more = environment + 1 - len(self._held)
            self._held, self._left = np.append(self._held, [0] * more), np.append(self._left, [0] * more)
        if self._left[environment] <= 0:
            self._held[environment] = self._rng.integers(self._n_actions)
            self._left[environment] = self._rng.integers(1, 6)
        self._left[environment] -= 1
        return int(self._held[environment])

    def _place(self, flat: FloatArray) -> FloatArray:
        """A state in relevant units of the newest laws."""
        laws = self._visions[0][0]
        place: FloatArray = np.minimum(np.maximum((flat - laws.centre) * laws.inverse, -3.0), 3.0) * laws.relevance
        return place

    def _hopeful(self, environment: int, flat: FloatArray) -> FloatArray:
        """The completed Q (N,) of one state, drawn to the optimum as far as the next state is novel."""
        newest, older = self._visions[0], self._visions[:_ACTING][-1]
        both = len(self._visions) >= _ACTING
        trodden = self._trodden.of(environment)
        return hopeful_values(*newest, *older, both, flat, self._gamma, self._n_actions, *trodden)

    def values(self, flat: FloatArray) -> FloatArray:
        """The completed Q (n, N), mean over the last visions, without the optimism that only acting needs."""
        q = np.zeros((len(flat), self._n_actions))
        for laws, vision in self._visions:
            if len(flat) <= FEW:
                look_ahead_each(laws, vision, flat, self._gamma, q)
                continue
            z = np.clip((flat - laws.centre) * laws.inverse, -3.0, 3.0)
            q += values_of(laws, vision, z, self._gamma)
        q /= max(len(self._visions), 1)
        # Rewards are learnt: a value may exceed the best that can ever be had. All of its state then come down alike,
        # since their order is what matters.
        best = max(self._returns.best_reward, 0.0) / (1.0 - self._gamma)
        lowered: FloatArray = q - np.maximum(q.max(axis=1, keepdims=True) - best, 0.0)
        return lowered

    def promise(self, laws: Laws, starts: FloatArray, horizon: int) -> float:
        """As that of other members, in one compiled loop."""
        used = len(self._visions)
        sketches = [sketched(*vision) for vision in self._visions]
        sketches += sketches[:1] * (_KEEP - used)
        return promised_by_visions(laws, tuple(sketches), used, *in_units(laws, starts), self._gamma, horizon)

    def novelty(self, flat: FloatArray) -> FloatArray:
        """κ (n,) of the newest vision: 1 far from everything visited, towards 0 with visits."""
        laws, vision = self._visions[0]
        z = np.clip((flat - laws.centre) * laws.inverse, -3.0, 3.0)
        kernel = bumps(z * laws.relevance, vision.visited, vision.visited_length)
        variance = 1.0 + np.einsum("ij,ij->i", kernel @ vision.certainty, kernel)
        return np.asarray(np.clip(variance, 0.0, 1.0), dtype=np.float64)

    def learn(self, batch: Batch, playing: bool) -> None:
        """Take in a step; refit when due, the vision only while playing."""
        self.dynamics.observe(batch)
        self._ended += int(np.count_nonzero(batch.ended))
        if self.ready and playing:
            for state in batch.next_flat:
                count_visit(*self._visions[0], state)
            self._watch_for_idling(batch)
        if (playing or not self.ready) and self._store.steps >= self._fit_at:
            self.refit(values=True)

    def _watch_for_idling(self, batch: Batch) -> None:
        """Where effort costs and nothing good was ever seen, doing nothing is the best that is known: search on.

        Who has come from worse to better and stays there is not idle. Nor may the search go on for ever.
        """
        asked = self._asked[: len(batch)].nonzero()[0].tolist()
        self._asked[:] = False
        if self._found:
            return
        least = 1e-9 * max(abs(self._returns.best_reward), abs(self._returns.worst_reward))
        for env in asked:
            reward = float(batch.rewards[env])
            if self._alike[env] == 0:
                self._usual[env] = reward
            same = self._alike[env] >= 0 and abs(reward - self._usual[env]) <= least
            self._alike[env] = 0 if batch.ended[env] else self._alike[env] + 1 if same else -1
        rested = self._store.steps >= self._lost_until + (self._calm - _ASTRAY)
        if rested and self._at_stake and len(self._alike) and self._alike.max() >= _IDLE:
            self._lost_until, self._calm = self._store.steps + _ASTRAY, 2 * self._calm
            self._alike[:], self._stale = -1, True
            self.refit(values=True)

    @property
    def _found(self) -> bool:
        """Whether anything good was ever seen: an outstanding reward, or an end of the task."""
        laws = self.dynamics.laws
        return self._returns.rewarded or (laws is not None and laws.ends)

    @property
    def _lost(self) -> bool:
        """Whether there is nothing to do but search."""
        return not self._at_stake or (not self._found and self._store.steps < self._lost_until)

    @property
    def searching(self) -> bool:
        """Whether returns tell only what the search has cost: nothing good was seen yet, and not every step costs."""
        dear = self._returns.best_reward < -0.01 * abs(self._returns.worst_reward)
        return not (self._found or dear)

    @one_thread
    def refit(self, *, values: bool) -> None:
        """New laws if they are due, and with `values` a new vision if the laws are newer than it."""
        if self._store.steps >= self._fit_at or self.dynamics.laws is None:
            self._returns.look_ahead()
            self._returns.survey(self._store.rewards[: self._store.size])
            self.dynamics.fit(self._returns)
            self._stale = True
            self._fit_at = self._store.steps + int(min(max(_FIRST, _GROWTH * self._store.steps), self._longest))
        laws, sample = self.dynamics.laws, self.dynamics.sample
        if values and self._stale and laws is not None and sample is not None:
            before = self._visions[0] if self._visions else None
            style = FOUND if self._found else LOST if self._lost else SEARCHING
            vision = imagine(laws, sample, before, self._hopes(), style, self._gamma, self._n_actions, self._rng)
            self._visions = [(laws, vision), *self._visions][:_KEEP]
            self._proven.renewed()
            self._trodden.forget()
            self._toll = _toll(laws, sample)
            self._stale = False

    @property
    def _at_stake(self) -> bool:
        """Whether rewards have differed so far."""
        best, worst = self._returns.best_reward, self._returns.worst_reward
        return best - worst > 1e-9 * max(abs(best), abs(worst))

    def _hopes(self) -> Hopes:
        """The optimum fades towards the best return ever seen, unless there is nothing to do but search."""
        r = self._returns
        spread = r.high - r.low if r.high > r.low else 1.0  # nothing but zeros so far: any unit will do
        optimum = r.high + spread * (1.0 if self._lost else _FADE / (_FADE + self._ended))
        horizon = 1.0 / (1.0 - self._gamma)
        if r.best_reward > 0 and self._found:
            optimum = min(optimum, r.best_reward * horizon)
        low = max(min(r.low - 0.5 * spread, 0.0), min(r.worst_reward, 0.0) * horizon)
        return Hopes(low, optimum)

    def use(self, rng: np.random.Generator) -> None:
        """Draw from this generator from now on."""
        self._rng = rng
        self.dynamics.use(rng)

    def state_dict(self) -> State:
        """Dynamics, visions and the schedule."""
        state = captured(self, self._SAVED) | prefixed("dynamics", self.dynamics.state_dict())
        state |= visions_state(self._visions) | prefixed("proven", self._proven.state_dict(self._visions))
        return state | prefixed("trodden", self._trodden.state_dict())

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        values = checked(self, self._SAVED, state)
        within("_held", values["_held"], 0, self._n_actions - 1)
        _check_lengths(values)
        d, A, proven = len(self._store.low), self._n_actions, Proven()
        visions = restored_visions(state, d, A)
        proven.load_state_dict(part("proven", state), visions, d, A)
        trodden = Trodden(d)
        trodden.load_state_dict(part("trodden", state))
        self.dynamics.load_state_dict(part("dynamics", state))
        for name, value in values.items():
            setattr(self, name, value)
        self._visions, self._proven, self._trodden = visions, proven, trodden


def _check_lengths(values: dict[str, Any]) -> None:
    """Rows that grow together must have grown alike."""
    for rows in (("_usual", "_alike", "_asked"), ("_held", "_left")):
        if len({len(values[name]) for name in rows}) > 1:
            raise StateError(f"{', '.join(rows)}: must have the same length. The state is damaged.")


def _toll(laws: Laws, sample: Sample) -> float:
    """What a step costs where all do until the task is done; 0 where staying may be right."""
    paid = sample.rewards[~sample.terminated]
    worst = float(np.abs(sample.rewards).max())
    return -float(np.median(paid)) if laws.ends and len(paid) and paid.max() < -0.01 * worst else 0.0
