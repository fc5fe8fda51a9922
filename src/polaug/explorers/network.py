"""Small multilayer perceptrons and Adam in plain NumPy: what bonus explorers predict with, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.explorers.base import FloatArray
from polaug.snapshot import saved

_SLOPE = 0.01  # of the rectifiers below zero: no unit dies for good


@saved("parameters")
class Network:
    """Fully connected layers with leaky rectifiers between them and a linear last one, drawn orthogonally from `rng`.

    `sizes` are the widths from input to output. All parameters live in one flat array (p,), in which the layers are
    views: optimiser and files handle one array, whatever the depth.
    """

    def __init__(self, sizes: Sequence[int], rng: np.random.Generator) -> None:
        self._shapes = list(pairwise(sizes))
        self.parameters: FloatArray = np.zeros(sum((inputs + 1) * outputs for inputs, outputs in self._shapes))
        self._layers = self._views(self.parameters)
        for weights, _ in self._layers:
            weights[:] = np.sqrt(2.0) * _orthogonal(weights.shape[0], weights.shape[1], rng)

    def _restored(self) -> None:
        self._layers = self._views(self.parameters)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Outputs (n, sizes[-1]) of inputs x (n, sizes[0])."""
        return self.forward(x)[-1]

    def forward(self, x: FloatArray) -> list[FloatArray]:
        """What enters each layer, and what leaves the last: all that `backward` needs."""
        values = [x]
        for k, (weights, biases) in enumerate(self._layers, 1):
            x = x @ weights
            x += biases
            if k < len(self._layers):
                np.maximum(x, _SLOPE * x, out=x)
            values.append(x)
        return values

    def backward(self, values: list[FloatArray], slopes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradients of a loss by the parameters (p,) and by the inputs (n, sizes[0]).

        `values` are from `forward`, `slopes` (n, sizes[-1]) is the loss's gradient by the outputs.
        """
        gradient = np.empty_like(self.parameters)
        views = self._views(gradient)
        for k in reversed(range(len(self._layers))):
            views[k][0][:] = values[k].T @ slopes
            views[k][1][:] = slopes.sum(axis=0)
            slopes = slopes @ self._layers[k][0].T
            if k:  # a leaky rectifier keeps the sign
                slopes *= np.where(values[k] > 0.0, 1.0, _SLOPE)
        return gradient, slopes

    def _views(self, flat: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        views, at = [], 0
        for inputs, outputs in self._shapes:
            middle, end = at + inputs * outputs, at + (inputs + 1) * outputs
            views.append((flat[at:middle].reshape(inputs, outputs), flat[middle:end]))
            at = end
        return views


@saved("moments", "updates")
class Adam:
    """Adam (Kingma and Ba, 2015) on the parameters of one network, which it changes in place."""

    def __init__(self, network: Any, rate: float) -> None:
        self._network, self._rate = network, rate
        self.moments = np.zeros((2, network.parameters.size), network.parameters.dtype)
        """Running means of the gradient and of its square (2, p)."""
        self.updates = 0

    def step(self, gradient: NDArray[Any]) -> None:
        """One step against `gradient` (p,)."""
        self.updates += 1
        first, second = self.moments
        first += 0.1 * (gradient - first)
        second += 0.001 * (np.square(gradient) - second)
        scale = np.sqrt(second / (1.0 - 0.999**self.updates)) + 1e-8
        self._network.parameters -= self._rate / (1.0 - 0.9**self.updates) * first / scale


def _orthogonal(rows: int, columns: int, rng: np.random.Generator) -> FloatArray:
    """A random matrix (rows, columns) whose shorter side is orthonormal."""
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))  # else the signs would be LAPACK's choice, not the generator's
    result: FloatArray = q if rows >= columns else q.T
    return result
