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
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError

State: TypeAlias = dict[str, NDArray[Any]]

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
    """The values that `captured` stored, each of the type its attribute has now: an array keeps its rank and kind."""
    values: dict[str, Any] = {}
    for name in names:
        now, saved = getattr(owner, name), state[name]
        example = np.asarray(now)
        if saved.ndim != example.ndim or (saved.dtype.kind != example.dtype.kind and "O" in saved.dtype.kind):
            raise StateError(
                f"{name}: must be like {example.dtype} of rank {example.ndim}, got {saved.dtype} of rank {saved.ndim}. "
                "The state is damaged."
            )
        values[name] = (
            np.array(saved, dtype=example.dtype, order="K") if isinstance(now, np.ndarray) else type(now)(saved.item())
        )
    return values


def save_state(path: str | os.PathLike[str], state: Mapping[str, NDArray[Any]]) -> None:
    """Write `state` to `path` whole or not at all: an existing file survives a crash half-way."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **state)
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
