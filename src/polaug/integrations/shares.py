"""Who should drive how much, and how much is taught: shares and weights, from returns and from what they have cost.

While the explorer is clearly better it drives most steps, fewer and fewer if it does not improve; otherwise the agent
drives, and the explorer gets trials, fewer and fewer if it keeps losing. Episodes are counted elsewhere, in `handover`.
"""

from __future__ import annotations

from polaug.config import Augmentation
from polaug.integrations.champion import Champion
from polaug.integrations.standing import Standing

_LEAD_SHARE, _LEAST_LEAD_SHARE = 0.75, 0.15
_FIRST_SHARE = 0.9  # before anybody leads
_LEAST_LESSON, _LAST_LESSON = 0.3, 0.15  # weights while the explorer leads, and below which there are no more
_SILENT = 0.05  # of the fading: an explorer that has not improved for so long has said all it has to say
_HOLD, _HOLD_PERIOD = 0.5, 20_000  # weight of repeated lessons, and its half-life in steps
EXAM_SHARE = 0.5  # of the agent's steps, while something is to be learnt about it
_IMPROVEMENT_PERIOD = 3_000  # a leading explorer that has not improved for so long drives half as much
_LEAST_TRIALS = 0.01
_TRIES, _LONG = 6, 500  # episodes that patience holds for at least, one for so many of its steps
_NOTHING_SEEN, _SEARCH_SHARE = 10, 0.75  # times the patience while all returns were alike, and the share meanwhile
_SEEN = 6  # exams that show what an experienced agent can do, and whether it leads
_CALM = 2_000  # steps without lessons after the agent had to be brought back


class Shares(Standing):
    """Decides from the standing of both actors and a few counters, which `Handover` keeps."""

    def __init__(
        self,
        settings: Augmentation,
        *,
        steers: bool,
        automatic: bool,
        searches: bool = False,
        tau_e: int | None,
        warm_up: int,
        experienced: bool = False,
        champion: Champion | None = None,
    ) -> None:
        super().__init__()
        self._settings, self._steers, self._automatic = settings, steers, automatic
        self._searches, self._tau_e, self._warm_up, self._champion = searches, tau_e, warm_up, champion
        self._experienced = experienced  # whether the agent had learnt before there was an explorer
        self.steps = self.explorer_steps = 0
        self._uneventful = True  # whether all rewards were the same
        self._since_best = 0  # steps since the explorer's mean was best
        self._without_lead, self._tries, self._lost = 0, 0, 0  # steps and episodes of the explorer; lost trials
        self._led = False
        self._falls = self._fell_at = 0

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
        if self._unexamined:
            return 0.0
        if self.steps < self._warm_up:
            return 1.0
        if self._dismissed:
            return _LEAST_TRIALS
        if self.explorer_leads:
            return max(_LEAST_LEAD_SHARE, _LEAD_SHARE * self._fading)
        if self._searching:
            return _SEARCH_SHARE
        if self._patient:
            wanted = 0.5 if self.agent_leads else _LEAD_SHARE if self._led else _FIRST_SHARE
            return max(wanted * self._fading, self._settings.trial_share)
        return max(_LEAST_TRIALS, self._settings.trial_share * 0.5**self._lost)

    @property
    def teaching(self) -> float:
        """Weight of the lessons, 0 to 1. A teacher that no longer improves is followed more slowly: its wavering
        averages out, and an agent as good as its teacher gets room to overtake it. An agent that was brought
        back to its best is left in peace. Nobody is taught what is worth nothing, as far as anybody knows.
        """
        if self._tau_e is not None:
            return float(self.steps < self._tau_e)
        if self._dismissed or self._all_alike or self._unexamined:
            return 0.0
        if self.explorer_leads and self.in_form:
            return 0.0 if self._outgrown else max(_LEAST_LESSON, self._fading)
        fell = self._falls > 0 and self.steps - self._fell_at < _CALM
        # Nobody knows what an agent that has hardly driven can do; whatever it is, lessons can hardly make it worse.
        # Later its exams tell, and the champion comes back from lessons that did harm.
        of_use = len(self._level) < 3 or self._patient
        settled = self.agent_leads or not of_use
        fading = 0.5 ** (self._since_best / _IMPROVEMENT_PERIOD)
        return 0.0 if settled or fell or not self.in_form or fading < _LAST_LESSON else fading

    @property
    def _patient(self) -> bool:
        """The explorer may still show what it can: a few episodes tell little, however long they are."""
        patience = self._settings.patience
        return self._without_lead < patience or self._tries < min(_TRIES, patience // _LONG) or self._searching

    @property
    def _searching(self) -> bool:
        """Patience is over, but the agent has had nothing to learn from either: whoever is curious goes on."""
        patience = self._settings.patience
        return self._searches and self._all_alike and patience <= self._without_lead < _NOTHING_SEEN * patience

    @property
    def _unexamined(self) -> bool:
        """The agent came with experience, and nobody has seen yet what it can do: lessons could only ruin that."""
        return self._experienced and len(self._exams.returns) < _SEEN

    @property
    def _all_alike(self) -> bool:
        """Nothing has happened so far: every return of anybody was the same, and if there is only one, every reward."""
        return self.scale == 0.0 and (self._uneventful or len(self._opening) > 1)

    @property
    def _dismissed(self) -> bool:
        """The agent was let go as if it had never been taught: only an explorer without rival gets its pupil back."""
        return self._champion is not None and self._champion.untaught and not self.explorer_unrivalled

    @property
    def _outgrown(self) -> bool:
        """The explorer leads, but has long ceased to improve, and the agent gets better by itself."""
        climbs = self._champion is not None and self._champion.climbs(self.agent_return, self.scale)
        return climbs and self._silent

    @property
    def _silent(self) -> bool:
        """A leading explorer has not improved for so long that there is little news to look for."""
        return self._fading < _SILENT

    def holding(self, taught_at: int) -> float:
        """Weight of lessons that only repeat what was taught up to the step `taught_at`."""
        over = self._grown_up or self._dismissed
        if self._tau_e is not None or over or not taught_at:
            return 0.0
        weight = _HOLD * 0.5 ** ((self.steps - taught_at) / _HOLD_PERIOD)
        if self._champion is not None:  # whatever ruins an agent that had to be brought back, these may be it
            weight /= self._champion.pace
        return weight if weight >= 0.05 else 0.0

    @property
    def retired(self) -> bool:
        """The explorer's learning is no longer worth its time: it keeps losing, or has long ceased to improve and
        leads no more. Trials, or an agent that falls behind, bring it back.
        """
        if not self._automatic or self._tau_e is not None:
            return False
        return self._lost >= 3 or (self._fading < 0.25 and not self.explorer_leads)

    @property
    def _exam_share(self) -> float:
        """Share of the agent's steps that are exams: of no use to an on-policy loss, but they tell."""
        if not self._steers or not self._automatic or self._tau_e is not None:
            return 0.0
        if self._unexamined:
            return 1.0
        if self._dismissed:
            return _LEAST_TRIALS
        if self._champion is not None and self._champion.gave_up:
            return self._settings.trial_share
        useful = self._champion is not None and self._champion.drifts  # to an agent that learns from any step
        if useful or (not self._silent and (self.teaching or (not self.agent_leads and not self.retired))):
            return EXAM_SHARE
        # An agent that seems to have fallen behind again is looked at more closely.
        behind = self._ahead(self._explorer.returns, self._agent.returns, 0.02)
        if behind or not (self._grown_up or self.retired):
            return 2.0 * self._settings.trial_share
        return _LEAST_TRIALS if self._grown_up else self._settings.trial_share
