"""`tabular`: counted transitions and optimistic value iteration, for observations that are categories.

Every visited pair has its exact counts, so Q̂ is solved, not fitted. Two heads share them. The *curious* one takes an
untried pair to be worth the optimum (R-max), or, where an action usually moves by the same number of rows, what that
move would lead to: the one thing about untried pairs that counts can complete. The *exploiting* one never takes an
untried pair. If repeated pairs surprise (the task is stochastic), both are drawn towards the optimum, as by that many
imagined visits. An episode belongs to one head: the curious one plays ever more seldom the more of its episodes brought
no better return.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polaug.checks import non_negative, whole
from polaug.errors import UnsupportedSpaceError, invalid, shown
from polaug.exploration.base import Batch, Explorer, FloatArray, IntArray
from polaug.exploration.returns import Returns
from polaug.exploration.table import CURIOUS, EXPLOITING, Table
from polaug.features.one_hot import OneHot
from polaug.features.spaces import Space
from polaug.state import State, fitting, part, prefixed, within


class TabularExplorer(Explorer):
    """Exact counts and optimistic planning for Discrete, MultiDiscrete and MultiBinary observations.

    Parameters
    ----------
    gamma
        Discount.
    caution
        How many imagined visits to the optimum a wholly surprising task adds to each pair.
    patience
        Curious episodes without a better return after which the curious head plays every other episode; while no
        positive reward was ever seen, fifty times as many.
    budget
        Value updates per environment step, of up to eight tried pairs each; an episode's end gets twenty times as many.
    """

    searches = True

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        seed: int = 0,
        features: Callable[[Any], Any] | None = None,
        gamma: float = 0.99,
        caution: float = 3.0,
        patience: int = 2,
        budget: int = 400,
    ) -> None:
        super().__init__(observation_space, action_space, seed=seed, features=features)
        if not self._flatten.categorical.all():
            raise UnsupportedSpaceError(
                "observation_space: tabular needs Discrete, MultiDiscrete or MultiBinary, "
                f"got {shown(observation_space)}. Use the explorer 'committee', which takes vectors too."
            )
        if not 0.0 < gamma < 1.0:
            raise invalid("gamma", "must lie in (0, 1)", gamma, "Pass for example 0.99.")
        self._returns = Returns(float(gamma))
        self._options: dict[str, Any] = {
            "caution": non_negative("caution", caution), "patience": whole("patience", patience, 1),
            "budget": whole("budget", budget, 1), "sparing": True,
        }  # fmt: skip
        self._rows = OneHot(self._state_space, max_size=2**62)
        self._table = Table(self._rows.n_rows, self.actions.n_actions, self._returns, **self._options)
        self._heads = np.zeros(0, dtype=np.int64)  # the head that plays in each environment

    def reset(self) -> None:
        """Other episodes begin, with heads of their own."""
        self._returns.restart()
        self._heads = self._heads[:0]

    def _follow_environments(self, n: int) -> None:
        if n != len(self._heads):
            self._heads = np.array([self._table.next_head() for _ in range(n)], dtype=np.int64)

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        rows = self._rows.rows(states).tolist()
        self._follow_environments(len(rows))
        heads = self._heads.tolist()
        chosen = [self._table.choose(row, head, self._rng) for row, head in zip(rows, heads, strict=True)]
        return np.array(chosen, dtype=np.int64)

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        if not len(self._table):
            return None
        return np.stack([self._table.known_pairs(row) for row in self._rows.rows(states).tolist()])

    def _learn(self, batch: Batch) -> None:
        n = len(batch)
        self._follow_environments(n)
        rows, following = self._rows.rows(batch.states).tolist(), self._rows.rows(batch.next_states).tolist()
        news = False
        for i in range(n):
            arguments = (rows[i], int(batch.actions[i]), float(batch.rewards[i]), following[i])
            news |= self._table.count(*arguments, bool(batch.terminated[i]))
        finished = self._returns.follow(batch)
        for i, total in finished:
            self._table.judge(int(self._heads[i]), total)
            self._heads[i] = self._table.next_head()
        if finished:
            news |= self._table.hope()
        self._table.plan(20 if finished else 1, news)

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        curious = float(np.mean(self._heads == CURIOUS)) if len(self._heads) else 0.0
        return super().statistics() | self._table.statistics() | {"curious_share": curious}

    def _state(self) -> State:
        own = self._table.state_dict() | {"heads": self._heads.copy()}
        return own | prefixed("returns", self._returns.state_dict())

    def _load(self, state: State) -> None:
        heads, returns = fitting("tabular", state, {"heads": ("i", "n")})["heads"], Returns(self._returns.gamma)
        within("heads", heads, EXPLOITING, CURIOUS)
        returns.load_state_dict(part("returns", state))
        table = Table(self._rows.n_rows, self.actions.n_actions, returns, **self._options)
        table.load_state_dict(state)
        self._heads, self._returns, self._table = heads, returns, table
