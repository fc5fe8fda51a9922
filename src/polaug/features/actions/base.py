"""The finite list of actions behind the columns of Q: every choice of a discrete space, or chosen points of a Box.

Box actions of up to four dimensions get a product grid of bins. Beyond that a grid would explode, and the automatic
list is a star: zero, ±1 and ±½ along each axis, and a balanced set of corners (rows of a Hadamard matrix and
their negatives), about 8 actions for each dimension. Several choices with too many combinations get a sample: the
first choice of each, one of them changed, and combinations in which every choice occurs about equally often.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import invalid
from polaug.features.masks import Legal, read_masks
from polaug.features.mixed_radix import MixedRadix
from polaug.features.spaces import Flattener, Space, action_flattener
from polaug.streams import stream

_MAX_ACTIONS = 1000
_BINS = {1: 9, 2: 9, 3: 3, 4: 3}  # odd, so that "do nothing" is among them; at most 81 in all
_SAMPLED = 256  # listed combinations where there are too many choices to list all
_FEW = 64  # actions of one call
MAX_GRID_DIMENSIONS = max(_BINS)


class ActionFeatures:
    """y(a): N listed actions (the columns of Q) with their places u (N, d) in [−1, 1]^d. The base of all maps.

    A subclass passes nothing but the features `Y` of the listed actions to `_describe`.
    """

    def __init__(self, space: Space) -> None:
        self._flatten = flatten = action_flattener(space)
        self._continuous, self._first, self._sampled = not flatten.categorical.any(), flatten.first, False
        self._centre, self._half_width = (flatten.low + flatten.high) / 2, (flatten.high - flatten.low) / 2
        if self._continuous:
            self._counts, self.u = _box_actions(flatten)
        else:
            self._counts = (flatten.high - flatten.low).astype(np.int64) + 1
            cells = MixedRadix(self._counts)
            if len(self._counts) == 1:
                _limit(cells.total, "Wrap the environment to offer fewer choices.")
            self._sampled = cells.total > _MAX_ACTIONS
            self._cells = cells
            self._choices = _sample(self._counts) if self._sampled else cells.all()
            self.u = 2.0 * self._choices / np.maximum(self._counts - 1, 1) - (self._counts > 1)
        flat = self._centre + self.u * self._half_width
        self._actions = flatten.restore(np.clip(flat, flatten.low, flatten.high))
        self._actions.setflags(write=False)
        self._squares = np.square(self.u).sum(axis=1)

    def _describe(self, Y: NDArray[np.float64]) -> None:
        Y.setflags(write=False)
        self._Y = Y

    @property
    def Y(self) -> NDArray[np.float64]:  # noqa: N802  (the paper's name)
        """Features (N, n) of all actions, read-only."""
        return self._Y

    @property
    def n_actions(self) -> int:
        """Number of listed actions N."""
        return len(self.u)

    @property
    def size(self) -> int:
        """Number of features n."""
        return int(self._Y.shape[1])

    def to_environment(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Actions (k, ...) of the space, in its dtype, for column indices (k,)."""
        indices = np.asarray(indices)
        if indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise invalid("indices", "must be whole numbers of shape (k,)", indices, "Pass an int64 array.")
        if not self._listed(indices):
            bad = indices[(indices < 0) | (indices >= self.n_actions)][0]
            raise invalid("indices", f"must be in [0, {self.n_actions})", int(bad), "Pass a column of Y.")
        return self._actions[indices]

    def _most_alike(self, choices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Listed combination (k,) that shares the most choices with each of `choices` (k, d)."""
        return np.array([np.argmax((self._choices == each).sum(axis=1)) for each in choices], dtype=np.int64)

    def _listed(self, columns: NDArray[np.int64]) -> bool:
        if len(columns) > _FEW:
            return bool(columns.min() >= 0 and columns.max() < len(self.u))
        numbers = columns.tolist()  # a call of NumPy costs more than a few comparisons
        return not numbers or (min(numbers) >= 0 and max(numbers) < len(self.u))

    def legal(self, masks: Any, n: int) -> Legal:
        """What the masks of n environments allow: (n, k), k being the sum of the numbers of choices."""
        if self._continuous:
            raise invalid("masks", "are for discrete actions only", masks, "Remove the masks.")
        return read_masks(masks, n, self._choices, self._counts, self._flatten.low.astype(np.int64))

    def describe(self, actions: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
        """Features (k, n) of actions whose columns are `indices`: of the columns, unless a subclass overrides it."""
        return self._Y[indices]

    def _places(self, actions: Any) -> NDArray[np.float64]:
        """Places (k, d) in [−1, 1] of Box actions."""
        flat = self._flatten(actions) - self._centre
        u = np.divide(flat, self._half_width, out=np.zeros_like(flat), where=self._half_width > 0)
        places: NDArray[np.float64] = np.clip(u, -1.0, 1.0)
        return places

    def to_indices(self, actions: Any) -> NDArray[np.int64]:
        """Column (k,) of each action; for Box actions the nearest listed one."""
        if self._first is not None and isinstance(actions, np.ndarray) and actions.dtype == np.int64:
            columns = actions - self._first  # the shortest way, for what nearly every environment sends
            if columns.ndim == 1 and self._listed(columns):
                return columns
        flat = self._flatten(actions)
        if not self._continuous:
            choices = (flat - self._flatten.low).astype(np.int64)
            return self._most_alike(choices) if self._sampled else self._cells.ravel(choices)
        flat -= self._centre
        # Rounding of an exact bound to the space's dtype.
        slack = np.maximum(1e-6, 2 * self._flatten.resolution) * np.maximum(self._half_width, np.abs(self._centre))
        outside = np.abs(flat) > self._half_width + slack
        if outside.any():
            env, column = np.argwhere(outside)[0]
            low, high = self._flatten.low[column], self._flatten.high[column]
            raise invalid(
                "actions",
                f"environment {env}, dimension {column}: must be in [{low:g}, {high:g}]",
                float(flat[env, column] + self._centre[column]),
                "Clip the actions to the space first.",
            )
        u = np.divide(flat, self._half_width, out=np.zeros_like(flat), where=self._half_width > 0)
        # |u − u_i|² without |u|², which is the same for all i.
        nearest: NDArray[np.int64] = np.argmin(self._squares - 2 * (u @ self.u.T), axis=1)
        return nearest


def _box_actions(flatten: Flattener) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Number of values in each dimension (d,) and the places u (N, d) of the listed actions."""
    d = flatten.size
    u = _star(d) if d > MAX_GRID_DIMENSIONS else _grid(d, _BINS[d])
    _limit(len(u), "Wrap the environment to offer fewer dimensions.")
    centre, half_width = (flatten.low + flatten.high) / 2, (flatten.high - flatten.low) / 2
    if flatten.integral:  # the numbers a space of integers can hold, each once
        whole_numbers = np.unique(np.rint(centre + u * half_width), axis=0) - centre
        u = np.divide(whole_numbers, half_width, out=np.zeros_like(whole_numbers), where=half_width > 0)
    u[:, half_width == 0] = 0.0
    u = np.unique(u, axis=0) if (half_width == 0).any() else u
    counts = np.array([len(np.unique(column)) for column in u.T], dtype=np.int64)
    return counts, u


def _grid(dimensions: int, bins: int) -> NDArray[np.float64]:
    """All combinations (N, d) of evenly spaced places in [−1, 1], the last dimension changing fastest."""
    return np.array(list(itertools.product(np.linspace(-1.0, 1.0, bins), repeat=dimensions)), dtype=np.float64)


def _sample(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """About `_SAMPLED` of all combinations (N, d) of choices."""
    d = len(counts)
    single = [np.where(np.arange(d) == k, choice, 0) for k in range(d) for choice in range(1, counts[k])]
    single = [np.zeros(d, dtype=np.int64), *single] if len(single) < _SAMPLED // 2 else []
    rng, mixed = stream(0, "actions"), _SAMPLED - len(single)
    columns = [rng.permutation(np.rint(np.linspace(0, count - 1, mixed)).astype(np.int64)) for count in counts]
    return np.unique(np.concatenate([np.array(single).reshape(-1, d), np.stack(columns, axis=1)]), axis=0).astype(
        np.int64
    )


def _star(dimensions: int) -> NDArray[np.float64]:
    """Zero, ±½ and ±1 along each axis, and balanced corners."""
    signs = np.ones((1, 1))
    while len(signs) < dimensions:
        signs = np.block([[signs, signs], [signs, -signs]])
    corners = signs[:, :dimensions]
    axes = np.eye(dimensions)
    return np.concatenate([np.zeros((1, dimensions)), -axes, -axes / 2, axes / 2, axes, corners, -corners])


def _limit(n_actions: int, remedy: str) -> None:
    if n_actions > _MAX_ACTIONS:
        raise invalid("action_space", f"at most {_MAX_ACTIONS} actions can be listed", n_actions, remedy)
