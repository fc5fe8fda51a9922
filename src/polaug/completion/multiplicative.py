"""Eq. 3 and 4 of the paper as printed: multiplicative updates of U and V.

With A = XᵀX, B = YᵀY and C = XᵀQ̃Y the updates never need an M × N, nor an M × m product:

    Eq. 3   U ← U ∘ (C V)  / (A U VᵀB V − λ₁ U' U'ᵀ U)
    Eq. 4   V ← V ∘ (Cᵀ U) / (B V UᵀA U − λ₂ V' V'ᵀ V)

A and B depend on X and Y alone and are computed once; an entry that changes by δ changes C by δ x yᵀ. What the paper
leaves undefined is defined here:

- *Zero denominators.* A denominator that is 0, or smaller than the rounding error of the terms it is made of, leaves
  its entry as it is.
- *Sign changes.* Q̃, X and Y may be negative, so ratios may be too; then the entry changes its sign, as printed.
- *Divergence.* If an update would leave the range ±1e150, the factors from before that update are kept and the
  iteration ends with status "diverged".
- *Convergence.* The iteration ends when neither factor changed by more than `tolerance`, relative to its Frobenius
  norm, or after `max_iterations`.

`reading="masked"` replaces XᵀX U Vᵀ YᵀY by Xᵀ P_Ω(X U VᵀYᵀ) Y: only observed entries are fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polaug.checks import choice, non_negative, positive, whole
from polaug.compiled import compiled
from polaug.completion.cost import READINGS, Reading
from polaug.completion.entries import Entries, FloatArray, Omega
from polaug.errors import StateError
from polaug.state import State, generator_state, restored_generator
from polaug.streams import stream

STATUS = ("converged", "max_iterations", "diverged")
_LIMIT = 1e150
_ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplicativeOptions:
    """Settings of the `multiplicative` solver."""

    rank: int | None = None
    """Columns of U and V; None: 1, the rank of the paper's one-column Y."""
    lambda_1: float = 1.0
    """λ₁, the weight of the previous U in Eq. 3."""
    lambda_2: float = 1.0
    """λ₂, the weight of the previous V in Eq. 4."""
    reading: Reading = "zero_filled"
    """Fit zero-filled Q̃ as printed, or only Ω ("masked")."""
    init: Literal["random", "previous"] = "random"
    """Start every fit from random dense factors as Algorithm 1 does, or from the previous ones."""
    tolerance: float = 1e-6
    """Relative change of both factors at which the alternation has converged."""
    max_iterations: int = 500
    """Bound on the alternations of Eq. 3 and 4."""
    seed: int = 0
    """Seed of the random dense initialisation."""

    def __post_init__(self) -> None:
        if self.rank is not None:
            whole("rank", self.rank, 1)
        choice("reading", self.reading, READINGS)
        choice("init", self.init, ("random", "previous"))
        non_negative("lambda_1", self.lambda_1)
        non_negative("lambda_2", self.lambda_2)
        positive("tolerance", self.tolerance)
        whole("max_iterations", self.max_iterations, 1)


class Multiplicative:
    """The `multiplicative` solver: Q̂ = X U Vᵀ Yᵀ by Eq. 3 and 4."""

    Options = MultiplicativeOptions
    needs_all_rows = True

    def __init__(self, options: MultiplicativeOptions, m: int, n: int) -> None:
        self.options = options
        self.rank = options.rank or 1
        self._rng = stream(options.seed, "completion", "multiplicative")
        self.U: FloatArray | None = None
        self.V: FloatArray | None = None
        self.iterations, self.status = 0, "converged"
        self._omega = Omega(m, n)
        self._C = np.zeros((m, n))
        self._changes = 0
        self._X: FloatArray | None = None
        self._Y: FloatArray | None = None
        self._A, self._B = np.zeros((m, m)), np.zeros((n, n))

    @property
    def n_entries(self) -> int:
        """|Ω|."""
        return len(self._omega)

    def knows(self, X: FloatArray, Y: FloatArray) -> bool:
        """True if these very arrays were used last, so that XᵀX and YᵀY still hold."""
        return X is self._X and Y is self._Y

    def _know(self, X: FloatArray, Y: FloatArray) -> None:
        if not self.knows(X, Y):
            self._X, self._Y = X, Y
            self._A, self._B = X.T @ X, Y.T @ Y

    def update(self, X: FloatArray, Y: FloatArray, entries: Entries) -> None:
        """Add or revise entries, then alternate Eq. 3 and 4 until convergence."""
        self._know(X, Y)
        change = self._omega.put(entries)
        self._C += entries.x.T @ (change[:, None] * entries.y)
        self._settle(len(entries))

    def put(
        self, X: FloatArray, Y: FloatArray, key: tuple[int, int], x: FloatArray, y: FloatArray, value: float
    ) -> None:
        """`update` for one entry. The fast path: nothing is checked."""
        self._know(X, Y)
        self._C += (self._omega.put_one(key, x, y, value) * x)[:, None] * y
        self._settle(1)

    def _settle(self, changes: int) -> None:
        self._changes += changes
        if self._changes > max(len(self._omega), 64):  # rounding of many small changes must not pile up
            self._changes = 0
            self._C = self._omega.x.T @ (self._omega.values[:, None] * self._omega.y)
        self._alternate()

    def _alternate(self) -> None:
        options, (m, n) = self.options, self._C.shape
        first = self.U is None
        previous_U = np.zeros((m, self.rank)) if self.U is None else self.U
        previous_V = np.zeros((n, self.rank)) if self.V is None else self.V
        if options.init == "random" or first:
            start = self._rng.random((m + n, self.rank))
            start += 1e-3  # dense: an entry that starts at 0 stays 0
            U, V = start[:m], start[m:]
        else:
            U, V = previous_U.copy(), previous_V.copy()
        masked = options.reading == "masked"
        left, right = (self._omega.x, self._omega.y) if masked else (self._A, self._B)
        self.iterations, status = alternate_factors(
            masked, left, right, self._C, U, V, previous_U, previous_V,
            options.lambda_1, options.lambda_2, options.tolerance, options.max_iterations,
        )  # fmt: skip
        self.U, self.V, self.status = U, V, STATUS[status]

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Factors, Ω and the generator's state as plain arrays."""
        state: State = {
            "generator": generator_state(self._rng), "C": self._C.copy(), "changes": np.array(self._changes),
            **self._omega.state_dict(),
        }  # fmt: skip
        if self.U is not None and self.V is not None:
            state |= {"U": self.U.copy(), "V": self.V.copy()}
        return state

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore a `state_dict`. XᵀX and YᵀY are recomputed at the next update."""
        m, n = self._C.shape
        omega = Omega.from_state(state, m, n)
        U, V = state["U"].copy(), state["V"].copy()
        if U.shape != (m, self.rank) or V.shape != (n, self.rank):
            raise StateError(f"U, V: must be {(m, self.rank)} and {(n, self.rank)}, got {U.shape} and {V.shape}.")
        C, changes = state["C"].copy(), int(state["changes"])
        if C.shape != (m, n):
            raise StateError(f"C: must have shape {(m, n)}, got {C.shape}. The state is damaged.")
        self._rng = restored_generator(state["generator"])
        self._omega, self._changes, self._C = omega, changes, C
        self.U, self.V = U, V
        self._X = self._Y = None


@compiled
def _product(A: FloatArray, B: FloatArray, out: FloatArray) -> None:
    """Out = A B for small matrices; BLAS would cost more to call than to run."""
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            out[i, j] = total


@compiled
def _rescale(
    factor: FloatArray, top: FloatArray, bottom: FloatArray, previous: FloatArray, overlap: FloatArray, weight: float
) -> float:
    """Factor ← factor ∘ top / (bottom − weight · previous overlap): the common shape of Eq. 3 and 4.

    `overlap` is previousᵀ factor. Gives the relative change of the factor, or −1 (and no change) on divergence;
    `top` is overwritten.
    """
    change, size = 0.0, 0.0
    for i in range(factor.shape[0]):
        for j in range(factor.shape[1]):
            pull = 0.0
            for k in range(previous.shape[1]):
                pull += previous[i, k] * overlap[k, j]
            pull *= weight
            below = bottom[i, j] - pull
            new = factor[i, j]
            if abs(below) > _ROUNDING * (abs(bottom[i, j]) + abs(pull)):
                new *= top[i, j] / below
            if not abs(new) < _LIMIT:  # catches NaN too
                return -1.0
            change += (new - factor[i, j]) ** 2
            size += new * new
            top[i, j] = new
    factor[:, :] = top
    if size == 0.0:
        return 0.0 if change == 0.0 else 1.0
    return float((change / size) ** 0.5)


@compiled
def _masked_fit(x: FloatArray, y: FloatArray, U: FloatArray, V: FloatArray, out: FloatArray) -> None:
    """Out = Xᵀ P_Ω(X U VᵀYᵀ) Y V (m, r) as a sum over Ω; its counterpart for V has the roles exchanged."""
    r = U.shape[1]
    z, t = np.empty(r), np.empty(r)
    out[:, :] = 0.0
    for k in range(x.shape[0]):
        predicted = 0.0
        for j in range(r):
            z[j] = 0.0
            for i in range(x.shape[1]):
                z[j] += x[k, i] * U[i, j]
            t[j] = 0.0
            for i in range(y.shape[1]):
                t[j] += y[k, i] * V[i, j]
            predicted += z[j] * t[j]
        for i in range(x.shape[1]):
            for j in range(r):
                out[i, j] += predicted * x[k, i] * t[j]


@compiled
def alternate_factors(
    masked: bool, left: FloatArray, right: FloatArray, C: FloatArray, U: FloatArray, V: FloatArray,
    previous_U: FloatArray, previous_V: FloatArray,
    lambda_1: float, lambda_2: float, tolerance: float, max_iterations: int,
) -> tuple[int, int]:  # fmt: skip
    """Eq. 3 and 4, in place on U (m, r) and V (n, r); gives iterations and index into STATUS.

    `left` and `right` are A (m, m) and B (n, n), or, if `masked`, the features x (|Ω|, m) and y (|Ω|, n) of Ω.
    """
    m, n, r = U.shape[0], V.shape[0], U.shape[1]
    AU, BV, inner, overlap = np.empty((m, r)), np.empty((n, r)), np.empty((r, r)), np.empty((r, r))
    top_u, bottom_u = np.empty((m, r)), np.empty((m, r))
    top_v, bottom_v = np.empty((n, r)), np.empty((n, r))
    for iteration in range(max_iterations):
        if masked:
            _masked_fit(left, right, U, V, bottom_u)
        else:
            _product(right, V, BV)
            _product(V.T, BV, inner)
            _product(left, U, AU)
            _product(AU, inner, bottom_u)
        _product(C, V, top_u)
        _product(previous_U.T, U, overlap)
        change_u = _rescale(U, top_u, bottom_u, previous_U, overlap, lambda_1)  # Eq. 3
        if change_u < 0.0:
            return iteration, 2
        if masked:
            _masked_fit(right, left, V, U, bottom_v)
        else:
            _product(left, U, AU)
            _product(U.T, AU, inner)
            _product(BV, inner, bottom_v)
        _product(C.T, U, top_v)
        _product(previous_V.T, V, overlap)
        change_v = _rescale(V, top_v, bottom_v, previous_V, overlap, lambda_2)  # Eq. 4
        if change_v < 0.0:
            return iteration, 2
        if max(change_u, change_v) <= tolerance:
            return iteration + 1, 0
    return max_iterations, 1
