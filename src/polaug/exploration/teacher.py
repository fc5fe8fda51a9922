"""Whose values a committee teaches: the best player's, unless it is one of whom a single policy would be learnt."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from polaug.exploration.base import FloatArray, IntArray
from polaug.exploration.contest import Contest
from polaug.exploration.imaginer import Imaginer
from polaug.exploration.linear import Linear
from polaug.exploration.member import Member

_CLEARLY = 0.05  # of the range of recent returns
_JUDGE_AGAIN = 1.3  # times the steps at the last choice


class Teacher:
    """Asks the `contest` who plays best, and the model whether the linear member would teach as well as it plays."""

    def __init__(self, members: Mapping[str, Member], model: Imaginer, linear: Linear, contest: Contest) -> None:
        self._members, self._model, self._linear, self._contest = members, model, linear, contest
        self._judged_at = 0  # step at which it was last chosen
        self._model_teaches = False  # although the linear member plays best

    def values(self, flat: FloatArray) -> FloatArray:
        """Q̂ (n, N) of the member that teaches."""
        best = self._contest.teacher()
        if best == "linear" and self._model_teaches:
            best = "model"
        values = self._members[best].values(flat)
        if best != "linear":
            return values
        # Its scores rank actions but are no returns: the model's values, with the highest at the linear choice.
        choice, rows = values.argmax(axis=1), np.arange(len(flat))
        values = self._model.values(flat)
        top = values.argmax(axis=1)
        values[rows, choice], values[rows, top] = values[rows, top], values[rows, choice]
        return values

    def choose(self, flat: FloatArray, steps: int) -> None:
        """The linear member plays another policy from each start; whoever is taught learns a single one.

        That may be worse than the model's, which is refitted and compared inside the model, ever more rarely. The
        model judges in its own favour, so only a clear difference counts.
        """
        if steps < _JUDGE_AGAIN * self._judged_at or self._contest.best() != "linear":
            return
        self._judged_at = steps
        self._model.refit(values=True)
        laws = self._model.dynamics.laws
        if laws is None:
            return
        starts, horizon = np.concatenate([flat[None], self._linear.sample_starts(3)]), self._linear.horizon(200)
        model, linear = (self._members[name].promise(laws, starts, horizon) for name in ("model", "linear"))
        self._model_teaches = model > linear + _CLEARLY * self._contest.range

    def state(self) -> IntArray:
        """When it was chosen (0), and whether that was the model (1)."""
        return np.array([self._judged_at, self._model_teaches], dtype=np.int64)

    def restore(self, state: IntArray) -> None:
        """Go on from `state`."""
        self._judged_at, self._model_teaches = int(state[0]), bool(state[1])
