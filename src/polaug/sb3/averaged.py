"""The mean of a value network over its latest steps. Its greedy choices vary less than those of the network itself.

DQN and QRDQN use the mean when they act without exploration noise: in evaluation episodes and in `predict(...,
deterministic=True)`. They learn and explore with the network itself. The saved policy is the mean, so any class that
loads the file gets the evaluated agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from polaug.errors import StateError
from polaug.state import State

_WINDOW = 2_000  # steps
_EVERY = 16  # steps between two samples of the network


class Averaged:
    """The mean of `parameters()` since the last `restart`."""

    def __init__(self, parameters: Callable[[], list[torch.nn.Parameter]]) -> None:
        self._look_up = parameters
        self._found: list[torch.nn.Parameter] = []
        self._mean: list[torch.Tensor] = []
        self._over = self._waiting = 0  # steps in the mean, and steps since the last sample

    def _parameters(self) -> list[torch.nn.Parameter]:
        """Looked up once, because it is slow. SB3 changes parameters in place."""
        self._found = self._found or self._look_up()
        return self._found

    def restart(self) -> None:
        """Start a new mean: teaching has changed the network."""
        self._mean, self._over, self._waiting = [], 0, 0

    def follow(self, steps: int) -> None:
        """Count `steps` environment steps, and update the mean if it is time to."""
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
        """Put the mean in place of the network. Do not train meanwhile."""
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
        """The network itself as plain arrays, because the agent's file holds the mean."""
        parameters = self._parameters() if self._mean else []
        own: State = {f"own_{k}": each.detach().cpu().numpy().copy() for k, each in enumerate(parameters)}
        return own | {"counters": np.array([self._over, self._waiting, len(parameters)], np.int64)}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict` after the agent's parameters, which are the mean. An error changes nothing."""
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
