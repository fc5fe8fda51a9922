"""Who is better, the explorer or the agent: their last raw returns, and what these say clearly enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import State

EXAMS = 8  # that speak for the agent
_LATEST = 4  # of them say whether it has fallen behind: a taught one changes fast
_SURE = 6  # are needed to say that it leads: exams that end with a lucky streak flatter
_WINDOW = 8  # recent episodes that speak for an actor
_FAR, _NEAR = 0.2, 0.1  # of the range of returns
_FIRST = 3  # episodes that show how the explorer began, or an agent that knows nothing
_SAFELY = 3.5  # standard deviations by which a whole window must lie above them
_ON_THE_WAY = 0.6  # of the way from them to the best return ever seen
_ENOUGH = 4  # episodes that prove a level
_WORTH = 0.25  # of the range of all returns above those of an agent that knows nothing
_OPENING, _AGAIN = 12, 3  # episodes, and how often the worst return of all came among them, to the last digit
_TOP = 0.05  # of the range of all returns: nobody was better


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished episode of one environment, or a spell of one that does not end."""

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


class Standing:
    """The returns of both actors; the agent's count without its noise, in exams, where there are some."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._explorer, self._agent, self._exams = _Record(), _Record(), _Record(EXAMS)
        self._range = np.array([np.inf, -np.inf])  # of all returns
        self._opening = np.zeros(0)  # the first of them
        self._form = -np.inf  # the best mean of three episodes of the explorer, slowly forgotten
        self._first = np.zeros(0)  # returns of its first episodes
        self._novice = np.zeros(0)  # returns of the agent's first noisy episodes
        self._before = -np.inf  # the agent's level when it was let go
        self._best = -np.inf  # its best mean
        self._peak = -np.inf  # its best mean of a whole window
        self._assured = -np.inf  # the most that hardly an episode of a whole window can have been below

    def _record(self, episode: Episode) -> None:
        record = self._explorer if episode.by_explorer else self._exams if episode.exam else self._agent
        record.add(episode.total)
        self._opening = np.append(self._opening, episode.total)[:_OPENING]
        self._range = np.array([min(self._range[0], episode.total), max(self._range[1], episode.total)])
        if not (episode.by_explorer or episode.exam):
            self._novice = np.append(self._novice, episode.total)[:_FIRST]
        if episode.by_explorer:
            self._first = np.append(self._first, episode.total)[:_FIRST]
            last = self._explorer.returns
            if len(last) == _WINDOW:
                self._peak = max(self._peak, float(last.mean()))
                self._assured = max(self._assured, float(last.mean() - _SAFELY * last.std()))
            self._form = max(self._form - 0.02 * self.scale, float(self._explorer.returns[-3:].mean()))

    @property
    def scale(self) -> float:
        """Width of the range of all returns."""
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
        exams = self._exams.returns[-_LATEST:]
        return exams if len(exams) >= 3 else np.concatenate([exams, self._agent.returns[-3:]])

    def _ahead(
        self, first: NDArray[np.float64], second: NDArray[np.float64], margin: float, errors: float = 1.0
    ) -> bool:
        if len(first) < 2 or not len(second):
            return False
        error = np.sqrt(first.var() / len(first) + second.var() / len(second))
        return bool(first.mean() - second.mean() > max(errors * error, margin * self.scale, 1e-12))

    @property
    def explorer_leads(self) -> bool:
        """The explorer's recent episodes were clearly better than the agent's exams."""
        return self._ahead(self._explorer.returns, self._level, 0.02)

    @property
    def agent_leads(self) -> bool:
        """The other way round, and surely: the lessons end there."""
        exams = self._exams.returns
        return len(exams) >= _SURE and self._ahead(exams, self._explorer.returns, 0.1, errors=2.0)

    @property
    def _grown_up(self) -> bool:
        """The agent has left even the explorer's best form far behind: nobody needs to look after it."""
        level = self._level
        return len(level) > 2 and level.mean() - max(self._explorer.mean, self._form) > _FAR * self.scale

    @property
    def in_form(self) -> bool:
        """Q̂ wavers, and bad phases are not worth teaching: the last were near its best, or near the agent's."""
        last = self._explorer.returns[-3:]
        if not len(last):
            return False
        above = len(self._level) > 0 and last.mean() > self._level.mean() - _NEAR * self.scale
        return bool(above or last.mean() >= self._form - 0.2 * self.scale)

    @property
    def explorer_learnt(self) -> bool:
        """The explorer became safely better than it was in its first episodes, and it or its pupil got most of the way
        from there to the best that was ever seen; or nobody was ever better.

        The mean of a window alone would not do: where returns are noisy, some window is lucky. Nor would being better
        than at first: who explores begins worse than one who does anything.
        """
        if not len(self._first):
            return False
        first, level = float(self._first.mean()), float(self._level.mean()) if len(self._level) else -np.inf
        far = max(self._peak, level) >= first + _ON_THE_WAY * (self._range[1] - first)
        return (self._assured > first and bool(far)) or self.explorer_unrivalled

    @property
    def explorer_unrivalled(self) -> bool:
        """Hardly a return of anybody was ever better than the explorer's last ones."""
        last = self._explorer.returns
        return len(last) >= _ENOUGH and bool(last.mean() >= self._range[1] - _TOP * self.scale)

    @property
    def _at_the_top(self) -> bool:
        """The agent is near the best return that was ever seen."""
        return len(self._level) > 0 and float(self._level.mean()) >= self._range[1] - _NEAR * self.scale

    @property
    def _worth_keeping(self) -> bool:
        """The explorer or its pupil was far better than an agent that knows nothing, or that is not known."""
        if len(self._novice) < _FIRST:
            return True
        level = float(self._level.mean()) if len(self._level) else -np.inf
        return bool(max(self._peak, level, self._before) >= self._novice.mean() + _WORTH * self.scale)

    @property
    def _knows_novice(self) -> bool:
        """It is known for certain what an agent does that knows nothing: one that was let go has driven."""
        return bool(np.isfinite(self._before)) and len(self._novice) == _FIRST

    @property
    def _eventless(self) -> bool:
        """In a quarter of the first episodes the return was the worst of all, to the last digit: nothing happens to who
        knows nothing. Starting anew there would be of no use.
        """
        worst = self._range[0]
        return int((self._opening <= worst + 1e-9 * abs(worst)).sum()) >= _AGAIN

    @property
    def far_behind(self) -> bool:
        """The explorer leads by more than a little."""
        return self.explorer_leads and self._explorer.mean - self._level.mean() > _NEAR * self.scale

    def _start_anew(self) -> None:
        """The agent is one that knows nothing: its next episodes show for certain what such a one does."""
        levels = [float(returns.mean()) for returns in (self._level, self._agent.returns) if len(returns)]
        self._before, self._novice = max(levels, default=-np.inf), np.zeros(0)
        self._forget_agent()

    def _forget_agent(self) -> None:
        """The agent is another one: what it did says nothing any more."""
        self._agent, self._exams = _Record(), _Record(EXAMS)

    def _standing_state(self) -> State:
        return {"explorer": self._explorer.returns.copy(), "agent": self._agent.returns.copy(),
                "exam_returns": self._exams.returns.copy(), "first": self._first.copy(), "novice": self._novice.copy(),
                "range": np.append(self._range, [self._form, self._best, self._peak, self._assured, self._before]),
                "opening": self._opening.copy()}  # fmt: skip

    def _load_standing(self, state: State) -> None:
        if state["range"].shape != (7,):
            raise StateError("handover: wrong shapes. The state is damaged.")
        for record, name in ((self._explorer, "explorer"), (self._agent, "agent"), (self._exams, "exam_returns")):
            record.returns = state[name].copy()
        self._first, self._novice = state["first"].copy(), state["novice"].copy()
        self._range = state["range"][:2].copy()
        levels = (float(level) for level in state["range"][2:])
        self._form, self._best, self._peak, self._assured, self._before = levels
        self._opening = state["opening"].copy()
