"""The agent at its best: the parameters whose exams were best, to return to when its own learning has ruined them.

A taught agent is often better than anything that its own updates make of it for a while: its values are young, and
its noise hides what it can. So every change stands trial: exams that are clearly below the champion's bring the
champion back, exams that are better crown a new one. Own updates of an agent that had to be brought back are made
more rarely, until they make it better. A policy gradient climbs the return of its noisy episodes: while these are
better than under the champion it is on its way, whatever its exams say; and if it was brought back in vain time and
again it is left alone for good, since some tasks are learnt through valleys. Where the teacher has learnt nothing its
lessons are only in the way, and the agent is let go. One with a replay buffer starts anew from before its first lesson;
a policy gradient goes on from where it is. Nothing here knows a training library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import State, part, prefixed

_LEAST = 2  # exams that allow a verdict
_ENOUGH = 4  # exams for a good one
_TRIAL = 6  # recent exams that speak for the present parameters
_RECORD = 16  # exams that speak for the champion
_CREDIT = 4  # exams after a return that still speak for the champion, though the agent goes on learning
_SURELY = 1.5  # standard errors
_LEAST_SPREAD = 0.1  # of the range of returns, as long as the champion has had few exams
_FEW = 4
_ALARMING = 4.0  # spreads below the champion's mean
_CLIMBED = 0.02  # of it, by which noisy episodes must be better than under the champion
_SOUND = 6  # exams without a fall that make up for one return
_SLOW = 4  # pace at which a very bad exam right after a return is the champion's own
_SLOWEST = 6  # halvings of the pace of an agent's own updates
_IN_VAIN = 6  # returns to the same champion after which it gives up
_TWICE = 2  # returns to the same champion that say that own learning does not agree with what was taught
_FRESH = 5_000  # steps after which an exam says nothing about the present parameters

Parameters = Mapping[str, torch.Tensor]


class Champion:
    """Holds the best parameters and their exams; `read` and `write` reach the agent's.

    An agent that `drifts` learns at every step; others change when `changed` is called.
    """

    def __init__(
        self, read: Callable[[], Parameters], write: Callable[[Parameters], None], *, drifts: bool = False
    ) -> None:
        self._read, self._write, self.drifts = read, write, drifts
        self._best: dict[str, torch.Tensor] = {}
        self._initial: dict[str, torch.Tensor] = {}  # from before the first lesson
        self._taught: dict[str, torch.Tensor] = {}  # of an agent that was let go, until it is known what it was worth
        self._record, self._trial, self._at = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
        self._credit = 0
        self.returns_to_it = 0
        """How often it had to be brought back."""
        self._setbacks = 0  # of these, since it was crowned; fewer again once own learning did no harm for a while
        self._sound = 0  # exams since the last of them, or since one was forgiven
        self.gave_up = False
        """Whether it no longer looks after the agent."""
        self.taught = False
        """Whether the agent has had lessons since it was last let go."""
        self.untaught = False
        """Whether it has let the agent go."""
        self._noisy = np.nan  # mean return of noisy episodes when it was crowned, or soon after

    @property
    def exams(self) -> NDArray[np.float64]:
        """The champion's exams."""
        return self._record

    @property
    def pace(self) -> int:
        """Only every `pace`-th of the agent's own updates should be made, if they have ruined it before."""
        return int(2 ** min(self._setbacks, _SLOWEST)) if self.drifts and not self.gave_up else 1

    @property
    def on_trial(self) -> bool:
        """The present parameters have had too few exams for a verdict."""
        return not self._credit and len(self._trial) < _ENOUGH and not self.gave_up

    def changed(self, *, wholly: bool) -> None:
        """The agent is no longer the champion; `wholly`: earlier exams say nothing about it any more."""
        self._credit = 0
        if wholly:
            self._trial, self._at = self._trial[:0], self._at[:0]

    def abdicate(self) -> None:
        """Returns are measured in another way from now on: there is no champion until there are new exams."""
        self._best, self._record, self._noisy = {}, np.zeros(0), np.nan
        self._credit = self._setbacks = self._sound = 0
        self.gave_up = self.untaught
        self.changed(wholly=True)

    def before_lesson(self) -> None:
        """The agent is about to be taught: whoever was let go is looked after again."""
        if self.untaught:
            self.untaught = self.gave_up = False
        if self.drifts and not self.taught:
            self._initial = self._copy()
        self.taught = True

    def enter(self, total: float, step: int, scale: float, noisy: float = np.nan) -> bool:
        """Take in an exam; returns come from a range of width `scale`, the latest `noisy` episodes had that mean.

        True if the champion has been brought back.
        """
        if self.gave_up:
            return False
        if self._best and np.isnan(self._noisy):
            self._noisy = noisy
        if self._credit:
            alarming = self._alarming(total, scale)
            if not alarming or self.pace >= _SLOW:  # who hardly learns has not changed: else only luck would count
                self._record = np.append(self._record, total)[-_RECORD:]
            if not alarming:
                self._credit -= 1
                return False
        self._credit = 0
        recent = self._at > step - _FRESH
        self._trial = np.append(self._trial[recent], total)[-_TRIAL:]
        self._at = np.append(self._at[recent], step)[-_TRIAL:]
        if len(self._trial) >= _LEAST and (not self._best or self._better(scale)) and self._typical(total, scale):
            self._best = self._copy()
            self._record, self._credit = self._trial.copy(), 0 if self.drifts else _RECORD
            self._setbacks, self._sound, self._noisy = 0, 0, noisy
            return False
        if not self._best or len(self._trial) < _LEAST or self.climbs(noisy, scale) or not self._fallen(scale):
            self._sound += 1
            if self._sound >= _SOUND:
                self._setbacks, self._sound = max(self._setbacks - 1, 0), 0
            return False
        if self._setbacks >= _IN_VAIN and not self.drifts:
            self.gave_up, self._best = True, {}
            return False
        self._write(self._best)
        self._trial, self._at = self._trial[:0], self._at[:0]
        self._credit = _CREDIT if self.drifts else _RECORD
        self.returns_to_it += 1
        self._setbacks, self._sound = self._setbacks + 1, 0
        return True

    @property
    def falls_back(self) -> bool:
        """Its own learning has ruined a taught agent twice since it was best."""
        return self.taught and self._setbacks >= _TWICE

    @property
    def can_let_go(self) -> bool:
        """Whether there is something to go back to; not after a regret, which is for good."""
        return not self.drifts or bool(self._initial)

    def let_go(self) -> None:
        """No more interference until the next lesson; with a replay buffer, back to before the first."""
        if self.drifts:
            self._taught = self._copy()
            self._write(self._initial)
        self.untaught, self.taught = True, False
        self._initial = {}
        self.abdicate()

    @property
    def may_regret(self) -> bool:
        """Whether what the agent had been taught could still come back."""
        return self.untaught and bool(self._taught)

    def regret(self, *, worth_it: bool) -> None:
        """It is known what the agent is without its lessons: have what it was taught back if that was `worth_it`."""
        if worth_it:
            self._write(self._taught)
            self.untaught, self.taught, self.gave_up = False, True, False
            self.changed(wholly=True)
        self._taught = {}

    def alarmed(self, scale: float) -> bool:
        """The last exam of an agent that learns at every step was so bad that the next must follow at once."""
        return len(self._trial) > 0 and self._alarming(self._trial[-1], scale)

    def _alarming(self, total: float, scale: float) -> bool:
        if not (self.drifts and self._best):
            return False
        spread = max(float(self._record.std()), _LEAST_SPREAD * scale)
        return bool(total < self._record.mean() - _ALARMING * spread)

    def climbs(self, noisy: float, scale: float) -> bool:
        """Whether a policy gradient's `noisy` episodes are clearly better than under the champion."""
        return not self.drifts and noisy > self._noisy + _CLIMBED * scale

    def _typical(self, total: float, scale: float) -> bool:
        """The latest exam, of the parameters that would be crowned, is like the others: lessons come in between."""
        spread = max(float(self._trial.std()), _LEAST_SPREAD * scale)
        return bool(total >= self._trial.mean() - 0.5 * spread)

    def _better(self, scale: float) -> bool:
        """By what exams vouch for: the mean less its error, so that luck in a few does not depose many."""
        spread = self._spread(scale)
        vouched = [exams.mean() - spread / np.sqrt(len(exams)) for exams in (self._trial, self._record)]
        return bool(vouched[0] > vouched[1])

    def _fallen(self, scale: float) -> bool:
        error = self._spread(scale) * np.sqrt(1.0 / len(self._record) + 1.0 / len(self._trial))
        return bool(self._record.mean() - self._trial.mean() > max(_SURELY * error, 1e-12))

    def _spread(self, scale: float) -> float:
        """Standard deviation of exams; that of a few may be small by luck."""
        least = _LEAST_SPREAD * scale * min(1.0, float(np.sqrt(_FEW / max(len(self._record), 1))))
        return max(float(self._record.std()), float(self._trial.std()), least)

    def _copy(self) -> dict[str, torch.Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self._read().items()}

    def state_dict(self) -> State:
        """Parameters and exams."""
        state: State = {}
        for kind, kept in (("best", self._best), ("initial", self._initial), ("taught", self._taught)):
            state |= prefixed(kind, {name: tensor.cpu().numpy().copy() for name, tensor in kept.items()})
        states = (self.gave_up, self.untaught, self.taught)
        counters = np.array([self._credit, self.returns_to_it, self._setbacks, self._sound, *states], np.int64)
        exams = {"record": self._record.copy(), "trial": self._trial.copy(), "at": self._at.copy()}
        return state | exams | {"counters": counters, "noisy": np.array(self._noisy)}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        kinds = ("best", "initial", "taught")
        self._best, self._initial, self._taught = (self._parameters(part(kind, state)) for kind in kinds)
        self._record, self._trial, self._at = (state[name].copy() for name in ("record", "trial", "at"))
        self._credit, self.returns_to_it, self._setbacks, self._sound = (int(c) for c in state["counters"][:4])
        self.gave_up, self.untaught, self.taught = (bool(c) for c in state["counters"][4:])
        self._noisy = float(state["noisy"])

    def _parameters(self, arrays: State) -> dict[str, torch.Tensor]:
        own = self._read()
        if arrays and {name: tuple(t.shape) for name, t in own.items()} != {n: a.shape for n, a in arrays.items()}:
            raise StateError("champion: its parameters are not those of this agent. The state is damaged.")
        return {name: torch.from_numpy(np.array(array)).to(own[name].device) for name, array in arrays.items()}
