"""Checks of options and of saved states. Spaces are checked in `features`."""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.errors import InvalidInputError, StateError, invalid, shown, unknown

MAX_SIZE = 4096
"""Maximum number of features of a map: solvers hold size × size matrices."""

MAX_ROWS = 1 << 20
"""Maximum number of rows that a hashed map enumerates: a larger X would not fit into memory."""


def whole(parameter: str, value: Any, least: int, most: int | None = None, *, example: int | None = None) -> int:
    """`value` as an int in [least, most]; a message proposes `example`."""
    fits = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not fits or value < least or (most is not None and value > most):
        rule = f"must be a whole number of at least {least}" + (f" and at most {most}" if most is not None else "")
        raise invalid(parameter, rule, value, f"Pass for example {parameter}={least if example is None else example}.")
    return int(value)


def package(name: str, parameter: str, install: str = "") -> Any:
    """The optional package `name`, imported; without it `parameter` is refused. `install` is what to pass to pip."""
    try:
        return importlib.import_module(name)
    except ImportError as fault:
        wanted = (install or name).partition(",")[0].partition(".")[0]
        raise InvalidInputError(f"{parameter}: needs the package {wanted}. pip install {install or wanted}.") from fault


def positive(parameter: str, value: Any) -> float:
    """`value` as a finite float above zero."""
    if not _is_finite_number(value) or value <= 0:
        raise invalid(parameter, "must be a finite number above 0", value, f"Pass for example {parameter}=1.0.")
    return float(value)


def non_negative(parameter: str, value: Any) -> float:
    """`value` as a finite float of at least zero."""
    if not _is_finite_number(value) or value < 0:
        raise invalid(parameter, "must be a finite number ≥ 0", value, f"Pass {parameter}=0 to switch it off.")
    return float(value)


def finite(parameter: str, value: Any) -> float:
    """`value` as a finite float."""
    if not _is_finite_number(value):
        raise invalid(parameter, "must be a finite number", value, f"Pass for example {parameter}=0.0.")
    return float(value)


def choice(parameter: str, value: Any, valid: tuple[str, ...]) -> str:
    """`value` if it is one of the `valid` names."""
    if value not in valid:
        raise unknown(parameter, value, valid)
    return str(value)


def per_dimension(parameter: str, value: Any, dimensions: int) -> list[Any]:
    """One number for all dimensions, or one for each, as a list; the numbers themselves are not checked."""
    values = list(value) if isinstance(value, Sequence) or np.ndim(value) else [value] * dimensions
    if len(values) != dimensions:
        rule = f"must be one number, or one for each of the {dimensions} dimensions"
        raise invalid(parameter, rule, value, f"Pass a number or a sequence of {dimensions} numbers.")
    return values


def size_limit(what: str, size: int, remedy: str, most: int = MAX_SIZE) -> int:
    """`size` if it is at most `most`; called before anything of that size is built."""
    if size > most:
        raise invalid("features", f"{what} may have at most {most}", size, remedy)
    return size


def loaded(owner: str, state: Mapping[str, Any], like: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Copies of the arrays of `state`, once they all have the keys, shapes and kinds of `like` and are finite."""
    if not isinstance(state, Mapping):
        raise StateError(f"state: the state of {owner} must be a dict of arrays, got {shown(state)}. Save it again.")
    odd = sorted(set(state) ^ set(like), key=str)
    if odd:
        word = "lacks" if odd[0] in like else "has the unexpected"
        raise StateError(f"state: this state {word} key {odd[0]!r} of {owner}. Load it into the map it came from.")
    result = {}
    for key, example in like.items():
        try:
            array = np.array(state[key])
        except ValueError:
            array = np.array(None)
        if array.shape != example.shape or array.dtype.kind != example.dtype.kind:
            raise StateError(
                f"state: {key!r} of {owner} must be like {shown(example)}, got {shown(array)}. "
                "Load it into the map it came from."
            )
        if not np.isfinite(array).all():
            raise StateError(f"state: {key!r} of {owner} must be finite, got NaN or infinity. The state is damaged.")
        result[key] = array.astype(example.dtype)
    return result


def _is_finite_number(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return False
    return math.isfinite(value)
