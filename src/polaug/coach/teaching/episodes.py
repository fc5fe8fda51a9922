"""Steps of finished episodes of guide and agent, with their discounted returns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.coach.teaching.memory import Memory, columns_of, row_of, rows_from, stacked
from polaug.errors import StateError
from polaug.explorers import Transitions
from polaug.state import State


class FinishedEpisodes:
    """Stores the steps of episodes with their returns-to-go when the episodes end.

    With `best_half`, only episodes that are at least as good as the median of the last twenty are kept. With
    `whole_tails`, steps near a truncation are left out, because their returns are incomplete.

    In very long episodes, steps that lie far back are stored before the end, with their return so far.
    """

    def __init__(self, gamma: float, capacity: int, *, best_half: bool = False, whole_tails: bool = False) -> None:
        self._gamma, self._best_half, self._whole_tails = gamma, best_half, whole_tails
        self._memories = {name: Memory(capacity, name) for name in ("states", "actions", "returns")}
        self._capacity, self._tail = capacity, int(1.0 / max(1.0 - gamma, 1e-3))  # the latter: steps that matter ahead
        self._totals = np.zeros(0)
        self._so_far = np.zeros(0)  # totals of unfinished episodes
        self._open: list[list[tuple[Any, NDArray[Any], float]]] = []

    def __len__(self) -> int:
        return len(self._memories["returns"])

    @property
    def returns(self) -> NDArray[Any]:
        """All returns kept."""
        return np.asarray(self._memories["returns"].rows)

    def rows(self, at: NDArray[np.int64]) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        """Raw states, actions and returns of the steps `at`."""
        states, actions, returns = (memory.at(at) for memory in self._memories.values())
        return states, actions, returns

    def watch(self, transitions: Transitions) -> None:
        """Record one step of each environment."""
        n, actions = len(transitions.rewards), np.asarray(transitions.actions)
        if len(self._open) != n:
            self._open, self._so_far = [[] for _ in range(n)], np.zeros(n)
        longest = max(self._capacity // n, 2 * self._tail)
        rewards = np.asarray(transitions.rewards).tolist()
        terminated, truncated = np.asarray(transitions.terminated).tolist(), np.asarray(transitions.truncated).tolist()
        for env, steps in enumerate(self._open):
            steps.append((row_of(transitions.observations, env), np.array(actions[env]), float(rewards[env])))
            self._so_far[env] += rewards[env]
            if terminated[env] or truncated[env]:
                total, self._so_far[env] = float(self._so_far[env]), 0.0
                self._totals = np.append(self._totals, total)[-20:]
                stopped = bool(truncated[env]) and self._whole_tails
                self._keep(steps, total, max(len(steps) - self._tail, 0) if stopped else len(steps))
                steps.clear()
            elif len(steps) >= longest:
                early = len(steps) - self._tail
                self._keep(steps, float(self._so_far[env]), early)
                del steps[:early]

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._open, self._so_far = [], np.zeros(0)

    def _keep(self, steps: list[tuple[Any, NDArray[Any], float]], total: float, end: int) -> None:
        """Store the steps before `end` with their returns, if their episode is good enough."""
        if not end or (self._best_half and len(self._totals) and total < np.median(self._totals)):
            return
        returns, ahead = np.zeros(len(steps), dtype=np.float32), 0.0
        for t in range(len(steps) - 1, -1, -1):
            ahead = steps[t][2] + self._gamma * ahead
            returns[t] = ahead
        self._memories["states"].add(stacked([state for state, _, _ in steps[:end]]))
        self._memories["actions"].add(np.stack([action for _, action, _ in steps[:end]]))
        self._memories["returns"].add(returns[:end])

    def state_dict(self) -> State:
        """All steps, also those of unfinished episodes."""
        state: State = {"totals": self._totals.copy(), "so_far": self._so_far.copy()}
        for memory in self._memories.values():
            state |= memory.state_dict()
        steps = [step for episode in self._open for step in episode]
        state["open_lengths"] = np.array([len(episode) for episode in self._open], dtype=np.int64)
        if steps:
            states, actions, rewards = zip(*steps, strict=True)
            state |= columns_of("open_states", stacked(list(states)))
            state |= {"open_actions": np.stack(actions), "open_rewards": np.array(rewards)}
        return state

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        for memory in self._memories.values():
            memory.load_state_dict(state)
        self._totals, self._so_far = state["totals"].astype(float), state["so_far"].astype(float)
        lengths = state["open_lengths"]
        total = int(lengths.sum())
        steps: list[tuple[Any, NDArray[Any], float]] = []
        if total:
            states, actions, rewards = rows_from("open_states", state), state["open_actions"], state["open_rewards"]
            columns = [*(states.values() if isinstance(states, dict) else [states]), actions, rewards]
            if {len(column) for column in columns} != {total}:
                raise StateError("open: its arrays do not fit together. The state is damaged.")
            steps = [(row_of(states, k), actions[k].copy(), float(rewards[k])) for k in range(total)]
        if lengths.shape != self._so_far.shape:
            raise StateError("open: its arrays do not fit together. The state is damaged.")
        ends = np.cumsum(lengths).tolist()
        self._open = [steps[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]
