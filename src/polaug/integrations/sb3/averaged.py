"""The mean of a value network over its latest steps: single updates make it waver, and its greedy choices with it.

An agent of the DQN kind acts by the mean wherever it acts without exploration noise: in exams and in `predict(...,
deterministic=True)`. It learns, and explores, with the network itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from polaug.errors import StateError
from polaug.state import State

_WINDOW = 2_000  # steps
_EVERY = 8  # steps between two looks


class Averaged:
    """Follows `parameters()` from the last `restart` on."""

    def __init__(self, parameters: Callable[[], list[torch.nn.Parameter]]) -> None:
        self._parameters = parameters
        self._mean: list[torch.Tensor] = []
        self._over = self._waiting = 0  # steps that it is the mean over, and steps since the last look

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
        """Plain arrays."""
        means: State = {f"mean_{k}": mean.cpu().numpy().copy() for k, mean in enumerate(self._mean)}
        return means | {"counters": np.array([self._over, self._waiting, len(self._mean)], np.int64)}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        over, waiting, count = (int(number) for number in state["counters"])
        own = self._parameters()
        means = [torch.from_numpy(np.array(state[f"mean_{k}"])) for k in range(count)]
        if means and [tuple(mean.shape) for mean in means] != [tuple(parameter.shape) for parameter in own]:
            raise StateError("averaged: its parameters are not those of this agent. The state is damaged.")
        self._mean = [mean.to(parameter.device) for mean, parameter in zip(means, own, strict=False)]
        self._over, self._waiting = over, waiting
