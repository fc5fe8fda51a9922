"""Spaces to flat arrays and back, with every check of what an environment sends; the only module of features/
that knows Gymnasium.

A space becomes d columns: one for each number of a Box, one for each choice of a Discrete, MultiDiscrete or
MultiBinary, and those of its parts, in order, for a Tuple or Dict. A picture, or a Box of very many numbers, becomes
the few numbers of a fixed random encoder. A text inside a Tuple or Dict becomes one category.
"""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from polaug.errors import InvalidInputError, UnsupportedSpaceError, invalid, shown
from polaug.features.encoder import Encoder

Space: TypeAlias = gym.Space[Any]

MAX_NUMBERS = 512
"""A Box with more numbers is encoded."""

LARGEST = 1e100
"""Larger finite observations are clipped to ±this, so that squares and sums stay finite."""

UNBOUNDED = 1e9
"""A larger bound means "no bound": ±3.4e38 and ±2³¹ are common values for infinity."""

_CALLABLE = "a callable features=f with f(observations) -> array (n, m)"
_INSTEAD_OF_OBSERVATIONS = {
    "Text": f"pass {_CALLABLE} that embeds the text",
    "Graph": f"pass {_CALLABLE} that embeds the graph",
    "Sequence": f"pass {_CALLABLE} that sums up the sequence",
    "OneOf": f"pass {_CALLABLE} that writes every alternative to the same m numbers",
}
_DESCRIBING = ("low", "high", "n", "nvec", "start", "min_length", "max_length", "characters")
_HOLDING = ("spaces", "feature_space", "node_space", "edge_space")
_SPELT_OUT = 16  # different numbers of one bound that a signature names
_LARGEST_CODE = 2**32 - 1  # of a text


class Columns(spaces.Box):
    """The space of flat observations (d,): numbers, some of which may be categories (`categorical`, (d,)).

    `resolution` (d,) is the relative spacing of the numbers that each column can hold.
    """

    def __init__(
        self,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        categorical: NDArray[np.bool_] | bool = False,
        resolution: NDArray[np.float64] | float = 0.0,
    ) -> None:
        super().__init__(low, high, dtype=np.float64)
        self.categorical = np.broadcast_to(np.asarray(categorical, dtype=np.bool_), self.shape).copy()
        self.resolution = np.broadcast_to(np.asarray(resolution, dtype=np.float64), self.shape).copy()


class _Leaf:
    """One part of a space that is an array: shape, bounds, and whether its numbers are categories."""

    def __init__(self, space: Space, role: str) -> None:
        self.role = role
        low: Any
        high: Any
        if isinstance(space, spaces.Box):
            low, high = _decimal(space.low), _decimal(space.high)
        elif isinstance(space, spaces.Discrete):
            low, high = int(space.start), int(space.start) + int(space.n) - 1
        elif isinstance(space, spaces.MultiDiscrete):
            low, high = space.start, space.start + space.nvec - 1
        elif isinstance(space, spaces.MultiBinary):
            low, high = np.zeros(space.shape), np.ones(space.shape)
        else:
            raise unsupported(space, role)
        choices = not isinstance(space, spaces.Box)
        self.shape: tuple[int, ...] = space.shape or ()
        self.dtype = np.dtype(space.dtype)
        self.low = np.asarray(low, dtype=np.float64).reshape(-1)
        self.high = np.asarray(high, dtype=np.float64).reshape(-1)
        self._numbers = self.low.size
        self._kinds = "biu" if choices else "biuf"
        self._checks_choices = choices
        self._encoder: Encoder | None = None
        self.categorical = np.full(self.low.size, choices)
        self.resolution = np.full(self.low.size, float(np.finfo(self.dtype).eps) if self.dtype.kind == "f" else 0.0)
        if isinstance(space, Columns):
            self.categorical, self.resolution = space.categorical, space.resolution
        elif _is_encoded(space) and not role.startswith("actions"):
            self._encoder = Encoder(self.shape, self.low, self.high)
            codes = unbounded_columns(self._encoder.size)
            self.low, self.high, self.categorical = codes.low, codes.high, codes.categorical
            self.resolution = np.full(self.low.size, np.finfo(np.float32).eps)
        self.size = self.low.size
        self.encoded = self._encoder is not None

    def read(self, values: Any, first_column: int) -> NDArray[np.float64]:
        """Checked values (n, size)."""
        try:
            array = np.asarray(values)
        except ValueError:  # a ragged nesting
            raise self._wrong("must form a rectangular array", values) from None
        if array.dtype.kind not in self._kinds:
            kind = "whole numbers" if self._checks_choices else "real numbers"
            raise self._wrong(f"must be {kind} (the space's dtype is {self.dtype})", array)
        # Replay buffers store a Discrete observation with a trailing axis of length one.
        batched = array.ndim > 0 and (array.shape[1:] == self.shape or (not self.shape and array.shape[1:] == (1,)))
        if not batched:
            wanted = ", ".join(["n", *map(str, self.shape)]) + ("," if not self.shape else "")
            raise self._wrong(f"must have the batched shape ({wanted})", array)
        flat = array.reshape(array.shape[0], self._numbers).astype(np.float64)
        if self._checks_choices:
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
        return flat if self._encoder is None else self._encoder(flat)

    def _check_finite(self, flat: NDArray[np.float64], first_column: int) -> None:
        bad = np.argwhere(~np.isfinite(flat))
        if len(bad):
            env, column = bad[0]
            raise invalid(
                self.role,
                f"environment {env}, dimension {first_column + column}: must be finite",
                float(flat[env, column]),
                "Fix the environment, or wrap it so that missing values get a number.",
            )

    def _wrong(self, rule: str, value: Any) -> InvalidInputError:
        return invalid(
            self.role, rule, value, "Pass one row for each environment; a single one is a batch of one, x[None]."
        )


class _TextLeaf:
    """A text as one category: equal texts give equal numbers, similar texts do not."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.shape, self.dtype, self.size = (), np.dtype(np.int64), 1
        self.low, self.high, self.encoded = np.zeros(1), np.full(1, float(_LARGEST_CODE)), False
        self.categorical, self.resolution = np.ones(1, dtype=np.bool_), np.zeros(1)

    def read(self, values: Any, first_column: int) -> NDArray[np.float64]:
        """Codes (n, 1) of n texts."""
        texts = values.reshape(-1).tolist() if isinstance(values, np.ndarray) else values
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise invalid(self.role, "must be n texts", values, "Batch them as a tuple or an array of str.")
        codes = [float(zlib.crc32(text.encode())) for text in texts]
        return np.array(codes, dtype=np.float64).reshape(-1, 1)


class Flattener:
    """Batches of a space as float64 arrays (n, d), and back.

    `low`, `high` (d,): the space's bounds, possibly infinite. `bounded` (d,): whether both are finite and usable.
    `categorical` (d,): whether a column is a choice. `resolution` (d,): the relative spacing of the numbers that the
    space's dtype can hold. `encoded`: whether one of the parts is an image or a very long vector.
    """

    def __init__(self, space: Space, role: str = "observations") -> None:
        if not isinstance(space, gym.Space):
            raise invalid(
                "space", "must be a gymnasium space", space, "Pass env.observation_space or env.action_space."
            )
        self._role = role
        self._nested = isinstance(space, (spaces.Tuple, spaces.Dict))
        self._leaves = [
            _TextLeaf(path) if self._nested and _is_text(leaf) else _Leaf(leaf, path)
            for path, leaf in _leaves(space, role)
        ]
        if not self._leaves or not all(leaf.size for leaf in self._leaves):
            raise invalid("space", "must hold at least one number in each part", space, "Drop the empty part.")
        self.low = np.concatenate([leaf.low for leaf in self._leaves])
        self.high = np.concatenate([leaf.high for leaf in self._leaves])
        self.size = self.low.size
        self.bounded = (np.abs(self.low) <= UNBOUNDED) & (np.abs(self.high) <= UNBOUNDED)
        self.encoded = any(leaf.encoded for leaf in self._leaves)
        self.categorical = np.concatenate([leaf.categorical for leaf in self._leaves])
        self.resolution = np.concatenate([leaf.resolution for leaf in self._leaves])
        self._first_columns = np.cumsum([0] + [leaf.size for leaf in self._leaves]).tolist()
        self._space = space

    def __call__(self, values: Any) -> NDArray[np.float64]:
        """Flat values (n, d), or an error that names the environment and the dimension."""
        if not self._nested:
            return self._leaves[0].read(values, 0)
        parts = self._parts(values, self._space, self._role)
        flat = [leaf.read(part, at) for leaf, part, at in zip(self._leaves, parts, self._first_columns, strict=False)]
        if len({len(part) for part in flat}) != 1:
            lengths = {leaf.role: len(part) for leaf, part in zip(self._leaves, flat, strict=True)}
            raise invalid(self._role, "every part must hold the same n", lengths, "Batch the parts alike.")
        return np.concatenate(flat, axis=1)

    @property
    def columns(self) -> Columns:
        """The space of flat values."""
        return Columns(self.low, self.high, self.categorical, self.resolution)

    def restore(self, flat: NDArray[np.float64]) -> NDArray[Any]:
        """Values (k, ...) of the space, in its dtype, from flat ones (k, d); not for Tuple spaces."""
        leaf = self._leaves[0]
        exact = np.rint(flat) if leaf.dtype.kind in "biu" else flat
        return exact.astype(leaf.dtype).reshape(len(flat), *leaf.shape)

    @property
    def first(self) -> int | None:
        """The first choice of a Discrete space; None for any other."""
        leaf = self._leaves[0]
        discrete = not self._nested and not leaf.shape and bool(leaf.categorical[0])
        return int(leaf.low[0]) if discrete else None

    @property
    def integral(self) -> bool:
        """Whether the numbers of a single-part space are whole."""
        return self._leaves[0].dtype.kind in "biu"

    def _parts(self, values: Any, space: Space, role: str) -> Iterator[Any]:
        if isinstance(space, spaces.Dict):
            if not isinstance(values, Mapping):
                raise invalid(
                    role,
                    f"must be a dict with the keys {', '.join(map(repr, space.spaces))}, one array for each",
                    values,
                    "A vector environment batches a Dict space this way.",
                )
            for key, part in space.spaces.items():
                if key not in values:
                    raise invalid(
                        role, f"must have the key {key!r}", sorted(map(str, values)), "Send every part of the space."
                    )
                yield from self._parts(values[key], part, f"{role}[{key!r}]")
        elif isinstance(space, spaces.Tuple):
            if not isinstance(values, (tuple, list)) or len(values) != len(space.spaces):
                raise invalid(
                    role,
                    f"must be a tuple of {len(space.spaces)} arrays, one for each part of the Tuple space",
                    values,
                    "A vector environment batches a Tuple space this way; transpose a list of tuples with zip(*list).",
                )
            for at, (value, part) in enumerate(zip(values, space.spaces, strict=True)):
                yield from self._parts(value, part, f"{role}[{at}]")
        else:
            yield values


def action_flattener(space: Space) -> Flattener:
    """The flattener of an action space whose actions can be listed: any discrete one, and a bounded Box."""
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        raise unsupported(space, "actions")
    flattener = Flattener(space, "actions")
    limited = flattener.bounded | flattener.categorical
    if not limited.all():
        column = int(np.argmin(limited))
        raise UnsupportedSpaceError(
            f"action_space: dimension {column} of a Box of actions must have finite bounds, got "
            f"[{flattener.low[column]:g}, {flattener.high[column]:g}]. Give the environment's Box finite low and high, "
            "or wrap it in gymnasium.wrappers.TransformAction(env, lambda action: action, "
            "gymnasium.spaces.Box(-1.0, 1.0, env.action_space.shape)) with the bounds that make sense."
        )
    return flattener


def unbounded_columns(size: int) -> Columns:
    """The space of `size` unbounded numbers."""
    return Columns(np.full(size, -np.inf), np.full(size, np.inf))


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


def batch_length(space: Space, observations: Any) -> int | None:
    """n, read from the first part inside a batch of `observations`; None when there is none."""
    try:
        while isinstance(space, (spaces.Tuple, spaces.Dict)):
            parts = dict(space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))
            key, space = next(iter(parts.items()))
            observations = observations[key]
    except (KeyError, IndexError, TypeError, StopIteration):
        return None
    return len(observations) if hasattr(observations, "__len__") else None


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """`function` of the arrays inside observations that are nested alike, nested in the same way."""
    if isinstance(first, Mapping):
        return {key: mapped(function, value, *(other[key] for other in others)) for key, value in first.items()}
    if isinstance(first, tuple):
        return tuple(mapped(function, *parts) for parts in zip(first, *others, strict=True))
    return function(first, *others)


def stacked(observations: Sequence[Any]) -> Any:
    """A batch of single observations that are nested alike."""
    return mapped(lambda *rows: np.stack(rows), *observations)


def unsupported(space: Space, role: str) -> UnsupportedSpaceError:
    """The error for a space without a feature map, saying what to pass instead. `role` leads to the part."""
    kind = type(space).__name__
    whole, _, path = role.partition("[")
    what = f"a {kind} space{f' at [{path}' if path else ''} has no features, got {shown(space)}"
    if whole == "actions":
        return UnsupportedSpaceError(
            f"action_space: must be Box (vectors), Discrete, MultiDiscrete or MultiBinary; {what}. Instead, wrap the "
            "environment in a gymnasium.ActionWrapper with a Discrete, MultiDiscrete or bounded Box space."
        )
    drop = "leave the part out with gymnasium.wrappers.FilterObservation(env, [the other keys]), or " if path else ""
    return UnsupportedSpaceError(
        "observation_space: must be Box, Discrete, MultiDiscrete or MultiBinary, or a Tuple or Dict of these; "
        f"{what}. Instead, {drop}{_INSTEAD_OF_OBSERVATIONS.get(kind, f'pass {_CALLABLE}')}."
    )


def _leaves(space: Space, path: str) -> Iterator[tuple[str, Space]]:
    if isinstance(space, (spaces.Tuple, spaces.Dict)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from _leaves(part, f"{path}[{key!r}]")
    else:
        yield path, space


def _is_text(space: Space) -> bool:
    """Text, or a space of an environment's own whose members are texts."""
    known = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Graph, spaces.Sequence)
    if isinstance(space, (*known, spaces.OneOf)):
        return False
    return isinstance(space, spaces.Text) or isinstance(copy.deepcopy(space).sample(), str)  # a copy draws


def _is_encoded(space: Space) -> bool:
    """Images, and Boxes of very many numbers."""
    if not isinstance(space, spaces.Box):
        return False
    return (space.dtype == np.uint8 and len(space.shape) >= 2) or space.low.size > MAX_NUMBERS


def _decimal(bounds: NDArray[Any]) -> NDArray[np.float64]:
    """Bounds as they were typed: float32 holds −1.2 as −1.2000000477, which would spoil the centres of a grid."""
    if bounds.dtype in (np.float32, np.float16):
        return np.array([float(str(bound)) for bound in bounds.ravel()]).reshape(bounds.shape)
    return bounds.astype(np.float64)
