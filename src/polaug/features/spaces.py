"""Spaces to flat arrays and back, with every check of what an environment sends; the only module of features/
that knows Gymnasium.

A space becomes d columns: one for each number of a Box, one for each choice of a Discrete, MultiDiscrete or
MultiBinary, and those of its parts, in order, for a Tuple.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from polaug.errors import InvalidInputError, UnsupportedSpaceError, invalid, shown

Space: TypeAlias = gym.Space[Any]

MAX_NUMBERS = 512
"""A Box of more numbers is treated as an image: no feature map here would be of any use on it."""

LARGEST = 1e100
"""Larger finite observations are read as ±this, so that squares and sums of them stay finite."""

UNBOUNDED = 1e9
"""A bound beyond this says "no bound": ±3.4e38 and ±2³¹ are common ways of writing infinity."""

_CALLABLE = "a callable features=f with f(observations) -> array (n, m)"
_INSTEAD_OF_OBSERVATIONS = {
    "image": f"pass {_CALLABLE} that encodes the images, or wrap the environment in an encoder",
    "Dict": f"wrap the environment in gymnasium.wrappers.FlattenObservation, or pass {_CALLABLE}",
    "Text": f"pass {_CALLABLE} that embeds the text",
    "Graph": f"pass {_CALLABLE} that embeds the graph",
    "Sequence": f"pass {_CALLABLE} that sums up the sequence",
    "OneOf": f"pass {_CALLABLE} that writes every alternative to the same m numbers",
}
_DESCRIBING = ("low", "high", "n", "nvec", "start", "min_length", "max_length", "characters")
_HOLDING = ("spaces", "feature_space", "node_space", "edge_space")
_SPELT_OUT = 16  # different numbers of one bound that a signature names
_INSTEAD_OF_ACTIONS = (
    "wrap the environment in a gymnasium.ActionWrapper with a Discrete, MultiDiscrete or bounded Box space"
)


class _Leaf:
    """One part of a space that is an array: shape, bounds, and whether its numbers are categories."""

    def __init__(self, space: Space, role: str) -> None:
        self.role = role
        low: Any
        high: Any
        if isinstance(space, spaces.Box):
            low, high = _decimal(space.low), _decimal(space.high)
        elif isinstance(space, spaces.Discrete):
            low, high = space.start, space.start + space.n - 1
        elif isinstance(space, spaces.MultiDiscrete):
            low, high = space.start, space.start + space.nvec - 1
        elif isinstance(space, spaces.MultiBinary):
            low, high = np.zeros(space.shape), np.ones(space.shape)
        else:
            raise unsupported(space, role)
        if _is_image(space):
            raise unsupported(space, role)
        self.categorical = not isinstance(space, spaces.Box)
        self.shape: tuple[int, ...] = space.shape or ()
        self.dtype = np.dtype(space.dtype)
        self.low = np.asarray(low, dtype=np.float64).reshape(-1)
        self.high = np.asarray(high, dtype=np.float64).reshape(-1)
        self.size = self.low.size
        self._kinds = "biu" if self.categorical else "biuf"

    def read(self, values: Any, first_column: int) -> NDArray[np.float64]:
        """Checked values (n, size)."""
        try:
            array = np.asarray(values)
        except ValueError:  # a ragged nesting
            raise self._wrong("must form a rectangular array", values) from None
        if array.dtype.kind not in self._kinds:
            kind = "whole numbers" if self.categorical else "real numbers"
            raise self._wrong(f"must be {kind} (the space's dtype is {self.dtype})", array)
        # Replay buffers store a Discrete observation with a trailing axis of length one.
        batched = array.ndim > 0 and (array.shape[1:] == self.shape or (not self.shape and array.shape[1:] == (1,)))
        if not batched:
            wanted = ", ".join(["n", *map(str, self.shape)]) + ("," if not self.shape else "")
            raise self._wrong(f"must have the batched shape ({wanted})", array)
        flat = array.reshape(array.shape[0], self.size).astype(np.float64)
        if self.categorical:
            inside = (flat >= self.low) & (flat <= self.high)
            if not inside.all():
                env, column = np.argwhere(~inside)[0]
                raise invalid(
                    self.role,
                    f"environment {env}, dimension {first_column + column}: must be in "
                    f"[{self.low[column]:.0f}, {self.high[column]:.0f}]",
                    int(flat[env, column]),
                    "Check the space's n and start against what is sent.",
                )
        elif not np.vdot(flat, flat) < LARGEST**2:  # the cheapest test that no NaN, infinity or giant passes
            self._check_finite(flat, first_column)
            np.clip(flat, -LARGEST, LARGEST, out=flat)
        return flat

    def _check_finite(self, flat: NDArray[np.float64], first_column: int) -> None:
        bad = np.argwhere(~np.isfinite(flat))
        if len(bad):
            env, column = bad[0]
            raise invalid(
                self.role,
                f"environment {env}, dimension {first_column + column}: must be finite",
                float(flat[env, column]),
                "Mend the environment, or wrap it so that missing readings get a number.",
            )

    def _wrong(self, rule: str, value: Any) -> InvalidInputError:
        return invalid(self.role, rule, value, "One row for each environment: a single one is a batch of one, x[None].")


class Flattener:
    """Batches of a space as float64 arrays (n, d), and back.

    `low`, `high` (d,): the space's bounds, possibly infinite. `categorical` (d,): whether a column is a choice.
    `resolution` (d,): the relative spacing of the numbers that the space's dtype can hold.
    """

    def __init__(self, space: Space, role: str = "observations") -> None:
        if not isinstance(space, gym.Space):
            raise invalid(
                "space", "must be a gymnasium space", space, "Pass env.observation_space or env.action_space."
            )
        self._role = role
        self._nested = isinstance(space, spaces.Tuple)
        self._leaves = [_Leaf(leaf, role) for leaf in _leaves(space)]
        if not self._leaves or not all(leaf.size for leaf in self._leaves):
            raise invalid("space", "must hold at least one number in each part", space, "Drop the empty part.")
        self.low = np.concatenate([leaf.low for leaf in self._leaves])
        self.high = np.concatenate([leaf.high for leaf in self._leaves])
        self.size = self.low.size
        sizes = [leaf.size for leaf in self._leaves]
        self.categorical = np.repeat([leaf.categorical for leaf in self._leaves], sizes)
        self.resolution = np.repeat([_resolution(leaf.dtype) for leaf in self._leaves], sizes)
        self._space = space

    def __call__(self, values: Any) -> NDArray[np.float64]:
        """Flat values (n, d), or an error that names the environment and the dimension."""
        if not self._nested:
            return self._leaves[0].read(values, 0)
        parts = self._parts(values, self._space)
        columns = np.cumsum([0] + [leaf.size for leaf in self._leaves])
        flat = [leaf.read(part, int(at)) for leaf, part, at in zip(self._leaves, parts, columns, strict=False)]
        if len({len(part) for part in flat}) != 1:
            lengths = [len(part) for part in flat]
            raise invalid(self._role, "every part of the tuple must hold the same n", lengths, "Batch them alike.")
        return np.concatenate(flat, axis=1)

    def restore(self, flat: NDArray[np.float64]) -> NDArray[Any]:
        """Values (k, ...) of the space, in its dtype, from flat ones (k, d); not for Tuple spaces."""
        leaf = self._leaves[0]
        exact = np.rint(flat) if leaf.dtype.kind in "biu" else flat
        return exact.astype(leaf.dtype).reshape(len(flat), *leaf.shape)

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Columns (d,) whose two bounds say something."""
        bounded: NDArray[np.bool_] = (np.abs(self.low) <= UNBOUNDED) & (np.abs(self.high) <= UNBOUNDED)
        return bounded

    @property
    def first(self) -> int | None:
        """The first choice of a Discrete space; None for any other."""
        leaf = self._leaves[0]
        discrete = not self._nested and leaf.categorical and not leaf.shape
        return int(leaf.low[0]) if discrete else None

    @property
    def integral(self) -> bool:
        """Whether the numbers of a single-part space are whole."""
        return self._leaves[0].dtype.kind in "biu"

    def _parts(self, values: Any, space: Space) -> list[Any]:
        if not isinstance(space, spaces.Tuple):
            return [values]
        if not isinstance(values, (tuple, list)) or len(values) != len(space.spaces):
            raise invalid(
                self._role,
                f"must be a tuple of {len(space.spaces)} arrays, one for each part of the Tuple space",
                values,
                "A vector environment batches a Tuple space this way; transpose a list of tuples with zip(*list).",
            )
        return [leaf for value, part in zip(values, space.spaces, strict=True) for leaf in self._parts(value, part)]


def action_flattener(space: Space) -> Flattener:
    """The flattener of an action space whose actions can be listed: any discrete one, and a bounded Box."""
    if isinstance(space, spaces.Tuple):
        raise unsupported(space, "actions")
    flattener = Flattener(space, "actions")
    limited = flattener.bounded | flattener.categorical
    if not limited.all():
        column = int(np.argmin(limited))
        raise UnsupportedSpaceError(
            f"action_space: dimension {column} of a Box of actions must have finite bounds, got "
            f"[{flattener.low[column]:g}, {flattener.high[column]:g}]. Wrap the environment in "
            "gymnasium.wrappers.RescaleAction or ClipAction, or give its Box finite low and high."
        )
    return flattener


def continuous_box(flattener: Flattener) -> Space:
    """A Box of the columns of `flattener` that are not categories."""
    kept = ~flattener.categorical
    return spaces.Box(flattener.low[kept], flattener.high[kept], dtype=np.float64)


def unbounded_box(size: int) -> Space:
    """A Box of `size` unbounded numbers."""
    return spaces.Box(-np.inf, np.inf, (size,), dtype=np.float64)


def signature(space: Space) -> str:
    """What tells a space from others, with exact numbers: its own text rounds them as NumPy's print options say."""
    words = [str(space.shape), str(space.dtype)]
    words += [f"{name}={_exactly(getattr(space, name))}" for name in _DESCRIBING if hasattr(space, name)]
    for name in _HOLDING:
        held = getattr(space, name, None)
        parts = held.items() if isinstance(held, dict) else enumerate(held if isinstance(held, tuple) else [held])
        words += [f"{key}: {signature(part)}" for key, part in parts if isinstance(part, gym.Space)]
    return f"{type(space).__name__}({', '.join(words)})"


def _exactly(values: Any) -> str:
    """Numbers as they are; one for all if they are equal, and a digest of very many, since errors show it."""
    array = np.asarray(values).ravel()
    if array.size and (array == array[0]).all():
        return repr(array[0].item())
    text = repr(array.tolist())
    return text if array.size <= _SPELT_OUT else hashlib.sha256(text.encode()).hexdigest()


def example_batch(space: Space) -> Any:
    """A batch of one observation of any space, supported here or not."""
    return batch_space(space, 1).sample()


def batch_length(observations: Any) -> int | None:
    """n, read from the first array inside `observations`; None when there is none."""
    while isinstance(observations, (dict, tuple)) and observations:
        observations = next(iter(observations.values())) if isinstance(observations, dict) else observations[0]
    return len(observations) if hasattr(observations, "__len__") else None


def unsupported(space: Space, role: str) -> UnsupportedSpaceError:
    """The error for a space without a feature map, saying what to pass instead."""
    kind = "image" if _is_image(space) else type(space).__name__
    instead = _INSTEAD_OF_OBSERVATIONS.get(kind, f"pass {_CALLABLE}")
    remedy = _INSTEAD_OF_ACTIONS if role == "actions" else instead
    what = "a Box of images" if kind == "image" else f"a {kind} space"
    parameter = "action_space" if role == "actions" else "observation_space"
    return UnsupportedSpaceError(
        f"{parameter}: must be Box (vectors), Discrete, MultiDiscrete or MultiBinary"
        f"{'' if role == 'actions' else ', or a Tuple of these'}; {what} has no features, got {shown(space)}. "
        f"Instead, {remedy}."
    )


def _leaves(space: Space) -> list[Space]:
    if isinstance(space, spaces.Tuple):
        return [leaf for part in space.spaces for leaf in _leaves(part)]
    return [space]


def _is_image(space: Space) -> bool:
    if not isinstance(space, spaces.Box):
        return False
    return (space.dtype == np.uint8 and len(space.shape) >= 2) or space.low.size > MAX_NUMBERS


def _resolution(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0


def _decimal(bounds: NDArray[Any]) -> NDArray[np.float64]:
    """Bounds as they were typed: float32 holds −1.2 as −1.2000000477, which would spoil the centres of a grid."""
    if bounds.dtype in (np.float32, np.float16):
        return np.array([float(str(bound)) for bound in bounds.ravel()]).reshape(bounds.shape)
    return bounds.astype(np.float64)
