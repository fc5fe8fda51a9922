"""Ω, the observed entries of Q: checked on the way in, then kept by (row, column) with their features.

Ω is a set: a pair that occurs more than once in one call counts once, with the mean of its values, so that the order of
observations never matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.errors import StateError, invalid

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Entries:
    """Some observed entries: Q̃(rows[k], columns[k]) = values[k], with features x[k] and y[k]."""

    rows: IntArray
    columns: IntArray
    values: FloatArray
    x: FloatArray
    y: FloatArray

    def __len__(self) -> int:
        return len(self.values)


def read_features(name: Literal["X", "Y"], features: ArrayLike, size: int | None, *, finite: bool) -> FloatArray:
    """`features` as a float64 matrix without a copy where possible; `finite` asks for a scan of every number."""
    if type(features) is np.ndarray and features.dtype == np.float64:
        matrix: FloatArray = features
    else:
        matrix = _numeric(name, features)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise invalid(
            name, "must be a matrix with a row per item and at least one feature", matrix, f"Reshape {name} to 2-D."
        )
    if size is not None and matrix.shape[1] != size:
        raise invalid(
            name,
            f"must have the {size} features the model was fitted with",
            matrix,
            "Pass the same features, or call fit again.",
        )
    if finite and not _surely_finite(matrix):
        _check_finite(name, matrix, np.arange(len(matrix)))
    return matrix


def _check_finite(name: str, matrix: FloatArray, rows: IntArray) -> None:
    """Refuse features of `rows` that are not finite."""
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, feature = bad[0]
        value = matrix[row, feature].item()
        raise invalid(name, "must be finite", value, f"Look at row {rows[row]}, feature {feature} of {name}.")


def _surely_finite(array: FloatArray) -> bool:
    """True only if all numbers are finite: a sum of squares is, unless something is not (or is beyond 1e154)."""
    return math.isfinite(np.vdot(array, array))


def read_one(
    X: FloatArray, Y: FloatArray, row: int, column: int, value: float, *, scanned: bool
) -> tuple[FloatArray, FloatArray, float]:
    """`read_entries` for one entry given by plain numbers, an order of magnitude cheaper; gives x, y and the value.

    `scanned` says that all numbers of X and Y are known to be finite.
    """
    if 0 <= row < len(X) and 0 <= column < len(Y) and math.isfinite(value):
        x, y = X[row], Y[column]
        if scanned or (_surely_finite(x) and _surely_finite(y)):
            return x, y, float(value)
    entries = read_entries(X, Y, row, column, value)  # words the error, or finds that all is well
    return entries.x[0], entries.y[0], float(entries.values[0])


def _numeric(name: str, features: ArrayLike) -> FloatArray:
    try:
        return np.asarray(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid(name, "must be a numeric matrix", features, "Pass a 2-D float array, a row per item.") from None


def read_entries(
    X: FloatArray,
    Y: FloatArray,
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    counts: ArrayLike | None = None,
) -> Entries:
    """Check a batch of observed entries against X and Y, apply Q̃ = Q / Nq where `counts` (Nq) are given."""
    i = _read_indices("rows", rows, len(X))
    j = _read_indices("columns", columns, len(Y))
    v = _read_numbers("values", values, len(i))
    if len(j) != len(i):
        raise invalid("columns", f"must be as many as rows ({len(i)})", len(j), "Pass one column for each row.")
    if counts is not None:
        n = _read_numbers("counts", counts, len(i))
        if (n <= 0).any():
            raise invalid(
                "counts",
                "must be positive: an observed pair was visited",
                n[n <= 0][0].item(),
                "Leave out unvisited pairs.",
            )
        v = v / n
    if len(i) > 1:
        i, j, v = _canonical(i, j, v, len(Y))
    x, y = X[i], Y[j]
    _check_finite("X", x, i)
    _check_finite("Y", y, j)
    return Entries(i, j, v, x, y)


def _read_indices(name: str, given: ArrayLike, size: int) -> IntArray:
    indices = np.atleast_1d(np.asarray(given))
    if indices.size == 0:
        return np.empty(0, dtype=np.int64)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise invalid(
            name, "must be a vector of integers", indices, "Pass row and column numbers of the observed entries."
        )
    if indices.min() < 0 or indices.max() >= size:
        bad = indices[(indices < 0) | (indices >= size)][0].item()
        raise invalid(name, f"must lie in 0 … {size - 1}", bad, f"{'X' if name == 'rows' else 'Y'} has {size} rows.")
    return indices.astype(np.int64, copy=False)


def _read_numbers(name: str, given: ArrayLike, size: int) -> FloatArray:
    try:
        numbers = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        raise invalid(name, "must be numbers", given, "Pass one number for each observed entry.") from None
    if numbers.shape != (size,):
        raise invalid(
            name, f"must be a vector as long as rows ({size})", numbers, "Pass one number for each observed entry."
        )
    if not np.isfinite(numbers).all():
        bad = int(np.argmax(~np.isfinite(numbers)))
        raise invalid(name, "must be finite", numbers[bad].item(), f"Look at position {bad}.")
    return numbers


def _canonical(i: IntArray, j: IntArray, v: FloatArray, n_columns: int) -> tuple[IntArray, IntArray, FloatArray]:
    key = i * n_columns + j
    unique, inverse, times = np.unique(key, return_inverse=True, return_counts=True)
    # Sorted by key and value, sums do not depend on the order of the observations, to the bit.
    order = np.lexsort((v, inverse))
    mean: FloatArray = np.bincount(
        inverse[order], weights=v[order] / times[inverse[order]], minlength=len(unique)
    ).astype(np.float64)
    return unique // n_columns, unique % n_columns, mean


class Omega:
    """A growing store of entries by (row, column); memory follows |Ω|, never M × N."""

    def __init__(self, m: int, n: int) -> None:
        self._positions: dict[tuple[int, int], int] = {}
        self._keys = np.empty((8, 2), dtype=np.int64)
        self._values = np.empty(8)
        self._x = np.empty((8, m))
        self._y = np.empty((8, n))

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._positions

    def put(self, entries: Entries) -> FloatArray:
        """Add or revise `entries`; gives the change of each value (the whole value where the pair is new)."""
        keys = zip(entries.rows.tolist(), entries.columns.tolist(), strict=True)
        records = zip(keys, entries.x, entries.y, entries.values.tolist(), strict=True)
        return np.array([self.put_one(*record) for record in records], dtype=np.float64)

    def put_one(self, key: tuple[int, int], x: FloatArray, y: FloatArray, value: float) -> float:
        """Add or revise one entry; gives the change of its value."""
        at = self._positions.get(key)
        if at is None:
            at = len(self._positions)
            if at == len(self._values):
                self._grow()
            self._positions[key] = at
            self._keys[at] = key
            before = 0.0
        else:
            before = float(self._values[at])
        self._values[at], self._x[at], self._y[at] = value, x, y
        return value - before

    def remove(self, row: int, column: int) -> None:
        """Remove a pair that is in Ω."""
        at = self._positions.pop((row, column))
        last = len(self._positions)
        if at != last:  # the last entry moves into the gap
            self._positions[int(self._keys[last, 0]), int(self._keys[last, 1])] = at
            for array in (self._keys, self._values, self._x, self._y):
                array[at] = array[last]

    def _grow(self) -> None:
        for name in ("_keys", "_values", "_x", "_y"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty_like(old)]))

    @property
    def columns(self) -> IntArray:
        """The column of each entry, (|Ω|,)."""
        return self._keys[: len(self), 1]

    @property
    def values(self) -> FloatArray:
        """Q̃ on Ω, (|Ω|,)."""
        return self._values[: len(self)]

    @property
    def x(self) -> FloatArray:
        """State features of each entry, (|Ω|, m)."""
        return self._x[: len(self)]

    @property
    def y(self) -> FloatArray:
        """Action features of each entry, (|Ω|, n)."""
        return self._y[: len(self)]

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The entries as plain arrays."""
        n = len(self)
        return {"omega_keys": self._keys[:n].copy(), "omega_values": self.values.copy(),
                "omega_x": self.x.copy(), "omega_y": self.y.copy()}  # fmt: skip

    @staticmethod
    def from_state(state: dict[str, NDArray[Any]], m: int, n: int) -> Omega:
        """Rebuild from `state_dict`; a state that does not fit raises StateError."""
        keys, values = state["omega_keys"], state["omega_values"]
        x, y = state["omega_x"], state["omega_y"]
        size = len(values)
        if keys.shape != (size, 2) or x.shape != (size, m) or y.shape != (size, n):
            raise StateError(f"omega: {size} entries need keys ({size}, 2), x ({size}, {m}) and y ({size}, {n}), "
                             f"got {keys.shape}, {x.shape} and {y.shape}. The state is damaged.")  # fmt: skip
        omega = Omega(m, n)
        omega.put(Entries(keys[:, 0], keys[:, 1], values, x, y))
        return omega
