"""Saved state as plain arrays: generators, prefixes, and files that hold nothing else.

A file is a NumPy archive read with `allow_pickle=False`: loading one never runs code that somebody put into it.
"""

from __future__ import annotations

import lzma
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError

State: TypeAlias = dict[str, NDArray[Any]]
Layout: TypeAlias = tuple[str | int, ...]
"""Kind of an array's numbers ("f", "i", "b"), then the length of each axis: a number, or a name for it."""

LARGEST_COUNT = 2**62
"""No counter of ours gets there."""

_WORD = 2**64 - 1
# What a damaged archive makes zipfile and NumPy raise, each by some flipped bit; NotImplementedError is a RuntimeError.
_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, IndexError, AttributeError, TypeError, SyntaxError, OverflowError,
    MemoryError, RuntimeError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile,
)  # fmt: skip


def generator_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The position of a PCG64 generator as six words."""
    state: Any = rng.bit_generator.state
    numbers = (state["state"]["state"], state["state"]["inc"])
    words = [(number >> shift) & _WORD for number in numbers for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def restored_generator(words: NDArray[Any]) -> np.random.Generator:
    """A generator that goes on from `generator_state`."""
    if words.shape != (6,) or words.dtype != np.uint64:
        raise StateError(f"generator: must be 6 words, got {words.dtype} {words.shape}. The state is damaged.")
    w = [int(word) for word in words]
    rng = np.random.default_rng(0)
    position = {"state": w[0] | w[1] << 64, "inc": w[2] | w[3] << 64}
    rng.bit_generator.state = {
        "bit_generator": "PCG64", "state": position, "has_uint32": w[4] & 1, "uinteger": w[5] & 0xFFFFFFFF,
    }  # fmt: skip
    return rng


def prefixed(prefix: str, state: Mapping[str, NDArray[Any]]) -> State:
    """`state` with `prefix.` before every key, to store it beside others."""
    return {f"{prefix}.{key}": array for key, array in state.items()}


def part(prefix: str, state: Mapping[str, NDArray[Any]]) -> State:
    """What `prefixed` stored under `prefix`."""
    start = f"{prefix}."
    return {key.removeprefix(start): array for key, array in state.items() if key.startswith(start)}


def captured(owner: object, names: Sequence[str]) -> State:
    """Attributes that are arrays or plain numbers, as arrays."""
    return {name: np.array(getattr(owner, name)) for name in names}


def checked(owner: object, names: Sequence[str], state: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The values that `captured` stored, each of the type its attribute has now: an array keeps its kind and shape.

    `owner` is as new: a row that is still empty is one that grows, and may have any length.
    """
    now = {name: getattr(owner, name) for name in names}
    layout = {name: _layout(name, np.asarray(value), grows=np.shape(value) == (0,)) for name, value in now.items()}
    arrays = fitting(type(owner).__name__, state, layout)
    return {
        name: arrays[name] if isinstance(value, np.ndarray) else type(value)(arrays[name].item())
        for name, value in now.items()
    }


def alike(what: str, state: Mapping[str, NDArray[Any]], example: State, *, grows: bool = False) -> State:
    """The arrays of `state` under the keys of `example`, once they have its kinds and shapes; with `grows`, whatever
    the length of their first axes.
    """
    return fitting(what, state, {name: _layout(name, array, grows) for name, array in example.items()})


def _layout(name: str, example: NDArray[Any], grows: bool) -> Layout:
    return (example.dtype.kind, *((name, *example.shape[1:]) if grows and example.ndim else example.shape))


def fitting(
    what: str, state: Mapping[str, NDArray[Any]], layouts: Mapping[str, Layout], **sizes: int
) -> dict[str, NDArray[Any]]:
    """Copies of the arrays of `state` that `layouts` names, once each has its kind and shape: compiled loops believe
    both. Lengths that have a name are those in `sizes`, or else equal wherever that name stands.
    """
    arrays = {}
    for name, (kind, *lengths) in layouts.items():
        saved = state[name]
        if saved.dtype.kind == kind and saved.ndim == len(lengths):
            for length, found in zip(lengths, saved.shape, strict=True):
                if isinstance(length, str):
                    sizes.setdefault(length, found)
        wanted = tuple(sizes.get(length, length) if isinstance(length, str) else length for length in lengths)
        if saved.dtype.kind != kind or saved.shape != wanted:
            raise StateError(
                f"{what}.{name}: must be of kind {kind!r} and shape {wanted}, got {saved.dtype} of shape "
                f"{saved.shape}. The state is damaged."
            )
        arrays[name] = np.array(saved, order="K")  # in the same order: sums of rows and of columns differ in the bits
    return arrays


def within(what: str, numbers: Any, least: int, most: int) -> None:
    """Refuse whole numbers that are not in [least, most]: they would be used as indices."""
    array = np.asarray(numbers)
    if array.size and not (array.min() >= least and array.max() <= most):
        raise StateError(
            f"{what}: must be from {least} to {most}, got {array.min()} to {array.max()}. The state is damaged."
        )


def write_arrays(file: IO[bytes], state: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays that can be read without pickle. Older NumPys do not know `allow_pickle` here, and would store it
    as one more array.
    """
    for name, array in state.items():
        if np.asarray(array).dtype.hasobject:
            raise StateError(f"{name}: must be numbers or text, got objects. Leave it out of the state.")
    arrays: dict[str, Any] = dict(state)
    np.savez_compressed(file, **arrays)


def save_state(path: str | os.PathLike[str], state: Mapping[str, NDArray[Any]]) -> None:
    """Write `state` to `path` whole or not at all: an existing file survives a crash half-way."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write_arrays(file, state)
        Path(temporary).chmod(0o644)  # others may read it, as any file; temporary ones are private
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load_state(path: str | os.PathLike[str]) -> State:
    """Read what `save_state` wrote; a file that is cut short, damaged or something else raises StateError."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except FileNotFoundError:
        raise StateError(f"path: there is no file {str(path)!r}. Check the spelling.") from None
    except _UNREADABLE as fault:
        raise StateError(
            f"path: {str(path)!r} is no complete saved state ({fault}). It may be cut short, or not be from polaug."
        ) from fault
