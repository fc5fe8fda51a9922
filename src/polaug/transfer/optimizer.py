"""The lessons' own Adam, so that they never disturb the moments of the agent's optimizer; its state is plain arrays.

Adam moves all weights alike, so an input that varies by 0.07 (MountainCar's velocity) is learnt a dozen times more
slowly than one that varies by 1. Steps of first-layer weights are therefore scaled as if the inputs were standardised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from polaug.errors import StateError
from polaug.state import State

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")
_SCALING = (0.1, 100.0)


def input_width(inputs: torch.Tensor) -> torch.Tensor:
    """The width (d,) of each column of `inputs` (n, d): its standard deviation, or a sixth of its range if that is more
    (a contact that is seldom made deviates by little, but when it is made it is 1); 1 for columns that never vary.
    """
    columns = inputs.float()
    width = torch.maximum(columns.std(dim=0), (columns.amax(dim=0) - columns.amin(dim=0)) / 6.0)
    return torch.where(width > 1e-6, width, torch.ones_like(width))


def input_factor(inputs: torch.Tensor) -> torch.Tensor | None:
    """How much further weights of each input column must move than standardised ones; None without columns."""
    return (1.0 / input_width(inputs)).clamp(*_SCALING) if inputs.dim() == 2 else None


class TeachingOptimizer:
    """Adam on the agent's parameters, built at its first step."""

    def __init__(
        self,
        parameters: Callable[[], Sequence[torch.nn.Parameter]],
        rate: float,
        first_layers: Callable[[], Sequence[torch.nn.Linear]] = tuple,
    ) -> None:
        self._parameters, self._rate, self._first_layers = parameters, rate, first_layers
        self._adam: torch.optim.Adam | None = None
        self._first: list[torch.Tensor] = []

    def _build(self) -> torch.optim.Adam:
        # Looked up once: walking through the network takes longer than a step.
        self._first = [layer.weight for layer in self._first_layers()]
        # The fused kernel takes a third off a small network's step.
        return torch.optim.Adam(list(self._parameters()), lr=self._rate, fused=True)

    def step(self, loss: torch.Tensor, factor: torch.Tensor | None = None, share: float = 1.0) -> None:
        """Follow the gradient of `loss` once, with a `share` of the rate; gradients are gone afterwards.

        `factor` (d,) stretches the steps of first-layer weights; see `input_factor`.
        """
        if self._adam is None:
            self._adam = self._build()
        self._adam.param_groups[0]["lr"] = share * self._rate
        self._forget_gradients(self._adam)
        loss.backward()  # type: ignore[no-untyped-call]
        first = [] if factor is None else [weight for weight in self._first if weight.grad is not None]
        before = [weight.detach().clone() for weight in first]
        self._adam.step()
        if factor is not None:
            with torch.no_grad():
                for weight, old in zip(first, before, strict=True):
                    weight.copy_(old + (weight - old) * factor)
        self._forget_gradients(self._adam)

    def forget(self) -> None:
        """Start anew: the network is another one."""
        self._adam = None

    @staticmethod
    def _forget_gradients(adam: torch.optim.Adam) -> None:
        for parameter in adam.param_groups[0]["params"]:  # as zero_grad, without its profiling, which costs more
            parameter.grad = None

    def state_dict(self) -> State:
        """Moments of each parameter that has any."""
        if self._adam is None:
            return {}
        stored = self._adam.state_dict()["state"]
        return {f"adam.{k}.{name}": stored[k][name].detach().cpu().numpy() for k in stored for name in _MOMENTS}

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`."""
        found = {key: array for key, array in state.items() if key.startswith("adam.")}
        if not found:
            self._adam = None
            return
        adam = self._build()
        parameters = adam.param_groups[0]["params"]
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for key, array in found.items():
            _, number, name = key.split(".", 2)
            k = int(number)
            shape = parameters[k].shape if name != "step" else ()
            if name not in _MOMENTS or tuple(array.shape) != tuple(shape):
                raise StateError(f"{key}: must have shape {tuple(shape)}, got {array.shape}. The state is damaged.")
            moments.setdefault(k, {})[name] = torch.from_numpy(np.array(array))
        groups = adam.state_dict()["param_groups"]
        adam.load_state_dict({"state": moments, "param_groups": groups})
        self._adam = adam
