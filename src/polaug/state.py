"""Saved state as plain arrays: generators, prefixes, and files that hold nothing else.

A file is a NumPy archive, read with `allow_pickle=False`. Loading a file never runs code.
"""

from __future__ import annotations

import io
import lzma
import math
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polaug.errors import StateError

State: TypeAlias = dict[str, NDArray[Any]]

LARGEST_STATE = 2**30
"""Maximum number of bytes of a saved state."""
LARGEST_COUNT = 2**62
"""Upper bound of all counters."""

_BLOCK = 2**20  # bytes per read
_WORD = 2**64 - 1
UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, IndexError, AttributeError, TypeError, SyntaxError, OverflowError,
    MemoryError, RuntimeError, struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile,
)  # fmt: skip
"""What damaged archives make zipfile and NumPy raise, each by some flipped bit."""


def generator_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The position of a PCG64 generator as six words."""
    state: Any = rng.bit_generator.state
    numbers = (state["state"]["state"], state["state"]["inc"])
    words = [(number >> shift) & _WORD for number in numbers for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def restored_generator(words: NDArray[Any]) -> np.random.Generator:
    """The generator with the position of `generator_state`."""
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
    """`state` with `prefix.` before every key."""
    return {f"{prefix}.{key}": array for key, array in state.items()}


def part(prefix: str, state: Mapping[str, NDArray[Any]]) -> State:
    """The state that `prefixed` stored under `prefix`."""
    start = f"{prefix}."
    return {key.removeprefix(start): array for key, array in state.items() if key.startswith(start)}


def within(what: str, numbers: Any, least: int, most: int) -> None:
    """Refuse whole numbers that are not in [least, most]: they would be used as indices."""
    array = np.asarray(numbers)
    if array.size and not (array.min() >= least and array.max() <= most):
        found = f"{array.min()} to {array.max()}"
        raise StateError(f"{what}: must be from {least} to {most}, got {found}. The state is damaged.")


def write_arrays(file: IO[bytes], state: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays that can be read without pickle. Older NumPys do not know `allow_pickle` here, and would store it
    as one more array.
    """
    for name, array in state.items():
        if np.asarray(array).dtype.hasobject:
            raise StateError(f"{name}: must be numbers or text, got objects. Leave it out of the state.")
    arrays: dict[str, Any] = dict(state)
    size = sum(np.asarray(array).nbytes for array in arrays.values())
    if size > LARGEST_STATE:
        raise StateError(f"state: has {size:,} bytes, and a file of it may have {LARGEST_STATE:,}. Keep less in it.")
    np.savez_compressed(file, **arrays)


def read_arrays(file: IO[bytes] | bytes | bytearray, what: str) -> State:
    """The arrays that `write_arrays` wrote, with every size checked before anything of that size is unpacked.

    `what` names the file in messages.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(file) if isinstance(file, (bytes, bytearray)) else file) as archive:
            parts = {name: unpacked(archive, name, what) for name in archive.namelist()}
            return {name.removesuffix(".npy"): _array(content, what) for name, content in parts.items()}
    except StateError:
        raise
    except UNREADABLE as fault:
        raise StateError(f"{what}: is no complete saved state ({fault!r}). It is damaged, cut short, or not from "
                         "polaug.") from fault  # fmt: skip


def check_sizes(archive: zipfile.ZipFile, what: str) -> None:
    """Refuse an archive that says that it unpacks to more than LARGEST_STATE."""
    total = sum(info.file_size for info in archive.infolist())
    if total > LARGEST_STATE:
        raise StateError(f"{what}: unpacks to {total:,} bytes, more than the {LARGEST_STATE:,} that a saved state may "
                         "have. It is damaged, or made to fill the memory.")  # fmt: skip


def unpacked(archive: zipfile.ZipFile, name: str, what: str) -> bytearray:
    """A part of an archive; one that unpacks to more than it says is refused after so many bytes."""
    check_sizes(archive, what)
    content = bytearray()
    with archive.open(name) as part_:
        while block := part_.read(_BLOCK):  # without a size zipfile would unpack up to 2 GiB before it looks
            content += block
    return content


def _array(content: bytearray, what: str) -> NDArray[Any]:
    """The array in a .npy file, whose header must fit its length: NumPy itself would trust the header."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise StateError(f"{what}: is no complete saved state (it holds objects). It is damaged, or not from polaug.")
    start, count = file.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or len(content) - start != count * dtype.itemsize:
        fault = f"an array of shape {shape} and {dtype} does not have {len(content) - start} bytes"
        raise StateError(f"{what}: is no complete saved state ({fault}). It is damaged, or cut short.")
    numbers = np.frombuffer(content, dtype, count, start) if count else np.empty(0, dtype)
    return numbers.reshape(shape, order="F" if fortran else "C")


def safe_write(path: str | os.PathLike[str], content: bytes | Callable[[IO[bytes]], object]) -> Path:
    """Write bytes, or what a function writes, beside `path`; the file takes its place once it is whole and on disk.

    An existing file survives a crash half-way.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # others may read it, as any file; temporary ones are private
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def save_state(path: str | os.PathLike[str], state: Mapping[str, NDArray[Any]]) -> None:
    """Write `state` to `path` whole or not at all."""
    safe_write(path, lambda file: write_arrays(file, state))


def load_state(path: str | os.PathLike[str]) -> State:
    """Read what `save_state` wrote; a file that is cut short, damaged or something else raises StateError."""
    try:
        with Path(path).open("rb") as file:
            return read_arrays(file, f"path: {str(path)!r}")
    except FileNotFoundError:
        raise StateError(f"path: there is no file {str(path)!r}. Check the spelling.") from None
    except OSError as fault:
        raise StateError(f"path: {str(path)!r} cannot be read ({fault}). Check its permissions.") from fault
