"""Who drives: for each episode of each environment the explorer or the agent, decided from their raw returns.

The agent is judged by exams: episodes that it drives without its exploration noise. A stochastic policy under training
is often far worse than what it has learnt, and would be taught for ever by a teacher it has long overtaken.

While the explorer is clearly better it drives most steps, fewer and fewer if it does not improve; otherwise the agent
drives, and the explorer gets trials, fewer and fewer if it keeps losing. The share is one of steps, not of
episodes, so that a bad explorer with long episodes cannot eat the budget. Nothing here knows a training library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.errors import StateError
from polaug.state import State

_WINDOW = 8  # recent episodes that speak for an actor
_HORIZON = 4_000  # steps over which the share is kept
_LEAD_SHARE, _LEAST_LEAD_SHARE = 0.75, 0.15
_FIRST_SHARE = 0.9  # before anybody leads
_LEAST_LESSON = 0.3
_EXAM_SHARE = 0.5
_EXAMS = 4  # that speak for the agent: a taught one changes fast
_IMPROVEMENT_PERIOD = 3_000  # a leading explorer that has not improved for so long drives half as much
_LEAST_TRIALS = 0.01


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode of one environment."""

    environment: int
    total: float
    length: int
    by_explorer: bool
    exam: bool


class _Record:
    """The last returns of one actor."""

    def __init__(self, window: int = _WINDOW) -> None:
        self.returns, self._window = np.zeros(0), window

    def add(self, total: float) -> None:
        self.returns = np.append(self.returns, total)[-self._window :]

    @property
    def mean(self) -> float:
        return float(self.returns.mean()) if len(self.returns) else float("nan")


class Handover:
    """Keeps who drives the episodes under way: `drivers` (n,) is True for the explorer, `exams` (n,) for exams."""

    def __init__(
        self, settings: Augmentation, *, steers: bool, automatic: bool, tau_e: int | None, warm_up: int
    ) -> None:
        self._settings, self._steers, self._automatic = settings, steers, automatic
        self._tau_e, self._warm_up = tau_e, warm_up
        self.drivers: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.exams: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.steps = self.explorer_steps = 0
        self._totals, self._lengths = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._explorer, self._agent, self._exams = _Record(), _Record(), _Record(_EXAMS)
        self._range = np.array([np.inf, -np.inf])  # of all returns
        self._recent = np.zeros(3)  # discounted steps: the explorer's, exams, all
        self._best, self._since_best = -np.inf, 0  # of the explorer's mean
        self._without_lead, self._lost = 0, 0
        self._led = False
        self._form = -np.inf  # the best mean of three episodes of the explorer, slowly forgotten

    # -- episodes ---------------------------------------------------------------------------------------------------

    def begin(self, n: int) -> None:
        """All of n environments start an episode."""
        self._totals, self._lengths = np.zeros(n), np.zeros(n, np.int64)
        self.drivers, self.exams = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        ahead = self._recent
        for env in range(n):  # as if each had driven a step already, so that the first episodes are spread
            self._assign(env)
            self._recent = self._recent + np.array([self.drivers[env], self.exams[env], 1.0])
        self._recent = ahead

    def step(self, rewards: NDArray[np.floating], ended: NDArray[np.bool_]) -> list[Episode]:
        """Count one step of each environment; gives the episodes that ended; the next have drivers."""
        n = len(self.drivers)
        driven = int(self.drivers.sum())
        self.steps += n
        self.explorer_steps += driven
        self._recent = self._recent * (1.0 - min(1.0, n / _HORIZON)) + (driven, int(self.exams.sum()), n)
        self._since_best += n
        self._without_lead += driven
        self._totals += rewards
        self._lengths += 1
        if not ended.any():
            return []
        episodes = []
        for env in np.flatnonzero(ended).tolist():
            episode = Episode(env, float(self._totals[env]), int(self._lengths[env]),
                              bool(self.drivers[env]), bool(self.exams[env]))  # fmt: skip
            episodes.append(episode)
            self._enter(episode)
            self._totals[env], self._lengths[env] = 0.0, 0
            self._assign(env)
        return episodes

    def _enter(self, episode: Episode) -> None:
        record = self._explorer if episode.by_explorer else self._exams if episode.exam else self._agent
        record.add(episode.total)
        self._range = np.array([min(self._range[0], episode.total), max(self._range[1], episode.total)])
        if self.explorer_leads:
            self._without_lead, self._lost, self._led = 0, 0, True
        elif episode.by_explorer and self._without_lead >= self._settings.patience:
            self._lost += 1
        if episode.by_explorer:
            self._form = max(self._form - 0.02 * self._scale, float(self._explorer.returns[-3:].mean()))
        if episode.by_explorer and self._explorer.mean > self._best + 0.02 * self._scale:
            self._best, self._since_best = self._explorer.mean, 0

    def _assign(self, env: int) -> None:
        """Give the next episode to whoever is behind its share of recent steps."""
        explorer, exams, total = self._recent
        share = self.share
        self.drivers[env] = share >= 1.0 or (share > 0.0 and (explorer < share * total or total == 0.0))
        self.exams[env] = not self.drivers[env] and share < 1.0 and exams < self._exam_share * (total - explorer + 1.0)

    @property
    def _exam_share(self) -> float:
        """Share of the agent's steps that are exams: of no use to an on-policy loss, but they tell."""
        if not self._steers or not self._automatic or self._tau_e is not None:
            return 0.0
        if not self.agent_leads and not self.retired:
            return _EXAM_SHARE
        # An agent that seems to have fallen behind again is looked at more closely.
        behind = self._ahead(self._explorer.returns, self._agent.returns, 0.02)
        return 2.0 * self._settings.trial_share if behind or not self.retired else _LEAST_TRIALS

    # -- comparison -------------------------------------------------------------------------------------------------

    @property
    def _scale(self) -> float:
        return float(self._range[1] - self._range[0]) if np.isfinite(self._range).all() else 0.0

    @property
    def explorer_return(self) -> float:
        """Mean return of the explorer's last episodes."""
        return self._explorer.mean

    @property
    def agent_return(self) -> float:
        """Mean return of the agent's last episodes with its exploration noise."""
        return self._agent.mean

    @property
    def exam_return(self) -> float:
        """Mean return of the agent's last episodes without it."""
        return self._exams.mean

    @property
    def _level(self) -> NDArray[np.float64]:
        """Returns that speak for the agent; one or two exams alone may have been luck."""
        exams = self._exams.returns
        return exams if len(exams) >= 3 else np.concatenate([exams, self._agent.returns[-3:]])

    def _ahead(self, first: NDArray[np.float64], second: NDArray[np.float64], margin: float) -> bool:
        if len(first) < 2 or not len(second):
            return False
        error = np.sqrt(first.var() / len(first) + second.var() / len(second))
        return bool(first.mean() - second.mean() > max(error, margin * self._scale, 1e-12))

    @property
    def explorer_leads(self) -> bool:
        """The explorer's recent episodes were clearly better than the agent's exams."""
        return self._ahead(self._explorer.returns, self._level, 0.02)

    @property
    def agent_leads(self) -> bool:
        """The other way round, by a larger margin: the lessons end there."""
        return self._ahead(self._level, self._explorer.returns, 0.05)

    @property
    def in_form(self) -> bool:
        """Q̂ wavers, and bad phases are not worth teaching: its last episodes were near its best, or above the agent."""
        last = self._explorer.returns[-3:]
        if not len(last):
            return False
        above = len(self._level) > 0 and last.mean() > self._level.mean() + 0.02 * self._scale
        return bool(above or last.mean() > self._form - 0.1 * self._scale)

    @property
    def _fading(self) -> float:
        """1 while the explorer improves, and less and less from then on."""
        return float(0.5 ** (self._since_best / _IMPROVEMENT_PERIOD)) if self._led else 1.0

    @property
    def share(self) -> float:
        """Share of steps that the explorer should drive now."""
        if not self._steers:
            return 0.0
        if not self._automatic or self._tau_e is not None:
            return 1.0 if self.steps < (self._tau_e or 0) else 0.0
        if self.steps < self._warm_up:
            return 1.0
        if self.explorer_leads:
            return max(_LEAST_LEAD_SHARE, _LEAD_SHARE * self._fading)
        if self._without_lead < self._settings.patience:
            wanted = 0.5 if self.agent_leads else _LEAD_SHARE if self._led else _FIRST_SHARE
            return max(wanted * self._fading, self._settings.trial_share)
        return max(_LEAST_TRIALS, self._settings.trial_share * 0.5**self._lost)

    @property
    def teaching(self) -> float:
        """Weight of the lessons, 0 to 1. A teacher that no longer improves is followed more slowly: its wavering
        averages out, and an agent as good as its teacher gets room to overtake it.
        """
        if self._tau_e is not None:
            return float(self.steps < self._tau_e)
        if not self.in_form:
            return 0.0
        if self.explorer_leads:
            return max(_LEAST_LESSON, self._fading)
        settled = self.agent_leads or self._without_lead >= self._settings.patience or not self._led
        return 0.0 if settled or self._fading < 0.05 else self._fading

    @property
    def retired(self) -> bool:
        """The explorer's learning is no longer worth its time: it keeps losing, or has long ceased to improve and
        leads no more. Trials, or an agent that falls behind, bring it back.
        """
        if not self._automatic or self._tau_e is not None:
            return False
        return self._lost >= 3 or (self._fading < 0.25 and not self.explorer_leads)

    # -- state ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything but the episodes under way: environments restart."""
        return {
            "explorer": self._explorer.returns.copy(), "agent": self._agent.returns.copy(),
            "exam_returns": self._exams.returns.copy(),
            "range": self._range.copy(),
            "recent": self._recent.copy(), "best": np.array([self._best, self._form]),
            "counters": np.array(
                [self.steps, self.explorer_steps, self._since_best, self._without_lead, self._lost, self._led],
                dtype=np.int64,
            ),
            "drivers": self.drivers.copy(), "exams": self.exams.copy(),
            "totals": self._totals.copy(), "lengths": self._lengths.copy(),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        counters = [int(c) for c in state["counters"]]
        if len(counters) != 6 or state["range"].shape != (2,) or state["recent"].shape != (3,):
            raise StateError("handover: wrong shapes. The state is damaged.")
        for record, name in ((self._explorer, "explorer"), (self._agent, "agent"), (self._exams, "exam_returns")):
            record.returns = state[name].copy()
        self._range, self._recent, self._best = state["range"].copy(), state["recent"].copy(), float(state["best"][0])
        self._form = float(state["best"][1])
        self.steps, self.explorer_steps, self._since_best, self._without_lead, self._lost = counters[:5]
        self._led = bool(counters[5])
        self.drivers, self.exams = state["drivers"].astype(np.bool_), state["exams"].astype(np.bool_)
        self._totals, self._lengths = state["totals"].astype(float), state["lengths"].astype(np.int64)
