"""`portfolio`: the default, a bandit that chooses one of several explorers (its arms) for each episode.

- `model` plans in completed dynamics with a novelty bonus;
- `policy_search` searches low-rank policies in the same dynamics, which helps where values are hard to fit;
- `aggregation` counts on a coarse grid, which represents walls. It takes turns with the others if they keep failing.

The arms also learn from episodes driven by something else (the agent), but these count as returns of no arm. With
several environments, `drive_only` says where an arm drives. Very long episodes are judged by segments.

The declared space is not used: the same observations may come as Box, MultiDiscrete, Dict or float32, and an image may
show one of a few hundred positions. So `tabular` plays first. If observations turn out not to repeat exactly
(features/kinds.py), the arms take over and learn from the steps so far. If they repeat after all, a new table does.

`deep_q` takes over instead of the arms where observations are long and rewards do not repeat either: no smooth model of
few features fits there, and a reward at every step shows the way without a plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from polaug.checks import whole
from polaug.errors import invalid, unknown
from polaug.explorers.aggregation import Aggregation, AggregationOptions
from polaug.explorers.bandit import Arm, BanditOptions, are_failing, best, choose
from polaug.explorers.base import Batch, BoolArray, FloatArray, IntArray, Transitions
from polaug.explorers.deep_q import DeepQExplorer, DeepQOptions
from polaug.explorers.experience import DynamicsExplorer, settings
from polaug.explorers.model import ModelExplorer
from polaug.explorers.policy_search import PolicySearchExplorer, SearchOptions
from polaug.explorers.record import Phase
from polaug.explorers.table import TabularOptions
from polaug.explorers.tabular import TabularExplorer
from polaug.explorers.value_iteration import PlanOptions
from polaug.features.kinds import Recurrence, codes, recur
from polaug.features.spaces import Space
from polaug.snapshot import saved
from polaug.state import State
from polaug.streams import subseed

ARMS = ("model", "policy_search", "aggregation")
_SEGMENT = 1000  # steps after which an unfinished episode is judged
_ROLLOUTS, _LONGEST = 3, 200  # number of model rollouts for the veto, and their steps


@saved()
@dataclass(slots=True)
class Segment:
    """An episode, or a segment of a very long one, under way."""

    arm: str
    total: float = 0.0
    length: int = 0
    followed: int = 0  # steps on which the arm's choice was what was done

    @property
    def own(self) -> bool:
        """Whether the arm has driven, not the agent."""
        return self.followed > 0 and 2 * self.followed >= self.length


@saved(
    "_model", "_search", "_reserve", "_recurrence", "_table", "_networks", "_rewards", "_past_rows", "_kept",
    "_called", "_own", "_turn", "_arms", "_segments", "_recent", "played",
)  # fmt: skip
class PortfolioExplorer(DynamicsExplorer):
    """Several explorers in one, without settings per environment.

    Parameters
    ----------
    arms
        Which of "model", "policy_search" and "aggregation" belong to it; the model always does. `policy_search` is
        left out where there are so many dimensions and actions that it would cost seconds, `aggregation` beyond four
        dimensions or nine actions, and where categories are among the observations.
    plan_up_to
        Largest number of numbers in an observation for which the arms plan if rewards do not repeat.
    bandit, plan, search, aggregation, tabular, deep_q
        `BanditOptions`, `PlanOptions`, `SearchOptions`, `AggregationOptions`, `TabularOptions`, `DeepQOptions`, or
        dicts of some of their fields.
    **common
        See `DynamicsExplorer`.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        arms: Sequence[str] = ARMS,
        plan_up_to: int = 6,
        bandit: BanditOptions | Mapping[str, Any] | None = None,
        plan: PlanOptions | Mapping[str, Any] | None = None,
        search: SearchOptions | Mapping[str, Any] | None = None,
        aggregation: AggregationOptions | Mapping[str, Any] | None = None,
        tabular: TabularOptions | Mapping[str, Any] | None = None,
        deep_q: DeepQOptions | Mapping[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        for name in arms:
            if name not in ARMS:
                raise unknown("arm", name, ARMS)
        if "model" not in arms:
            raise invalid("arms", 'must include "model"', arms, "It explores for the others.")
        self._bandit = settings("bandit", bandit, BanditOptions)
        self._tabular = replace(settings("tabular", tabular, TabularOptions), gamma=self.experience.gamma)
        self._recurrence = Recurrence()
        self._longest_planned = whole("plan_up_to", plan_up_to, 1)
        self._table: TabularExplorer | None = self._new_table(self._seed)
        self._networks: DeepQExplorer | None = None
        self._deep_q = settings("deep_q", deep_q, DeepQOptions)
        self._rewards: list[float] = []  # the first ones
        self._past: deque[Batch] = deque()  # batches that the arms have not seen, because the table plays
        self._kept = 0  # steps in there
        self._model = ModelExplorer(
            self._state_space,
            action_space,
            seed=subseed(self._seed, "arm", "model"),
            plan=plan,
            experience=self.experience,
        )
        d, A = self._flatten.size, self.actions.n_actions
        self._search: PolicySearchExplorer | None = None
        affordable = PolicySearchExplorer.suits(
            self._flatten.size, self.actions.n_actions, self.experience.dynamics.options
        )
        if "policy_search" in arms and affordable:
            own = subseed(self._seed, "arm", "policy_search")
            self._search = PolicySearchExplorer(
                self._state_space, action_space, seed=own, search=search, experience=self.experience
            )
        self.explorers: dict[str, DynamicsExplorer] = {"model": self._model}
        """The arms."""
        if self._search is not None:
            self.explorers["policy_search"] = self._search
        names = list(self.explorers)
        self._reserve: Aggregation | None = None
        grid = settings("aggregation", aggregation, AggregationOptions)
        countable = Aggregation.suits(d, A)
        if "aggregation" in arms and countable and not self._flatten.categorical.any():
            self._reserve = Aggregation(self.experience, A, self._rng, grid)
            names.append("aggregation")
        self._called = False  # whether the reserve takes part
        self._own: list[float] = []  # returns of the last episodes that arms drove
        self._turn = 0  # episodes given while failing
        self._arms = {name: Arm() for name in names}
        self._segments: dict[int, Segment] = {}
        self._recent: list[float] = []  # returns of the last episodes, of agent and explorer
        self.played: dict[int, str] = {}
        """The arm that played each environment's last finished episode."""

    def _new_table(self, seed: int) -> TabularExplorer:
        return TabularExplorer(self._state_space, self.action_space, seed=seed, **asdict(self._tabular))

    def _new_networks(self) -> DeepQExplorer:
        own = subseed(self._seed, "arm", "deep_q")
        return DeepQExplorer(
            self._state_space, self.action_space, seed=own, gamma=self.experience.gamma, deep_q=self._deep_q
        )

    # -- acting -----------------------------------------------------------------------------------------------------

    @property
    def _alone(self) -> TabularExplorer | DeepQExplorer | None:
        """What plays instead of the arms, if anything."""
        return self._table or self._networks

    def reset(self) -> None:
        """Unfinished episodes count for no arm."""
        if self._alone is not None:
            self._show_past()  # these steps belong to the old episodes
            self._alone.reset()
        for environment in list(self._segments):
            self._drop(environment)
        super().reset()
        for arm in self.explorers.values():
            arm.reset()

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        driven, chosen = list(self._to_drive(len(flat))), self._chosen
        if self._alone is not None:
            return self._alone._choose(flat, states)
        for i in driven:
            if i not in self._segments:
                self._segments[i] = Segment("")
            if not self._segments[i].arm:
                self._give(self._segments[i])
        for name, arm in self.explorers.items():
            mine = [i for i in driven if self._segments[i].arm == name]
            if not mine:
                arm._forget_choice(len(flat))
                continue
            mask = np.zeros(len(flat), dtype=np.bool_)
            mask[mine] = True
            arm.drive_only(mask)
            chosen[mine] = arm._choose(flat, states)[mine]
        mine = [i for i in driven if self._segments[i].arm == "aggregation"]
        if mine and self._reserve is not None:
            chosen[mine] = self._reserve.choose(flat, np.array(mine))
        return np.maximum(chosen, 0)

    def _choose_allowed(self, flat: FloatArray, states: Any, allowed: BoolArray) -> IntArray:
        if self._alone is None:
            return super()._choose_allowed(flat, states, allowed)
        self._driven = None
        return self._alone._choose_allowed(flat, states, allowed)

    def _corrected(self, chosen: IntArray) -> None:
        super()._corrected(chosen)
        for arm in self.explorers.values():
            arm._corrected(chosen)

    @property
    def _failing(self) -> bool:
        return are_failing(self._own, self._recent, self.experience.record.found, self._bandit)

    def _give(self, segment: Segment) -> None:
        record = self.experience.record
        ready = {name: arm for name, arm in self._arms.items() if name == "model" or self._can_play(name)}
        if self._reserve is not None and self._reserve.laid and self._failing:
            self._turn += 1
            if self._turn % 2:
                segment.arm = "aggregation"
                self._arms["aggregation"].pending += 1
                return
        segment.arm = choose(
            ready, self._recent, self.experience.buffer.steps, record.phase, record.costly, self._bandit,
            self._predicted,
        )  # fmt: skip
        self._arms[segment.arm].pending += 1

    def _can_play(self, name: str) -> bool:
        if name == "aggregation":
            return self._called and self._reserve is not None and self._reserve.laid
        return self._model.ready and self._search is not None and self._search.ready

    def _predicted(self, name: str) -> float | None:
        """An arm's return in model rollouts."""
        record = self.experience.record
        starts, horizon = record.starts(_ROLLOUTS, self._rng), max(record.horizon(_LONGEST), 1)
        if name == "aggregation":
            return None  # the model has no walls
        if name == "policy_search":
            return None if self._search is None else self._search.expected_return
        return self._model.predicted_return(starts, horizon) if self._model.ready else None

    # -- learning ---------------------------------------------------------------------------------------------------

    def observe_past(self, steps: Sequence[Transitions]) -> None:
        """As `observe` of each, to the bit. Where nothing is planned or searched and no episode ends, many at once."""
        n = len(steps[0].rewards) if steps else 0
        alike = n > 0 and all(len(step.rewards) == n for step in steps)
        if not alike or self._encode is not None or self._flatten.encoded:
            super().observe_past(steps)
            return
        try:
            batch = self._read(Transitions.joined(steps))
        except ValueError:  # names the step
            super().observe_past(steps)
            return
        at = 0
        while at < len(batch):
            rest = batch.rows(slice(at, None))
            quiet, start = self._quiet(rest, n), self.steps
            self.steps += max(quiet, n)  # before: what Ctrl-C interrupts must not be learnt again
            rows = self._learn_on(rest.rows(slice(quiet)), n)
            if not rows:
                self._learn(rest.rows(slice(n)))
            self.steps = start + (rows or n)
            at += rows or n

    def _quiet(self, batch: Batch, n: int) -> int:
        """How many rows, steps of n environments after each other, can be learnt at once."""
        quiet = self._model.quiet(n) and (self._search is None or self._search.quiet(n)) and not self._awaits(n)
        if not quiet or self._alone is not None or self._called:
            return 0
        if self._recurrence.in_first_episode or n != self.experience.record.environments:
            return 0
        longest = max((segment.length for segment in self._segments.values()), default=0)
        rows = min(self.experience.dynamics.steady(batch, n), max(_SEGMENT - 1 - longest, 0) * n)
        ended = batch.ended[:rows]
        return (int(ended.argmax()) if ended.any() else rows) // n * n

    def _learn_on(self, batch: Batch, n: int) -> int:
        """Learn quiet rows. Gives their number, or how many it was until observations began to repeat exactly."""
        rows, recurs, seen = 0, False, codes(batch.next_flat).tolist()
        while rows < len(batch) and not recurs:
            recurs = self._recurrence.observe(seen[rows : rows + n], [False] * n, finite=False)
            rows += n
        known = batch.rows(slice(rows - n if recurs else rows))
        if len(known):
            self.experience.learn_on(known, n)
            self._model.learn_on(known, n)
            for i in range(n):
                segment = self._segments.setdefault(i, Segment(""))
                for reward in known.rewards[i::n].tolist():  # not `sum`, which rounds otherwise from Python 3.12 on
                    segment.total += reward
                segment.length += len(known) // n
        if recurs:
            self._learn_known(batch.rows(slice(len(known), rows)), recurs)
        return rows

    def _learn(self, batch: Batch) -> None:
        countable = self._recurrence.in_first_episode and (
            self._flatten.encoded or bool((batch.next_flat == np.rint(batch.next_flat)).all())
        )
        recurs = self._recurrence.observe(codes(batch.next_flat).tolist(), batch.ended.tolist(), finite=countable)
        self._learn_known(batch, recurs)

    def _learn_known(self, batch: Batch, recurs: bool) -> None:
        """Learn, once it is known whether observations repeat exactly."""
        alone = self._alone
        if self._table is None and recurs:
            self._table, self._networks = self._new_table(int(self._rng.integers(2**31))), None
        if alone is None:
            self._learn_numbers(batch)
            return
        for environment in np.flatnonzero(batch.ended).tolist():
            self.played[environment] = "deep_q" if isinstance(alone, DeepQExplorer) else "tabular"
        self._learn_alone(alone, batch)
        if isinstance(alone, DeepQExplorer):
            return
        self._rewards = [*self._rewards, *batch.rewards.tolist()][: self._recurrence.window]
        self._past.append(batch)
        self._kept += len(batch)
        while self._kept > self.experience.buffer.capacity:
            self._kept -= len(self._past.popleft())
        if recurs:
            return
        self._table = None
        if self._flatten.size > self._longest_planned and self._rewards_vary():
            self._networks, past = self._new_networks(), self._past
            self._past, self._kept = deque(), 0
            for each in past:
                self._learn_alone(self._networks, each)
        else:
            self._show_past()

    def _learn_alone(self, explorer: TabularExplorer | DeepQExplorer, batch: Batch) -> None:
        explorer._learn(batch)
        explorer.steps += len(batch)

    def _rewards_vary(self) -> bool:
        """Whether fewer than 10% of the first rewards had been seen before."""
        return not recur(len(self._rewards) - len(set(self._rewards)), len(self._rewards), True)

    def _learn_hindsight(self, batch: Batch) -> None:
        if self._alone is None:
            super()._learn_hindsight(batch)
        else:
            self._alone._learn_hindsight(batch)

    def _show_past(self) -> None:
        """The arms get the steps in which the table played; they plan and search from the next one on."""
        past, self._past, self._kept = self._past, deque(), 0
        played = dict(self.played)
        for each in past:
            self._take_in(each, self._followed(each))
        self.played = played

    def _learn_numbers(self, batch: Batch) -> None:
        """The arms learn."""
        followed = self._followed(batch)
        ended = self._take_in(batch, followed)
        self._model.learn_from(batch)
        if self._reserve is not None and self._called:
            self._reserve.learn(len(batch), {i: total if arm == "aggregation" else None for i, arm, total in ended})
        if self._search is not None:
            judged = {i: total if arm == "policy_search" else None for i, arm, total in ended}
            self._search.learn_from(batch, judged, sum(followed))

    def _take_in(self, batch: Batch, followed: list[bool]) -> list[tuple[int, str, float]]:
        """Add to the experience and to the episodes under way; gives environment, arm and return of those that ended.

        The arm is "" if the episode was not driven by one.
        """
        n = len(batch)
        self._forget_choice(n)
        others = n != self.experience.record.environments  # then no episode under way goes on
        for i in [i for i, segment in self._segments.items() if i >= n or (others and segment.length)]:
            self._drop(i)
        self.experience.learn(batch)
        over: list[tuple[int, str, float]] = []
        for i, (reward, ended) in enumerate(zip(batch.rewards.tolist(), batch.ended.tolist(), strict=True)):
            segment = self._segments.setdefault(i, Segment(""))
            segment.total += reward
            segment.length += 1
            segment.followed += followed[i]
            if ended or segment.length >= _SEGMENT:
                over.append((i, segment.arm if segment.own else "", segment.total))
                self._finish(i)
        return over

    def _finish(self, environment: int) -> None:
        """An episode, or a segment of a long one, is over."""
        segment = self._segments.pop(environment)
        self._recent = [*self._recent, segment.total][-self._bandit.recent :]
        self.played[environment] = segment.arm
        if not segment.arm:
            return
        arm = self._arms[segment.arm]
        arm.pending -= 1
        if not segment.own:
            return
        arm.plays += 1
        self._own = [*self._own, segment.total][-self._bandit.failing :]
        self._called = self._called or (self._reserve is not None and self._failing)
        if self.experience.record.phase is Phase.BLIND:
            return  # the return only reflects the cost of the search
        arm.last = self.experience.buffer.steps
        arm.at = [*arm.at, arm.last][-self._bandit.recent :]
        arm.returns = [*arm.returns, segment.total][-self._bandit.recent :]

    def _drop(self, environment: int) -> None:
        """An episode without an end counts for no arm."""
        segment = self._segments.pop(environment)
        if segment.arm:
            self._arms[segment.arm].pending -= 1

    # -- what it knows ----------------------------------------------------------------------------------------------

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if self._alone is not None:
            return self._alone._q_values(flat, states)
        values, leader = self._model.values(flat), best(self._arms, self._recent, self._bandit)
        if leader == "aggregation" and self._reserve is not None:
            return self._reserve.values(flat)
        if values is None or self._search is None or leader != "policy_search":
            return values
        # Scores of a policy rank actions but are no returns: the model's values, the highest at the policy's choice.
        scores = self._search.values(flat)
        if scores is not None:
            choice, top, rows = scores.argmax(axis=1), values.argmax(axis=1), np.arange(len(flat))
            values[rows, choice], values[rows, top] = values[rows, top], values[rows, choice]
        return values

    @property
    def searching(self) -> bool:
        """Whether no reward stands out so far."""
        return self._alone.searching if self._alone is not None else self.experience.record.phase is Phase.BLIND

    def _uncertainty(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return None if self._alone is not None else self._model._uncertainty(flat, states)

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        if self._alone is not None:
            return self._alone.statistics() | super().statistics() | {"recurs": float(self._table is not None)}
        rows = {"stored": float(self.experience.buffer.size), "episodes": float(self.experience.record.ended)}
        rows |= {"recurs": 0.0} | {f"plays_{name}": float(arm.plays) for name, arm in self._arms.items()}
        return super().statistics() | rows

    # -- state ------------------------------------------------------------------------------------------------------

    def _load(self, state: State) -> None:
        self._table = self._table or self._new_table(0)
        if any(key.startswith("_networks.") for key in state):
            self._networks = self._networks or self._new_networks()
        super()._load(state)

    @property
    def _past_rows(self) -> tuple[list[int], Batch | None]:
        """The batches that the arms have not seen: the rows of each, and all rows in one batch."""
        return [len(batch) for batch in self._past], Batch.joined(self._past) if self._past else None

    @_past_rows.setter
    def _past_rows(self, rows: tuple[list[int], Batch | None]) -> None:
        lengths, batch = rows
        ends = np.cumsum([0, *lengths]).tolist()
        self._past = deque(batch.rows(slice(*each)) for each in pairwise(ends)) if batch else deque()
