"""`deep_q`: an off-policy Q network (DQN, Mnih et al., 2015), for tasks of which no smooth model can be fitted.

It learns from every transition, also the agent's. It combines n-step returns (Rainbow, Hessel et al., 2018),
layer normalisation (Ba et al., 2016), averaged target networks (Lillicrap et al., 2016) and a target that is the
smaller one of two networks (TD3, Fujimoto et al., 2018), but never less than the return that the episode achieved
(optimality tightening, He et al., 2017; self-imitation, Oh et al., 2018). It acts by the averaged networks, with a
little noise.

NumPy and two compiled loops compute the gradients: explorers do not import torch, and for networks of this size it
takes less time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import positive
from polaug.compiled import compiled
from polaug.errors import invalid
from polaug.explorers.base import Batch, Explorer, FloatArray, IntArray
from polaug.explorers.experience import settings
from polaug.explorers.network import Adam
from polaug.explorers.threads import one_thread
from polaug.explorers.whitening import Whitening
from polaug.features.spaces import Space
from polaug.snapshot import saved

Float32Array = NDArray[np.float32]

_TINY = np.float32(1e-5)


@compiled
def _rectified(sums: Float32Array, biases: Float32Array, scale: Float32Array, out: Float32Array) -> None:
    """Normalise sums (M, n, h) to mean 0 and variance 1 over h, in place; `out` is their rectified sum with biases."""
    members, n, width = sums.shape
    for m in range(members):
        for i in range(n):
            row, square = sums[m, i], sums.dtype.type(0.0)
            mean = row.sum() / row.dtype.type(width)
            for j in range(width):
                row[j] -= mean
                square += row[j] * row[j]
            scale[m, i] = 1.0 / np.sqrt(square / row.dtype.type(width) + _TINY)
            for j in range(width):
                row[j] *= scale[m, i]
                out[m, i, j] = max(row[j] + biases[m, 0, j], row.dtype.type(0.0))


@compiled
def _slopes_of_sums(
    slopes: Float32Array, out: Float32Array, normalised: Float32Array, scale: Float32Array, biases: Float32Array
) -> None:
    """Gradient by `out` of `_rectified` to that by the sums, in place, and by the biases (M, 1, h)."""
    members, n, width = slopes.shape
    biases[:] = 0.0
    for m in range(members):
        for i in range(n):
            row, mean, along = slopes[m, i], slopes.dtype.type(0.0), slopes.dtype.type(0.0)
            for j in range(width):
                if not out[m, i, j] > 0.0:
                    row[j] = 0.0
                biases[m, 0, j] += row[j]
                mean += row[j]
                along += row[j] * normalised[m, i, j]
            mean, along = mean / row.dtype.type(width), along / row.dtype.type(width)
            for j in range(width):
                row[j] = (row[j] - mean - along * normalised[m, i, j]) * scale[m, i]


@saved("parameters")
class Ensemble:
    """M networks with layer normalisation and rectifiers, evaluated together; all parameters are in one array (p,)."""

    def __init__(self, members: int, sizes: tuple[int, ...], rng: np.random.Generator) -> None:
        self._members, self._shapes = members, list(pairwise(sizes))
        count = members * sum((inputs + 1) * outputs for inputs, outputs in self._shapes)
        self.parameters: Float32Array = np.zeros(count, np.float32)
        self._layers = self._views(self.parameters)
        for k, (weights, _) in enumerate(self._layers, 1):
            weights[:] = rng.standard_normal(weights.shape) * np.sqrt(2.0 / weights.shape[1])
            if k == len(self._layers):
                weights *= 0.1

    def _restored(self) -> None:
        self._layers = self._views(self.parameters)

    def _views(self, flat: Float32Array) -> list[tuple[Float32Array, Float32Array]]:
        """Weights (M, inputs, outputs) and biases (M, 1, outputs) of each layer."""
        views, at = [], 0
        for inputs, outputs in self._shapes:
            middle = at + self._members * inputs * outputs
            end = middle + self._members * outputs
            weights = flat[at:middle].reshape(self._members, inputs, outputs)
            views.append((weights, flat[middle:end].reshape(self._members, 1, outputs)))
            at = end
        return views

    def __call__(self, x: Float32Array) -> Float32Array:
        """Outputs (M, n, ·) of inputs x (n, ·), or (M, n, ·): other ones for each member."""
        return self.forward(x)[0]

    def forward(self, x: Float32Array) -> tuple[Float32Array, list[tuple[Float32Array, Float32Array, Float32Array]]]:
        """The outputs, and of each hidden layer what `backward` needs: its inputs, normalised sums and their scale."""
        passed = []
        for weights, biases in self._layers[:-1]:
            sums = x @ weights
            scale, following = np.empty(sums.shape[:2], sums.dtype), np.empty_like(sums)
            _rectified(sums, biases, scale, following)
            passed.append((x, sums, scale))
            x = following
        weights, biases = self._layers[-1]
        passed.append((x, x, x))
        return x @ weights + biases, passed

    def backward(
        self, passed: list[tuple[Float32Array, Float32Array, Float32Array]], slopes: Float32Array
    ) -> Float32Array:
        """Gradient (p,) of a loss by the parameters; `slopes` (M, n, ·) is its gradient by the outputs."""
        gradient = np.empty_like(self.parameters)
        views = self._views(gradient)
        for k in reversed(range(len(self._layers))):
            x, normalised, scale = passed[k]
            if k < len(self._layers) - 1:
                _slopes_of_sums(slopes, passed[k + 1][0], normalised, scale, views[k][1])
            else:
                slopes.sum(axis=1, keepdims=True, out=views[k][1])
            np.matmul(x.swapaxes(-1, -2), slopes, out=views[k][0])
            if k:
                slopes = slopes @ self._layers[k][0].swapaxes(-1, -2)
        return gradient


_LONGEST = 5_000  # steps of an episode whose achieved returns are kept
_NUMBERS = 10_000_000  # that the replay holds at most: with many dimensions fewer transitions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepQOptions:
    """Settings of the networks and of their learning."""

    n_step: int = 5
    """Rewards that are summed before the value of the state that follows."""
    members: int = 2
    """Networks, the smaller one of which gives the targets."""
    hidden: int = 128
    """Units of each of their two hidden layers."""
    learning_rate: float = 5e-4
    """Learning rate of Adam."""
    batch_size: int = 64
    """Transitions in a minibatch."""
    updates: float = 1.0
    """Updates for each observed step."""
    tau: float = 0.005
    """Share of the networks in their running average, which gives the targets, acts and teaches."""
    achieved: bool = True
    """Whether no target is below the return that followed in the same episode. What was achieved once can be achieved
    again, unless by luck: switch it off where rewards or transitions are very random."""
    epsilon: float = 0.02
    """Share of random actions after `epsilon_steps`."""
    epsilon_steps: int = 5_000
    """Observed steps in which the share of random actions falls from 1 to `epsilon`."""
    warm_up: int = 500
    """Observed steps before the first update."""
    capacity: int = 100_000
    """Transitions kept; fewer where they have many dimensions."""


@saved("_inputs", "_networks", "_averaged", "_adam", "_rows", "_added", "_squares", "_under_way", "_paths", "_due")
class DeepQExplorer(Explorer):
    """Q-learning with a small ensemble of networks, from everything that was seen.

    Parameters
    ----------
    gamma
        Discount.
    deep_q
        `DeepQOptions`, or a dict of some of their fields.
    **common
        `seed` and `features`, as for all explorers.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        gamma: float = 0.99,
        deep_q: DeepQOptions | Mapping[str, Any] | None = None,
        **common: Any,
    ) -> None:
        super().__init__(observation_space, action_space, **common)
        options = self._options = settings("deep_q", deep_q, DeepQOptions)
        shares = {"gamma": gamma, "deep_q.tau": options.tau, "deep_q.epsilon": options.epsilon}
        for name, share in shares.items():
            if not 0.0 < share < 1.0:
                raise invalid(name, "must lie in (0, 1)", share, f"Pass for example {name}=0.01.")
        self._gamma = float(gamma)
        self._inputs = Whitening(self._flatten, 10.0)
        sizes = (self._inputs.size + 1, options.hidden, options.hidden, self.actions.n_actions)
        self._networks = Ensemble(options.members, sizes, self._rng)
        self._averaged = Ensemble(options.members, sizes, self._rng)
        self._averaged.parameters[:] = self._networks.parameters
        self._adam = Adam(self._networks, positive("deep_q.learning_rate", options.learning_rate))
        d = self._flatten.size
        self._capacity = max(min(options.capacity, _NUMBERS // (2 * d + 4)), options.batch_size)
        self._replay: FloatArray = np.zeros((1024, 2 * d + 4))
        """State, next state, action, n-step return, its discount, and the return achieved, -inf if unknown."""
        self._added = 0
        """Rows ever added; the oldest ones are replaced."""
        self._squares = 0.0  # of the n-step returns, summed: their root mean square is the unit of Q
        self._under_way: list[list[tuple[FloatArray, int, float]]] = []  # the last steps of each environment
        self._paths: list[list[tuple[int, float]]] = []  # of its episode: number of each row added, reward
        self._due = 0.0  # updates

    # -- acting -----------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """The last steps of episodes under way are learnt without what would have followed: dropped."""
        self._under_way, self._paths = [], []

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        options = self._options
        noise = max(options.epsilon, 1.0 - (1.0 - options.epsilon) * self.steps / options.epsilon_steps)
        chosen = self._rng.integers(self.actions.n_actions, size=len(flat))
        greedy = self._rng.random(len(flat)) >= noise
        if greedy.any() and self._adam.updates:
            chosen[greedy] = self._mean(flat[greedy]).argmax(axis=1)
        return chosen

    def _mean(self, flat: FloatArray) -> Float32Array:
        mean: Float32Array = self._averaged(self._network_inputs(flat)).mean(axis=0)
        return mean

    def _network_inputs(self, flat: FloatArray) -> Float32Array:
        """Whitened observations and a constant 1, without which layer normalisation would forget how large they are."""
        inputs = np.ones((len(flat), self._inputs.size + 1), np.float32)
        inputs[:, :-1] = self._inputs(flat)
        return inputs

    def _q_values(self, flat: FloatArray, states: Any) -> FloatArray | None:
        return self._mean(flat).astype(np.float64) * self._unit if self._adam.updates else None

    @property
    def _unit(self) -> float:
        return float(np.sqrt(self._squares / max(self._added, 1))) or 1.0

    # -- learning ---------------------------------------------------------------------------------------------------

    @one_thread
    def _learn(self, batch: Batch) -> None:
        if not len(batch):
            return
        self._inputs.observe(batch.next_flat)
        if len(self._under_way) != len(batch):
            self._under_way, self._paths = [[] for _ in range(len(batch))], [[] for _ in range(len(batch))]
        ended = batch.ended
        for i, steps in enumerate(self._under_way):
            steps.append((batch.flat[i].copy(), int(batch.actions[i]), float(batch.rewards[i])))
            while steps and (ended[i] or len(steps) == self._options.n_step):
                self._paths[i].append((self._added, steps[0][2]))
                self._add(steps, batch.next_flat[i], bool(batch.terminated[i]))
                del steps[0]
            if batch.terminated[i]:
                self._achieve(self._paths[i])
            if ended[i] or len(self._paths[i]) > _LONGEST:
                self._paths[i] = []
        if self.steps + len(batch) <= self._options.warm_up or self._added < self._options.batch_size:
            return
        self._due += self._options.updates * len(batch)
        while self._due >= 1.0:
            self._due -= 1.0
            self._update()

    def _add(self, steps: list[tuple[FloatArray, int, float]], following: FloatArray, terminated: bool) -> None:
        """Store the first of `steps`, with the rewards until `following`."""
        total = 0.0
        for _, _, reward in reversed(steps):
            total = reward + self._gamma * total
        if self._added == len(self._replay) < self._capacity:
            more = min(len(self._replay), self._capacity - len(self._replay))
            self._replay = np.concatenate([self._replay, np.zeros((more, self._replay.shape[1]))])
        d, row = len(following), self._replay[self._added % len(self._replay)]
        row[:d], row[d : 2 * d] = steps[0][0], following
        row[2 * d :] = steps[0][1], total, 0.0 if terminated else self._gamma ** len(steps), -np.inf
        self._added += 1
        self._squares += total**2

    def _achieve(self, path: list[tuple[int, float]]) -> None:
        """Store what the rows of an episode achieved, which has terminated."""
        total = 0.0
        for number, reward in reversed(path):
            total = reward + self._gamma * total
            if number >= self._added - len(self._replay):  # else it was replaced
                self._replay[number % len(self._replay), -1] = total

    def _update(self) -> None:
        d, n = self._flatten.size, self._options.batch_size
        rows = self._replay[self._rng.integers(min(self._added, len(self._replay)), size=n)]
        inputs = self._network_inputs(np.concatenate([rows[:, :d], rows[:, d : 2 * d]]))
        chosen, each = rows[:, 2 * d].astype(np.int64), np.arange(n)
        totals, discounts, achieved = rows[:, 2 * d + 1] / self._unit, rows[:, 2 * d + 2], rows[:, 2 * d + 3]
        target = totals + discounts * self._averaged(inputs[n:]).min(axis=0).max(axis=-1)
        if self._options.achieved:
            target = np.maximum(target, achieved / self._unit)
        values, passed = self._networks.forward(inputs[:n])
        error = values[:, each, chosen] - target.astype(np.float32)
        slopes = np.zeros_like(values)
        slopes[:, each, chosen] = np.clip(error, -1.0, 1.0) / np.float32(n)  # Huber's loss
        self._adam.step(self._networks.backward(passed, slopes))
        self._averaged.parameters += np.float32(self._options.tau) * (
            self._networks.parameters - self._averaged.parameters
        )

    def statistics(self) -> dict[str, float]:
        """Scalars for logging."""
        return super().statistics() | {"updates": float(self._adam.updates)}

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> FloatArray:
        return self._replay[: self._added]

    @_rows.setter
    def _rows(self, rows: FloatArray) -> None:
        size = 1024
        while size < len(rows):
            size = min(2 * size, self._capacity)
        self._replay = np.zeros((size, rows.shape[1]))
        self._replay[: len(rows)] = rows
