"""Standardised inputs of the pupil's first layer: (x − mean) / width, fitted to the visited states.

Adam moves all weights by similar amounts. Without standardisation, an input that varies by 0.07 is learnt slowly, and
one of 10,000 ± 1,000 makes the network unstable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from polaug.errors import StateError
from polaug.state import State

Tensor = torch.Tensor

SPREAD = 1.5
"""Standard deviation of what a unit of a new first layer receives, so that tanh and ReLU units are active."""

GROWN = 1.5
"""Fit again when the width of an input has grown by this factor."""

_MOVED = 0.1  # a network with a weight that moved further than this counts as trained


class Standardise(torch.nn.Module):
    """(x − mean) / width for each of `size` inputs; the identity until it is fitted.

    Examples
    --------
    >>> import torch
    >>> from polaug.coach import Standardise
    >>> network = torch.nn.Sequential(Standardise(4), torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))
    """

    mean: Tensor
    width: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("width", torch.ones(size))

    def forward(self, inputs: Tensor) -> Tensor:
        """Standardised inputs (n, size)."""
        return (inputs - self.mean) / self.width


class FirstLayer:
    """Fits the pupil's `Standardise` modules, and keeps or redraws the linear layers behind them.

    The layers of an untrained network are redrawn: each unit bends at a random state. Those of a trained network are
    changed so that the network's outputs stay what they were.
    """

    def __init__(
        self,
        modules: Callable[[], Sequence[Standardise]],
        layers: Callable[[], Sequence[torch.nn.Linear]],
        untrained: bool,
    ) -> None:
        self._modules, self._layers = modules, layers
        self._born = [_weights(layer) for layer in layers()] if untrained else []

    def fit(self, columns: Tensor, rng: np.random.Generator) -> bool:
        """Fit to `columns` (n, size) of what the modules see if it is time to. True if the layers were redrawn."""
        modules, layers = self._modules(), self._layers()
        if not modules or not layers or len(columns) < 2:
            return False
        mean, width = columns.mean(dim=0), input_width(columns)
        first = modules[0]
        fresh = bool((first.width == 1.0).all() and (first.mean == 0.0).all())
        if not fresh and not bool((width > GROWN * first.width).any()):
            return False
        if not fresh:  # it only grows: states that are no longer visited are still in the memory of the network
            width = torch.maximum(width, first.width)
        redraw = fresh and self._is_untrained(layers)
        old_mean, old_width = first.mean.clone(), first.width.clone()
        for module in modules:
            module.mean.copy_(mean)
            module.width.copy_(width)
        standardised = (columns - mean) / width
        for layer in layers:
            if redraw and layer.in_features == len(mean):  # a critic's sees actions as well
                _redraw(layer, standardised, rng)
            else:
                _keep_function(layer, (mean - old_mean) / old_width, width / old_width)
        return redraw

    def _is_untrained(self, layers: Sequence[torch.nn.Linear]) -> bool:
        return bool(self._born) and all(
            bool((layer.weight.detach().cpu() - torch.from_numpy(born)).abs().max() <= _MOVED)
            for layer, born in zip(layers, self._born, strict=True)
        )

    def state_dict(self) -> State:
        """The initial weights, which show whether the network has been trained."""
        return {f"born.{k}": array.copy() for k, array in enumerate(self._born)}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        born = [state[f"born.{k}"].copy() for k in range(len(state))]
        if born and [array.shape for array in born] != [tuple(layer.weight.shape) for layer in self._layers()]:
            raise StateError("born: belongs to another network. The state is damaged.")
        self._born = born


def input_width(inputs: Tensor) -> Tensor:
    """The width (d,) of each column of `inputs` (n, d): its standard deviation, or a sixth of its range if that is more
    (a contact that is rarely made deviates by little, but when it is made it is 1); 1 for columns that never vary.
    """
    width = torch.maximum(inputs.std(dim=0), (inputs.amax(dim=0) - inputs.amin(dim=0)) / 6.0)
    return torch.where(width > 1e-6 * inputs.abs().amax(dim=0).clamp(min=1e-6), width, torch.ones_like(width))


def _weights(layer: torch.nn.Linear) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return layer.weight.detach().cpu().numpy().copy()


@torch.no_grad()
def _redraw(layer: torch.nn.Linear, inputs: Tensor, rng: np.random.Generator) -> None:
    """Keep the directions, and let each unit bend at a random state."""
    received = (inputs @ layer.weight.T).std(dim=0)
    layer.weight.mul_(SPREAD / max(math.sqrt(float(received.square().mean())), 1e-12))
    if layer.bias is not None:
        centres = inputs[torch.from_numpy(rng.integers(len(inputs), size=len(layer.weight)))]
        layer.bias.copy_(-(layer.weight * centres).sum(dim=1))


@torch.no_grad()
def _keep_function(layer: torch.nn.Linear, shift: Tensor, stretch: Tensor) -> None:
    """The first inputs x become (x − shift) / stretch: the layer's outputs stay the same."""
    weight = layer.weight[:, : len(shift)]
    layer.bias.add_(weight @ shift)
    weight.mul_(stretch)
