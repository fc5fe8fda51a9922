"""Action masks: which actions are legal now, for the listed actions and for those that are not listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import InvalidInputError, invalid

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Legal:
    """`listed` (n, N): the listed actions that are legal. `factors`: for each factor of the action (n, choices)."""

    listed: BoolArray
    factors: tuple[BoolArray, ...]
    first: IntArray
    """Of each factor, its first choice."""

    @property
    def complete(self) -> bool:
        """Whether every environment has a legal action among those listed."""
        return bool(self.listed.any(axis=1).all())

    def repaired(self, actions: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """`actions` (n, factors) with each illegal factor replaced by a legal one at random."""
        flat = actions.reshape(len(actions), -1).copy()
        for k, allowed in enumerate(self.factors):
            choices = flat[:, k].astype(np.int64) - self.first[k]
            for i in np.flatnonzero(~allowed[np.arange(len(flat)), choices]):
                flat[i, k] = self.first[k] + rng.choice(np.flatnonzero(allowed[i]))
        return flat.reshape(actions.shape)


def read_masks(masks: Any, n: int, choices: IntArray, counts: IntArray, first: IntArray) -> Legal:
    """Checked masks of n actions whose factors have `counts` choices each, from `first` on.

    They are (n, sum of counts), the factors side by side, or (n, N) over the N listed actions, whose `choices`
    (N, factors) count from 0. Where both have the same width they are the former.
    """
    array, width = np.asarray(masks), int(counts.sum())
    if array.ndim != 2 or array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
        raise _wrong(array, n, width)
    array = array.astype(np.bool_)
    if array.shape == (n, width):
        factors = tuple(np.split(array, np.cumsum(counts)[:-1], axis=1))
        listed = np.ones((n, len(choices)), dtype=np.bool_)
        for k, allowed in enumerate(factors):
            listed &= allowed[:, choices[:, k]]
    elif array.shape == (n, len(choices)):
        factors, listed = (array,), array
    else:
        raise _wrong(array, n, width)
    for k, allowed in enumerate(factors):
        without = np.flatnonzero(~allowed.any(axis=1))
        if len(without):
            where = f"environment {without[0]}" + (f", factor {k}" if len(factors) > 1 else "")
            raise invalid(
                "masks",
                f"{where}: at least one action must be legal",
                allowed[without[0]].astype(int).tolist(),
                "Fix the environment's action_masks(), or end the episode if no action is legal.",
            )
    return Legal(listed, factors, first)


def _wrong(array: NDArray[Any], n: int, width: int) -> InvalidInputError:
    return invalid(
        "masks",
        f"must be truth values of shape ({n}, {width}), one for each choice, those of several factors side by side",
        array,
        "Pass what the environments' action_masks() give, one row for each environment.",
    )
