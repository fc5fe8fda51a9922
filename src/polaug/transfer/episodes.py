"""Steps of finished episodes with their discounted returns, whoever drove."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.exploration import Transitions
from polaug.state import State
from polaug.transfer.memory import Memory

_COLUMNS = ("open_states", "open_actions", "open_rewards")  # of unfinished episodes, in a state


class FinishedEpisodes:
    """Follows all environments; when an episode ends, its steps are kept with their returns-to-go.

    With `best_half`, only episodes that are at least as good as the median of the last twenty are kept. With
    `whole_tails`, steps near a truncation are left out: what would have come after it is missing in their returns.

    Where no end comes, about `capacity` steps of all environments wait for one: what lies far back is kept with the
    return so far, to which what comes would hardly add. The total so far then decides whether the episode is good.
    """

    def __init__(self, gamma: float, capacity: int, *, best_half: bool = False, whole_tails: bool = False) -> None:
        self._gamma, self._best_half, self._whole_tails = gamma, best_half, whole_tails
        self._memories = {name: Memory(capacity, name) for name in ("states", "actions", "returns")}
        self._capacity, self._tail = capacity, int(1.0 / max(1.0 - gamma, 1e-3))  # the latter: steps that matter ahead
        self._totals = np.zeros(0)
        self._so_far = np.zeros(0)  # totals of the episodes under way
        self._open: list[list[tuple[NDArray[Any], NDArray[Any], float]]] = []

    def __len__(self) -> int:
        return len(self._memories["returns"])

    @property
    def returns(self) -> NDArray[Any]:
        """All returns kept."""
        return self._memories["returns"].rows

    def rows(self, at: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Raw states, actions and returns of the steps `at`."""
        states, actions, returns = (memory.rows[at] for memory in self._memories.values())
        return states, actions, returns

    def watch(self, transitions: Transitions) -> None:
        """Take in one step of each environment."""
        # Copies: environments may reuse theirs.
        states, actions = np.array(transitions.observations), np.array(transitions.actions)
        if len(self._open) != len(states):
            self._open, self._so_far = [[] for _ in states], np.zeros(len(states))
        longest = max(self._capacity // len(states), 2 * self._tail)
        for env, steps in enumerate(self._open):
            reward = float(transitions.rewards[env])
            steps.append((states[env], actions[env], reward))
            self._so_far[env] += reward
            if transitions.terminated[env] or transitions.truncated[env]:
                total, self._so_far[env] = float(self._so_far[env]), 0.0
                self._totals = np.append(self._totals, total)[-20:]
                stopped = bool(transitions.truncated[env]) and self._whole_tails
                self._keep(steps, total, max(len(steps) - self._tail, 0) if stopped else len(steps))
                steps.clear()
            elif len(steps) >= longest:
                early = len(steps) - self._tail
                self._keep(steps, float(self._so_far[env]), early)
                del steps[:early]

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._open, self._so_far = [], np.zeros(0)

    def _keep(self, steps: list[tuple[NDArray[Any], NDArray[Any], float]], total: float, end: int) -> None:
        """Remember the steps before `end` with their returns, if their episode is worth it."""
        if not end or (self._best_half and len(self._totals) and total < np.median(self._totals)):
            return
        returns, ahead = np.zeros(len(steps), dtype=np.float32), 0.0
        for t in range(len(steps) - 1, -1, -1):
            ahead = steps[t][2] + self._gamma * ahead
            returns[t] = ahead
        self._memories["states"].add(np.stack([state for state, _, _ in steps[:end]]))
        self._memories["actions"].add(np.stack([action for _, action, _ in steps[:end]]))
        self._memories["returns"].add(returns[:end])

    def state_dict(self) -> State:
        """All steps, also of unfinished episodes: environments may go on."""
        state: State = {"totals": self._totals.copy(), "so_far": self._so_far.copy()}
        for memory in self._memories.values():
            state |= memory.state_dict()
        steps = [step for episode in self._open for step in episode]
        state["open_lengths"] = np.array([len(episode) for episode in self._open], dtype=np.int64)
        for name, column in zip(_COLUMNS, zip(*steps, strict=True), strict=False):  # without steps there are none
            state[name] = np.stack(column)
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        for memory in self._memories.values():
            memory.load_state_dict(state)
        self._totals, self._so_far = state["totals"].astype(float), state["so_far"].astype(float)
        lengths = state["open_lengths"]
        columns = [state[name] for name in _COLUMNS] if lengths.sum() else [np.zeros(0)] * len(_COLUMNS)
        if lengths.shape != self._so_far.shape or {len(column) for column in columns} != {int(lengths.sum())}:
            raise StateError("open: its arrays do not fit together. The state is damaged.")
        states, actions, rewards = columns
        steps = list(zip(states.copy(), actions.copy(), rewards.tolist(), strict=True))
        ends = np.cumsum(lengths).tolist()
        self._open = [steps[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]
