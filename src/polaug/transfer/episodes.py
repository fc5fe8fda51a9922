"""Steps of finished episodes with their discounted returns, whoever drove."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.exploration import Transitions
from polaug.state import State
from polaug.transfer.memory import Memory


class FinishedEpisodes:
    """Follows all environments; when an episode ends, its steps are kept with their returns-to-go.

    With `best_half`, only episodes that are at least as good as the median of the last twenty are kept. With
    `whole_tails`, steps near a truncation are left out: what would have come after it is missing in their returns.
    """

    def __init__(self, gamma: float, capacity: int, *, best_half: bool = False, whole_tails: bool = False) -> None:
        self._gamma, self._best_half, self._whole_tails = gamma, best_half, whole_tails
        self._memories = {name: Memory(capacity, name) for name in ("states", "actions", "returns")}
        self._totals = np.zeros(0)
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
            self._open = [[] for _ in states]
        for env, steps in enumerate(self._open):
            steps.append((states[env], actions[env], float(transitions.rewards[env])))
            if transitions.terminated[env] or transitions.truncated[env]:
                self._keep(steps, bool(transitions.truncated[env]))
                steps.clear()

    def restart(self) -> None:
        """Forget unfinished episodes."""
        self._open = []

    def _keep(self, steps: list[tuple[NDArray[Any], NDArray[Any], float]], truncated: bool) -> None:
        total = sum(reward for _, _, reward in steps)
        self._totals = np.append(self._totals, total)[-20:]
        if self._best_half and total < np.median(self._totals):
            return
        returns, ahead = np.zeros(len(steps), dtype=np.float32), 0.0
        for t in range(len(steps) - 1, -1, -1):
            ahead = steps[t][2] + self._gamma * ahead
            returns[t] = ahead
        end = len(steps)
        if truncated and self._whole_tails:
            end -= min(end, int(1.0 / max(1.0 - self._gamma, 1e-3)))
        if end:
            self._memories["states"].add(np.stack([state for state, _, _ in steps[:end]]))
            self._memories["actions"].add(np.stack([action for _, action, _ in steps[:end]]))
            self._memories["returns"].add(returns[:end])

    def state_dict(self) -> State:
        """Finished episodes; unfinished ones are not kept, since environments restart."""
        state: State = {"totals": self._totals.copy()}
        for memory in self._memories.values():
            state |= memory.state_dict()
        return state

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        for memory in self._memories.values():
            memory.load_state_dict(state)
        self._totals, self._open = state["totals"].astype(float), []
