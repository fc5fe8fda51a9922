"""`model`: plan in completed dynamics with R-max optimism (Brafman and Tennenholtz, 2002).

Every transition updates the dynamics (`dynamics`: next state, reward and end of all pairs (s, a), completed from those
tried). A value function is solved on anchor states, a few sweeps at each step (`value_iteration`), and novel
states get the upper value bound. Acting looks one step ahead through the current dynamics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polaug.explorers.base import Batch, FloatArray, IntArray
from polaug.explorers.experience import DynamicsExplorer, settings
from polaug.explorers.novelty import Novelty
from polaug.explorers.plan import Bounds, Plan, optimistic_q, q_at, values_at
from polaug.explorers.record import Phase
from polaug.explorers.revisits import Revisits
from polaug.explorers.rollout import plan_return
from polaug.explorers.threads import one_thread
from polaug.explorers.value_iteration import GridSolution, PlanOptions, Solution, begin
from polaug.features.spaces import Space
from polaug.snapshot import saved

_HOLD = 0.3  # probability of a new random action before the first plan: repeated actions get further


@saved(
    "_newest", "_older", "_novelty", "_phase", "_solution", "_plan_at", "_revisits", "_held",
)  # fmt: skip
class ModelExplorer(DynamicsExplorer):
    """Look one step ahead through learned dynamics to a value solved on visited states.

    Parameters
    ----------
    plan
        `PlanOptions`, or a dict of some of its fields.
    **common
        See `DynamicsExplorer`.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        plan: PlanOptions | Mapping[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        self._plan_options = settings("plan", plan, PlanOptions)
        self._newest: Plan | None = None
        self._older: Plan | None = None  # V is the mean of both: their errors differ
        self._novelty: Novelty | None = None  # of the newest plan
        self._phase = Phase.BLIND  # of the newest plan
        self._solution: Solution | GridSolution | None = None  # the next plan, being solved
        self._plan_at = self.experience.dynamics.options.first_fit  # step at which the next one is begun
        self._revisits = Revisits(self._flatten.size, self._plan_options.revisit_length)
        self._held = np.zeros(0, dtype=np.int64)  # actions held before the first plan

    @property
    def ready(self) -> bool:
        """Whether there is a plan."""
        return self._newest is not None

    # -- acting -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Unfinished episodes leave neither returns nor penalties."""
        super().reset()
        self._revisits.forget()

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        for i in self._to_drive(len(flat)):
            model = self.experience.dynamics.model
            if self._newest is None or self._older is None or model is None:
                self._chosen[i] = self._wander(i, len(flat))
                continue
            places, depths = self._revisits.of(i)
            gamma = self.experience.gamma
            q = optimistic_q(model, self._newest, self._older, flat[i], gamma, places, depths, self._revisits.length)
            best = (q >= q.max() - 1e-9 * abs(q.max())).nonzero()[0]
            self._chosen[i] = best[0] if len(best) == 1 else self._rng.choice(best)
        return np.maximum(self._chosen, 0)

    def _wander(self, environment: int, n: int) -> int:
        """Random actions, each held for a few steps."""
        if len(self._held) != n:
            self._held = self._rng.integers(self.actions.n_actions, size=n)
        if self._rng.random() < _HOLD:
            self._held[environment] = self._rng.integers(self.actions.n_actions)
        return int(self._held[environment])

    # -- learning ---------------------------------------------------------------------------------------------------

    def _learn(self, batch: Batch) -> None:
        if not self._shares:
            self.experience.learn(batch)
            self.learn_from(batch)

    def learn_from(self, batch: Batch) -> None:
        """Learn from transitions that the experience has just taken in."""
        own = self._followed(batch)
        self._forget_choice(len(batch))
        if self._newest is not None and self._novelty is not None:
            newest = self._newest
            self._novelty.visit(batch.next_flat, newest.centre, newest.inverse, newest.relevance)
            self._novelty.write_certainty(newest.certainty)
            # Where a task never ends, going round and round may be all there is to do.
            if any(own) and (self._phase is Phase.BLIND or self.experience.dynamics.ends):
                values, gamma = values_at(newest, batch.flat), self.experience.gamma
                for i in np.flatnonzero(own).tolist():
                    place = np.clip((batch.flat[i] - newest.centre) * newest.inverse, -3.0, 3.0) * newest.relevance
                    reward = newest.paid * float(batch.rewards[i])
                    self._revisits.visit(i, place, float(values[i]), reward, gamma)
        for i, over in enumerate(batch.ended.tolist()):
            if over:
                self._revisits.begin(i)
        self._plan(batch, driving=any(own))

    def quiet(self, n: int) -> bool:
        """Whether steps of n environments that others drive change nothing but the novelty."""
        return self.ready and self._solution is None and not self._awaits(n)

    def learn_on(self, batch: Batch, n: int) -> None:
        """`learn_from` of such steps after each other, in none of which an episode ends."""
        assert self._newest is not None
        assert self._novelty is not None
        newest = self._newest
        self._novelty.visit(batch.next_flat, newest.centre, newest.inverse, newest.relevance, n)
        self._novelty.write_certainty(newest.certainty)

    def _plan(self, batch: Batch, driving: bool) -> None:
        """Begin a plan when it is due and used, or continue solving it."""
        options, steps = self._plan_options, self.experience.buffer.steps
        if self._solution is None:
            found = self._phase is Phase.BLIND and self.experience.record.phase is not Phase.BLIND
            due = (driving or not self.ready) and (steps >= self._plan_at or found)
            if due and self.experience.dynamics.frame is not None:
                self._begin()
            return
        model = self._solution.model
        self._solution.novelty.visit(batch.next_flat, model.centre, model.inverse, model.relevance)
        if one_thread(self._solution.advance)(options.work * len(batch)):
            self._adopt(self._solution)

    @one_thread
    def _begin(self) -> None:
        options, steps = self._plan_options, self.experience.buffer.steps
        self.experience.review()
        phase = self.experience.record.phase
        before = self._newest if phase is self._phase else None
        self._plan_at = steps + int(min(max(self.experience.dynamics.options.first_fit, options.growth * steps),
                                        options.longest))  # fmt: skip
        self._solution = begin(
            self.experience.dynamics, before, self._bounds(phase), phase, self.experience.gamma, options, self._rng
        )

    def _adopt(self, solution: Solution | GridSolution) -> None:
        """The plan that was solved is the newest."""
        plan = solution.plan()
        same = solution.phase is self._phase or Phase.BLIND not in (solution.phase, self._phase)
        keeps = self._plan_options.average and same and self._newest is not None
        self._older = self._newest if keeps else plan
        self._newest, self._novelty, self._phase = plan, solution.novelty, solution.phase
        self._revisits.forget()
        self._solution = None

    def _bounds(self, phase: Phase) -> Bounds:
        """Values between the value bounds; unknown states get the upper one."""
        if phase is Phase.BLIND:
            return Bounds(0.0, 1.0)
        record, options = self.experience.record, self._plan_options
        r, horizon = record.returns, 1.0 / (1.0 - self.experience.gamma)
        spread = r.high - r.low if r.high > r.low else 1.0
        optimum = r.high + options.optimism * spread * options.fade / (options.fade + record.ended)
        if phase is Phase.IMPROVING:
            optimum = min(optimum, r.most)
        low = max(min(r.low - 0.5 * spread, 0.0), min(r.worst_reward, 0.0) * horizon)
        return Bounds(low, max(optimum, low))

    # -- predictions ------------------------------------------------------------------------------------------------

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self.values(flat)

    def values(self, flat: FloatArray) -> FloatArray | None:
        """Q̂ (n, N), without the optimism that only acting needs; None until rewards differ."""
        model = self.experience.dynamics.model
        if self._newest is None or self._older is None or model is None or self._phase is Phase.BLIND:
            return None
        q = q_at(model, self._newest, self._older, np.ascontiguousarray(flat), self.experience.gamma)
        # Rewards are completed, so a value may exceed the upper bound. All values of its state are then lowered
        # equally, because only their order matters.
        most = self.experience.record.returns.most
        lowered: FloatArray = q - np.maximum(q.max(axis=1, keepdims=True) - most, 0.0)
        return lowered

    def predicted_return(self, starts: FloatArray, horizon: int) -> float:
        """Mean undiscounted return of its greedy policy in model rollouts from `starts` (n, d)."""
        model = self.experience.dynamics.model
        assert model is not None
        assert self._newest is not None
        assert self._older is not None
        return float(plan_return(model, self._newest, self._older, starts, self.experience.gamma, horizon))

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if self._newest is None or self._novelty is None:
            return None
        z = np.clip((flat - self._newest.centre) * self._newest.inverse, -3.0, 3.0)
        return np.clip(self._novelty.variance(z * self._newest.relevance), 0.0, 1.0)
