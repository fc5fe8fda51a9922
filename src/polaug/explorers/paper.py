"""`paper`: Algorithm 1 of the paper as printed.

States are hashed to rows of Q; Eq. 1 learns the tabular Q; Nq counts visits; while t < τ_q every step completes
Q̃ = Q / Nq by Eq. 3 and 4 into Q̂; while t < τ_e actions are greedy on Q̂, ties broken at random. Section 4's restart: if
the mean return of the first `restart_episodes` episodes is below `restart_below`, Q is reset and the next first action
is random again. Restarted episodes count like all others. t counts environment steps, as in Algorithm 1.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from polaug.checks import finite, positive, whole
from polaug.completion import InductiveCompletion
from polaug.completion.cost import Reading
from polaug.errors import invalid
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.explorers.episodes import Episodes
from polaug.features import HashedStates, action_features, state_features
from polaug.features.spaces import Space
from polaug.snapshot import restore, snapshot
from polaug.state import State, part, prefixed


class PaperExplorer(Explorer):
    """Policy Augmentation as published.

    Parameters
    ----------
    hashing
        The map from observations to rows: "auto" (one_hot for Discrete observations, otherwise a grid), a name of a
        hashed map with `hashing_options`, or a map of your own.
    hashing_options
        Options of that map, for example {"step": (0.1, 0.01)} for the paper's MountainCar grid.
    alpha, gamma
        Learning rate and discount of Eq. 1.
    rank, lambda_1, lambda_2, reading, tolerance, max_iterations
        Of Eq. 3 and 4; see `MultiplicativeOptions`.
    actions, spread, epsilon
        Action features: "ordinal" is the paper's Y = [−spread … spread] + epsilon; other maps have no such options.
    tau_q, tau_e
        Steps during which Q̂ is completed, and during which it chooses; afterwards the last Q̂ stays, and actions are
        greedy on Q itself (Algorithm 1 hands over to the agent there).
    restart_below, restart_episodes
        Section 4's restart; None switches it off.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        hashing: str | HashedStates = "auto",
        hashing_options: dict[str, Any] | None = None,
        alpha: float = 0.1,
        gamma: float = 0.99,
        rank: int | None = None,
        lambda_1: float = 1.0,
        lambda_2: float = 1.0,
        reading: Reading = "zero_filled",
        init: Literal["random", "previous"] = "random",
        tolerance: float = 1e-4,
        max_iterations: int = 100,
        actions: str = "ordinal",
        spread: float = 10.0,
        epsilon: float | None = None,
        tau_q: int = 10_000,
        tau_e: int = 20_000,
        restart_below: float | None = None,
        restart_episodes: int = 5,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        self._alpha, self._gamma = positive("alpha", alpha), positive("gamma", gamma)
        if self._gamma > 1.0 or self._alpha > 1.0:
            name, value = ("gamma", gamma) if self._gamma > 1.0 else ("alpha", alpha)
            raise invalid(name, "must lie in (0, 1]", value, "Pass for example 0.99.")
        self._tau_q, self._tau_e = whole("tau_q", tau_q, 0), whole("tau_e", tau_e, 0)
        self._restart_below = None if restart_below is None else finite("restart_below", restart_below)
        self._restart_episodes = whole("restart_episodes", restart_episodes, 1)
        if hashing == "auto":
            hashing = "one_hot" if self._flatten.categorical.all() else "grid"
        hashed = state_features(hashing, self._state_space, seed=self._seed, **(hashing_options or {}))
        if not isinstance(hashed, HashedStates):
            raise invalid(
                "hashing", "must be a map to finitely many rows", hashing, 'Pass "grid", "simhash" or "one_hot".'
            )
        self._hash: HashedStates = hashed
        options = {"spread": spread} | ({} if epsilon is None else {"epsilon": epsilon}) if actions == "ordinal" else {}
        self.actions = action_features(actions, action_space, **options)
        self._options = {
            "rank": rank, "lambda_1": lambda_1, "lambda_2": lambda_2, "reading": reading, "init": init,
            "tolerance": tolerance, "max_iterations": max_iterations, "seed": self._seed,
        }  # fmt: skip
        self._completion = InductiveCompletion("multiplicative", **self._options)  # type: ignore[arg-type]
        # XᵀX is part of Eq. 3, so all rows have features from the start; their number is bounded by the hash.
        self._X = self._hash.row_features()
        self._table: dict[int, FloatArray] = {}  # visited rows of Q
        self._visits: dict[int, IntArray] = {}  # the same rows of Nq
        self._completed = False
        self._episodes = Episodes()
        self._returns: list[float] = []
        self.restarts = 0

    def reset(self) -> None:
        """Section 4 judges whole episodes only."""
        self._episodes = Episodes()

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        values = self._q_values(flat, states)
        if values is None:
            return self._rng.integers(self.actions.n_actions, size=len(flat))
        best = values >= values.max(axis=1, keepdims=True)
        keys = np.where(best, self._rng.random(values.shape), -1.0)  # a random one of the equal best
        return np.asarray(keys.argmax(axis=1), dtype=np.int64)

    def _learn(self, batch: Batch) -> None:
        if self._hash.observe(batch.next_flat):  # the cells moved: their features did too
            self._X = self._hash.row_features()
        rows, following = self._rows(batch)
        rewards, terminated = batch.rewards.tolist(), batch.terminated.tolist()
        for k, (row, after, action) in enumerate(zip(rows, following, batch.actions.tolist(), strict=True)):
            q, visits = self._row(row), self._visits[row]
            visits[action] += 1
            ahead = 0.0 if terminated[k] else self._gamma * float(self._row(after, add=False).max())
            q[action] += self._alpha * (rewards[k] + ahead - q[action])  # Eq. 1
            if self.steps + k < self._tau_q:
                value = float(q[action] / visits[action])  # Q̃ = Q / Nq
                if math.isfinite(value):
                    self._completion.partial_fit(self._X, self.actions.Y, row, action, value)
                    self._completed = True
        for total in self._episodes.follow(batch):
            self._end_episode(total)

    def _rows(self, batch: Batch) -> tuple[list[int], list[int]]:
        """Rows of Q of the states and of the next ones."""
        rows = self._hash.rows(np.concatenate([batch.flat, batch.next_flat])).tolist()
        return rows[: len(batch)], rows[len(batch) :]

    def _row(self, row: int, *, add: bool = True) -> FloatArray:
        if row not in self._table:
            if not add:
                return np.zeros(self.actions.n_actions)
            self._table[row] = np.zeros(self.actions.n_actions)
            self._visits[row] = np.zeros(self.actions.n_actions, dtype=np.int64)
        return self._table[row]

    def _end_episode(self, total: float) -> None:
        """Section 4: start again from a zero Q if the first episodes were bad."""
        if self._restart_below is None or len(self._returns) >= self._restart_episodes:
            return
        self._returns.append(total)
        if len(self._returns) == self._restart_episodes and np.mean(self._returns) < self._restart_below:
            self._table, self._visits, self._returns, self._completed = {}, {}, [], False
            seed = int(self._rng.integers(2**31))
            self._completion = InductiveCompletion("multiplicative", **(self._options | {"seed": seed}))  # type: ignore[arg-type]
            self.restarts += 1

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        rows = self._hash.rows(states)
        if self.steps >= self._tau_e and self._table:
            return np.stack([self._row(row, add=False) for row in rows.tolist()])
        if not self._completed:
            return None
        return np.asarray(self._completion.predict(self._X[rows], self.actions.Y), dtype=np.float64)

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return super().statistics() | {
            "visited_rows": float(len(self._table)),
            "observed_entries": float(self._completion.n_entries),
            "restarts": float(self.restarts),
        }

    def _state(self) -> State:
        rows = list(self._table)
        N = self.actions.n_actions
        state: State = {
            "rows": np.array(rows, dtype=np.int64),
            "q": np.array([self._table[row] for row in rows]).reshape(-1, N),
            "visits": np.array([self._visits[row] for row in rows], dtype=np.int64).reshape(-1, N),
            "returns": np.array(self._returns),
            "counters": np.array([self._completed, self.restarts], dtype=np.int64),
        }
        state |= prefixed("hash", self._hash.state_dict()) | prefixed("episodes", snapshot(self._episodes))
        if self._completed:
            state |= prefixed("completion", self._completion.state_dict())
        return state

    def _load(self, state: State) -> None:
        completed, self.restarts = (int(c) for c in state["counters"])
        self._completion = InductiveCompletion("multiplicative", **self._options)  # type: ignore[arg-type]
        if completed:
            self._completion.load_state_dict(part("completion", state))
        self._completed, self._returns = bool(completed), state["returns"].tolist()
        restore(self._episodes, part("episodes", state))
        self._hash.load_state_dict(part("hash", state))
        self._X = self._hash.row_features()
        self._table = dict(zip(state["rows"].tolist(), state["q"].copy(), strict=True))
        self._visits = dict(zip(state["rows"].tolist(), state["visits"].copy(), strict=True))
