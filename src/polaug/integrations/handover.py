"""Who drives: for each episode of each environment the explorer or the agent, decided from their raw returns.

The agent is judged by exams: episodes that it drives without its exploration noise. A stochastic policy under training
is often far worse than what it has learnt, and would be taught for ever by a teacher it has long overtaken.

Who should have how much is decided in `shares`. The share is one of steps, not of episodes, so that a bad explorer
with long episodes cannot eat the budget. Nothing here knows a training library.

Some episodes never end. After 1,000 steps without an end the spell so far is judged as if it were an episode, and the
wheel goes to whoever is due. Once a time limit is seen to be somewhat longer, episodes are judged whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.integrations.shares import EXAM_SHARE, Shares
from polaug.integrations.standing import EXAMS, Episode
from polaug.state import State

_HORIZON = 4_000  # steps over which the share is kept
_UNSEEN, _MOST_EXAMS = 500, 0.25  # steps without an exam; share of all steps
_PROGRESS = 0.05  # of the range of returns: an explorer that improves by it is waited for
_SPELL, _LONGEST_SPELL = 1_000, 5_000  # steps without an end that count as an episode; and under a longer time limit
_OVER = 2_000  # steps without lessons after which these are over


class Handover(Shares):
    """Keeps who drives the episodes under way: `drivers` (n,) is True for the explorer, `exams` (n,) for exams."""

    def __init__(self, settings: Augmentation, **who: Any) -> None:
        super().__init__(settings, **who)
        self.drivers: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.exams: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._totals, self._lengths = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._earlier = np.zeros(0, dtype=np.int64)  # steps of the episodes under way in earlier spells
        self._eras = np.zeros(0, dtype=np.int64)  # how often the agent had been brought back when they began
        self._spell = _SPELL
        self._usual = np.nan  # the first reward
        self._recent = (0.0, 0.0, 0.0)  # discounted steps: the explorer's, exams, all
        self._driven = self._examined = 0  # environments that the explorer drives, and those with an exam
        self._hope = -np.inf  # its mean when it last earned patience
        self._since_exam = 0

    # -- episodes ---------------------------------------------------------------------------------------------------

    def begin(self, n: int) -> None:
        """All of n environments start an episode."""
        self._totals, self._lengths, self._earlier = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.drivers, self.exams = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._eras = np.full(n, self._era)
        ahead = self._recent
        for env in range(n):  # as if each had driven a step already, so that the first episodes are spread
            self._assign(env)
            explorer, exams, total = self._recent
            self._recent = (explorer + self.drivers[env], exams + self.exams[env], total + 1.0)
        self._recent = ahead
        self._count()

    def _count(self) -> None:
        self._driven, self._examined = int(self.drivers.sum()), int(self.exams.sum())

    def step(
        self, rewards: NDArray[np.floating], ended: NDArray[np.bool_], truncated: NDArray[np.bool_] | None = None
    ) -> list[Episode]:
        """Count one step of each environment; gives the episodes and spells that ended; the next have drivers.

        `truncated` says which of the `ended` a time limit has stopped.
        """
        n, kept = len(self.drivers), 1.0 - min(1.0, len(self.drivers) / _HORIZON)
        self.steps += n
        self.explorer_steps += self._driven
        explorer, exams, total = self._recent
        self._recent = (explorer * kept + self._driven, exams * kept + self._examined, total * kept + n)
        self._since_best += n
        self._since_exam = 0 if self._examined else self._since_exam + n
        self._without_lead += self._driven
        self._totals += rewards
        self._lengths += 1
        if self._uneventful:
            self._usual = float(rewards[0]) if np.isnan(self._usual) else self._usual
            self._uneventful = bool((rewards == self._usual).all())
        over = (ended | (self._lengths >= self._spell)).nonzero()[0].tolist()
        if not over:
            return []
        episodes = []
        for env in over:
            present = bool(self._eras[env] == self._era)  # else half of it was driven by parameters that are gone
            episode = Episode(env, float(self._totals[env]), int(self._lengths[env]),
                              bool(self.drivers[env]), bool(self.exams[env]) and present)  # fmt: skip
            episodes.append(episode)
            if not (self._earlier[env] and ended[env]):
                if present or episode.by_explorer:
                    self._enter(episode)
            elif truncated is not None and truncated[env]:  # else what was left of it says nothing
                self._learn_limit(int(self._earlier[env]) + episode.length)
            self._earlier[env] = 0 if ended[env] else self._earlier[env] + episode.length
            self._totals[env], self._lengths[env] = 0.0, 0
            self._assign(env)
        self._count()
        return episodes

    def _learn_limit(self, length: int) -> None:
        """A time limit is longer than a spell: judge whole episodes from now on, and forget returns of parts."""
        if not self._spell < length <= _LONGEST_SPELL:
            return
        self._spell, self._hope, self._led = length, -np.inf, False
        self._clear()
        self._first, self._assured, self._peak = np.zeros(1), np.inf, np.inf  # too late to see how the explorer began
        if self._champion is not None:
            self._champion.abdicate()

    def _enter(self, episode: Episode) -> None:
        self._record(episode)
        if (
            episode.exam
            and self._champion is not None
            and self._champion.enter(episode.total, self.steps, self.scale, self.agent_return)
        ):
            self._exams.returns = self._champion.exams[-EXAMS:]
            self._falls, self._fell_at = self._falls + 1, self.steps
            if self._champion.falls_back:
                self._let_go()
        if self._champion is not None and self._champion.may_regret and self._knows_novice:
            self._champion.regret(worth_it=self._worth_keeping)
            if not self._champion.untaught:
                self._forget_agent()
        self._tries += episode.by_explorer
        if self.explorer_leads:
            self._without_lead, self._tries, self._lost, self._led = 0, 0, 0, True
        elif episode.by_explorer and not self._patient:
            self._lost += 1
        if episode.by_explorer and self._explorer.mean > self._best + 0.02 * self.scale:
            self._best, self._since_best = self._explorer.mean, 0
        if episode.by_explorer and self._explorer.mean > self._hope + _PROGRESS * self.scale:
            self._hope = self._explorer.mean
            if not self.agent_leads:  # it may yet overtake the agent
                self._without_lead = self._tries = self._lost = 0

    def let_go(self, taught_at: int) -> None:
        """Let an agent go whose last lesson, at the step `taught_at`, was long ago."""
        over = self.steps - taught_at > _OVER and len(self._exams.returns) >= EXAMS
        if self._champion is not None and over and self._champion.taught and self._automatic:
            self._let_go()

    def _let_go(self) -> None:
        """Unless its teacher has learnt something, or the agent is far above it, near the best ever seen or far better
        than one that knows nothing; or one that knows nothing would learn nothing.
        """
        assert self._champion is not None  # whoever calls has asked it
        if self.explorer_leads or self.explorer_learnt or self._grown_up or self._at_the_top or self._worth_keeping:
            return
        if self._eventless or not self._champion.can_let_go:
            return
        self._champion.let_go()
        if self._champion.drifts:
            self._start_anew()

    def _assign(self, env: int) -> None:
        """Give the next episode to whoever is behind its share of recent steps."""
        self._eras[env], self.exams[env] = self._era, False
        explorer, exams, total = self._recent
        share = self.share
        # While lessons change the agent somebody must see what becomes of it, even if the explorer has to catch up.
        unseen = self._since_exam >= _UNSEEN and exams < _MOST_EXAMS * total and share < 1.0 and self.teaching > 0.0
        alarmed = self._champion is not None and self._champion.alarmed(self.scale) and share < 1.0
        alarmed &= not self.exams.any()
        if (unseen or alarmed) and self._exam_share:
            self.drivers[env], self.exams[env], self._since_exam = False, True, 0
            return
        self.drivers[env] = share >= 1.0 or (share > 0.0 and (explorer < share * total or total == 0.0))
        wanted = self._exam_share
        looked_after = not (self._grown_up or self.retired or self._silent)
        if wanted and self._champion is not None and self._champion.on_trial and looked_after:
            wanted = EXAM_SHARE
        self.exams[env] = not self.drivers[env] and share < 1.0 and exams < wanted * (total - explorer + 1.0)

    @property
    def _era(self) -> int:
        return 0 if self._champion is None else self._champion.returns_to_it

    # -- state ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything, the episodes under way too: a run that goes on in mid-episode does so exactly."""
        return self._standing_state() | {
            "recent": np.array(self._recent), "hope": np.array(self._hope),
            "counters": np.array(
                [self.steps, self.explorer_steps, self._since_best, self._without_lead, self._lost, self._led,
                 self._falls, self._fell_at, self._since_exam, self._tries, self._experienced],
                dtype=np.int64,
            ),
            "drivers": self.drivers.copy(), "exams": self.exams.copy(),
            "totals": self._totals.copy(), "lengths": self._lengths.copy(),
            "earlier": self._earlier.copy(), "eras": self._eras.copy(), "spell": np.array(self._spell),
            "usual": np.array([self._usual, self._uneventful]),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        counters = [int(c) for c in state["counters"]]
        if len(counters) != 11 or state["recent"].shape != (3,):
            raise StateError("handover: wrong shapes. The state is damaged.")
        self._load_standing(state)
        explorer, exams, total = (float(number) for number in state["recent"])
        self._recent = (explorer, exams, total)
        self._hope = float(state["hope"])
        self._usual, self._uneventful = float(state["usual"][0]), bool(state["usual"][1])
        self.steps, self.explorer_steps, self._since_best, self._without_lead, self._lost = counters[:5]
        self._led = bool(counters[5])
        self._falls, self._fell_at, self._since_exam, self._tries = counters[6:10]
        self._experienced = bool(counters[10])
        self.drivers, self.exams = state["drivers"].astype(np.bool_), state["exams"].astype(np.bool_)
        self._totals, self._lengths = state["totals"].astype(float), state["lengths"].astype(np.int64)
        self._spell, self._earlier = int(state["spell"]), state["earlier"].astype(np.int64)
        self._eras = state["eras"].astype(np.int64)
        self._count()
