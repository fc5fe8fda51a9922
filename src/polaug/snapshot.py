"""Objects as plain arrays and back: components say which attributes they save, and this module does the rest.

`snapshot(explorer)` follows the attributes that were registered with `saved`. Arrays stay arrays, named by the path to
them; numbers, lists and references go into one JSON text. `restore` fills the same explorer, newly built: a
component that is there already is filled in place, so that settings and what is computed from them stay. Only
registered classes are made and only registered attributes are set, so that a file cannot run code.

Checksums detect damage before anything is filled.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.state import State, generator_state, part, prefixed, restored_generator

Class = TypeVar("Class", bound=type)

_ATTRIBUTES: dict[type, tuple[str, ...]] = {}
_FIXED: dict[type, tuple[str, ...]] = {}
_CLASSES: dict[str, type] = {}
_TEXT = "structure"
CHECKSUMS = "checksums"
"""The key of the checksums."""
_PLAIN = {bool, int, float, str, type(None)}
_SMALL = 64  # numbers of an array that goes into the text: a part of the archive of its own would cost more
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "deque": deque, "set": set}


def saved(*attributes: str, fixed: tuple[str, ...] = ()) -> Callable[[Class], Class]:
    """Class decorator: instances are saved by these attributes and those of their base classes.

    A dataclass or a NamedTuple needs none: its fields are saved. `fixed` names settings that a state must share with
    the object that it fills, because the sizes of arrays depend on them.
    """

    def register(cls: Class) -> Class:
        fields = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
        _ATTRIBUTES[cls] = (*attributes, *fixed) or tuple(fields) or cls.__dict__.get("_fields", ())
        _FIXED[cls] = fixed
        _CLASSES[cls.__name__] = cls
        return cls

    return register


def _attributes(cls: type) -> tuple[str, ...]:
    return tuple(name for base in reversed(cls.__mro__) for name in _ATTRIBUTES.get(base, ()))


def snapshot(owner: object, *without: str) -> State:
    """Everything that `owner` and its parts save; `without` names attributes of `owner` that are left out."""
    writer = _Writer(without)
    text = json.dumps(writer.tree(owner, ""), separators=(",", ":"))
    return writer.arrays | {_TEXT: np.array(text)}


def restore(owner: object, state: Mapping[str, NDArray[Any]], *without: str) -> None:
    """Fill `owner`, which was built with the same settings, from `snapshot` with the same `without`."""
    try:
        tree = json.loads(str(state[_TEXT]))
        if not isinstance(tree, list) or tree[:3] != ["object", 0, type(owner).__name__]:
            raise StateError(f"state: it is not that of a {type(owner).__name__}. The state is damaged.")
        _Reader(state, without).value(tree, owner)
    except RecursionError as fault:
        raise StateError("state: its structure is nested too deeply. The state is damaged.") from fault


def with_checksums(state: State) -> State:
    """`state` and a checksum of each of its arrays."""
    return state | {CHECKSUMS: np.array([_checksum(key, state[key]) for key in sorted(state)], dtype=np.int64)}


def without_checksums(state: Mapping[str, NDArray[Any]]) -> State:
    """What `with_checksums` was given; StateError, with the name of the array, if anything of it has changed."""
    arrays = {key: np.asarray(array) for key, array in state.items() if key != CHECKSUMS}
    checksums = np.asarray(state[CHECKSUMS]).ravel().tolist()
    if len(checksums) != len(arrays):
        raise StateError("state: damaged or incomplete, some of its arrays are missing. Save it again.")
    for key, checksum in zip(sorted(arrays), checksums, strict=True):
        if _checksum(key, arrays[key]) != checksum:
            raise StateError(f"{key}: is not what was saved. The state is damaged, or was changed by hand.")
    return arrays


def _checksum(key: str, array: NDArray[Any]) -> int:
    return zlib.crc32(array.tobytes(), zlib.crc32(f"{key} {array.dtype.str} {array.shape}".encode()))


class _Writer:
    """One walk through the objects. A tree is a plain value, or a list that begins with its kind."""

    def __init__(self, without: tuple[str, ...]) -> None:
        self.arrays: State = {}
        self._without = without
        self._met: dict[int, tuple[int, object]] = {}  # objects by id, with their numbers

    def tree(self, value: Any, path: str) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, np.ndarray):
            if value.size <= _SMALL and value.flags.c_contiguous and value.dtype.kind in "fib":
                return ["numbers", value.tolist(), value.dtype.str, value.shape]
            self.arrays[path] = np.array(value, order="K")  # sums of rows and of columns differ in the bits
            return ["array", path]
        if isinstance(value, bytes):
            return ["bytes", value.hex()]
        if isinstance(value, dict):
            if set(map(type, value)) | set(map(type, value.values())) <= _PLAIN:
                return ["dict", list(value.items())]
            labels = [key if isinstance(key, (str, int)) else i for i, key in enumerate(value)]
            pairs = zip(labels, value.items(), strict=True)
            return ["dict", [[self.tree(k, ""), self.tree(v, f"{path}.{label}")] for label, (k, v) in pairs]]
        if type(value).__name__ in _SEQUENCES:
            if set(map(type, value)) <= _PLAIN:
                return [type(value).__name__, list(value)]
            return [type(value).__name__, [self.tree(each, f"{path}.{i}") for i, each in enumerate(value)]]
        if id(value) in self._met:
            return ["same", self._met[id(value)][0]]
        self._met[id(value)] = number, _ = len(self._met), value
        if isinstance(value, Enum):
            return ["enum", number, type(value).__name__, value.value]
        if isinstance(value, np.random.Generator):
            self.arrays[path] = generator_state(value)
            return ["generator", number, path]
        if not _attributes(type(value)):  # something with a state of its own
            self.arrays |= prefixed(path, value.state_dict())
            return ["state", number, path]
        names = [name for name in _attributes(type(value)) if number or name not in self._without]
        own = {name: self.tree(getattr(value, name), f"{path}.{name}".strip(".")) for name in names}
        return ["object", number, type(value).__name__, own]


class _Reader:
    """One walk through a tree; `now` is what is in this place of the object that is filled."""

    def __init__(self, state: Mapping[str, NDArray[Any]], without: tuple[str, ...]) -> None:
        self._arrays, self._without = state, without
        self._met: dict[int, Any] = {}

    def value(self, tree: Any, now: Any = None) -> Any:
        if not isinstance(tree, list):
            return tree
        kind, first, *rest = tree
        if kind == "array":
            return np.array(self._arrays[first], order="K")
        if kind == "numbers":
            return np.array(first, dtype=rest[0]).reshape(rest[1])
        if kind == "bytes":
            return bytes.fromhex(first)
        if kind == "dict":
            there = now if isinstance(now, dict) else {}
            pairs = ((self.value(key), each) for key, each in first)
            return {key: self.value(each, there.get(key)) for key, each in pairs}
        if kind in _SEQUENCES:
            return _SEQUENCES[kind]([self.value(each) for each in first])
        if kind == "same":
            return self._met[first]
        if kind == "object":
            return self._object(first, rest[0], rest[1], now)
        self._met[first] = now
        if kind == "enum":
            self._met[first] = _CLASSES[rest[0]](rest[1])
        elif kind == "generator":
            now.bit_generator.state = restored_generator(self._arrays[rest[0]]).bit_generator.state
        else:
            now.load_state_dict(part(rest[0], self._arrays))
        return self._met[first]

    def _object(self, number: int, name: str, own: dict[str, Any], now: Any) -> Any:
        cls = type(now) if type(now).__name__ == name else _CLASSES[name]
        known = set(_attributes(cls))
        if set(own) != (known if number else known - set(self._without)):
            raise StateError(f"state: {name} has other attributes than those saved. Save it again.")
        if issubclass(cls, tuple):
            self._met[number] = cls(**{key: self.value(tree) for key, tree in own.items()})
            return self._met[number]
        component = type(now) is cls and not dataclasses.is_dataclass(cls)
        made = self._met[number] = now if component else cls.__new__(cls)
        for key, tree in own.items():
            value, before = self.value(tree, getattr(made, key, None)), getattr(made, key, None)
            if component and key in _FIXED.get(cls, ()) and before != value:
                raise StateError(f"state: {key} was {value} when it was saved, and is {before} here. Build it alike.")
            object.__setattr__(made, key, value)
        if hasattr(made, "_restored"):
            made._restored()
        return made
