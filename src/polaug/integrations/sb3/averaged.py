"""The mean of a value network over its latest steps: single updates make it waver, and its greedy choices with it.

An agent of the DQN kind acts by the mean wherever it acts without exploration noise: in exams and in `predict(...,
deterministic=True)`. It learns, and explores, with the network itself. Its file holds the mean as the policy, so that
whoever loads it, with whatever class, has the agent that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from polaug.errors import StateError
from polaug.state import State

_WINDOW = 2_000  # steps
_EVERY = 16  # steps between two looks


class Averaged:
    """Follows `parameters()` from the last `restart` on."""

    def __init__(self, parameters: Callable[[], list[torch.nn.Parameter]]) -> None:
        self._look_up = parameters
        self._found: list[torch.nn.Parameter] = []
        self._mean: list[torch.Tensor] = []
        self._over = self._waiting = 0  # steps that it is the mean over, and steps since the last look

    def _parameters(self) -> list[torch.nn.Parameter]:
        """Looked up once, since walking through modules takes as long as acting; SB3 puts new numbers into the same."""
        self._found = self._found or self._look_up()
        return self._found

    def restart(self) -> None:
        """The network has become another one: what it was says nothing any more."""
        self._mean, self._over, self._waiting = [], 0, 0

    def follow(self, steps: int) -> None:
        """So many steps have passed."""
        self._waiting += steps
        if self._waiting < _EVERY:
            return
        present = [parameter.data for parameter in self._parameters()]
        self._over = min(self._over + self._waiting, _WINDOW)
        if self._mean:
            for mean, now in zip(self._mean, present, strict=True):
                mean.lerp_(now, min(self._waiting / self._over, 1.0))
        else:
            self._mean = [now.clone() for now in present]
        self._waiting = 0

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The mean is in the place of the network, as long as nobody trains it."""
        parameters = self._parameters() if self._mean else []
        own = [parameter.data for parameter in parameters]
        try:
            for parameter, mean in zip(parameters, self._mean, strict=True):
                parameter.data = mean
            yield
        finally:
            for parameter, data in zip(parameters, own, strict=True):
                parameter.data = data

    def state_dict(self) -> State:
        """The network itself as plain arrays: a file of the agent holds the mean in its place."""
        parameters = self._parameters() if self._mean else []
        own: State = {f"own_{k}": each.detach().cpu().numpy().copy() for k, each in enumerate(parameters)}
        return own | {"counters": np.array([self._over, self._waiting, len(parameters)], np.int64)}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`, once the agent has its parameters back: these are the mean, and become the network
        that was saved. On an error nothing has changed.
        """
        over, waiting, count = (int(number) for number in state["counters"])
        parameters = self._parameters()
        own = [torch.from_numpy(np.array(state[f"own_{k}"])) for k in range(count)]
        if own and [tuple(each.shape) for each in own] != [tuple(parameter.shape) for parameter in parameters]:
            raise StateError("averaged: its parameters are not those of this agent. The state is damaged.")
        self._mean = [parameter.detach().clone() for parameter in parameters] if own else []
        with torch.no_grad():
            for parameter, each in zip(parameters, own, strict=False):
                parameter.copy_(each)
        self._over, self._waiting = over, waiting
