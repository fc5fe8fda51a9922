"""Alternating least squares: the low-rank Q̂ = X U Vᵀ Yᵀ that fits the observed entries Ω, and only those.

In units where X, Y and the values have root mean square 1, it minimises Eq. 2 masked to Ω with a ridge,

    J = Σ_Ω (Q̃ − xᵀU Vᵀy)² + (ρ + λ₁)‖U‖² + (ρ + λ₂)‖V‖² + λ₁(r − tr(UUᵀU'U'ᵀ)) + λ₂(r − tr(VVᵀV'V'ᵀ)),

where U' and V' are orthonormal bases of the previous factors. Adding λ to the ridge of its factor makes the geodesic
term λ‖(I − U'U'ᵀ)U‖², a distance for every U and not only for orthonormal ones, so that each half-step is a convex
problem with one solution, and J never increases. `penalties()` gives the weights in the caller's units, ready for
`polaug.cost`.

The start is the best rank-r part of the ridge solution for a full W where that has a moderate size, otherwise random;
so the result does not depend on the order of the observations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from polaug.checks import non_negative, positive, whole
from polaug.completion.cost import orthonormal
from polaug.completion.entries import Entries, FloatArray, Omega
from polaug.errors import StateError
from polaug.streams import stream

_FULL_START = 1200  # parameters of W up to which the start is its ridge solution
_CHUNK = 4096
_MAX_AUTO_RANK = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsOptions:
    """Settings of the `als` solver."""

    rank: int | None = None
    """Columns of U and V; None: chosen from the data by the Bayesian information criterion, up to 10."""
    ridge: float = 1e-9
    """ρ, relative to features and values of root mean square 1."""
    lambda_1: float = 0.0
    """λ₁: how strongly U keeps to the previous subspace. It binds only with a ridge: else U shrinks and V grows."""
    lambda_2: float = 0.0
    """λ₂: how strongly V keeps to the subspace of the previous fit."""
    tolerance: float = 1e-10
    """Relative decrease of J at which the alternation has converged."""
    max_iterations: int = 500
    """Bound on the alternations."""
    seed: int = 0
    """Seed of the random start that large problems use."""

    def __post_init__(self) -> None:
        if self.rank is not None:
            whole("rank", self.rank, 1)
        positive("ridge", self.ridge)
        positive("tolerance", self.tolerance)
        non_negative("lambda_1", self.lambda_1)
        non_negative("lambda_2", self.lambda_2)
        whole("max_iterations", self.max_iterations, 1)


@dataclass(frozen=True, slots=True)
class _Problem:
    """Ω in units of root mean square 1, sorted by column."""

    x: FloatArray  # (|Ω|, m)
    columns: NDArray[np.int64]  # (|Ω|,) numbers of the groups, ascending
    starts: NDArray[np.int64]  # (groups,) where each group begins
    y: FloatArray  # (groups, n)
    values: FloatArray  # (|Ω|,)
    scale_x: float
    scale_y: float
    scale_v: float

    @staticmethod
    def of(omega: Omega) -> _Problem:
        # A canonical order makes results independent of the order of the observations, to the bit.
        order = np.lexsort((*omega.x.T, omega.values, omega.columns))
        x, v = omega.x[order], omega.values[order]
        _, first, groups = np.unique(omega.columns[order], return_index=True, return_inverse=True)
        y = omega.y[order][first]
        sx, sy, sv = (_rms(array) for array in (x, y, v))
        return _Problem(x / sx, groups, first, y / sy, v / sv, sx, sy, sv)


class Als:
    """The `als` solver: low rank, on Ω only."""

    Options = AlsOptions
    needs_all_rows = False

    def __init__(self, options: AlsOptions, m: int, n: int) -> None:
        self.options = options
        self._m, self._n = m, n
        self._omega = Omega(m, n)
        self.U: FloatArray | None = None
        self.V: FloatArray | None = None
        self.iterations, self.status = 0, "converged"
        self._scales = (1.0, 1.0, 1.0)
        self.previous: tuple[FloatArray, FloatArray] | None = None
        """U' and V', the orthonormal bases of the last fit's predecessors."""
        self._noise = 0.0

    @property
    def n_entries(self) -> int:
        """|Ω|."""
        return len(self._omega)

    @property
    def rank(self) -> int:
        """The rank in use: given, or chosen by the last fit."""
        if self.U is not None:
            return int(self.U.shape[1])
        return self.options.rank or 1

    def update(self, X: FloatArray, Y: FloatArray, entries: Entries) -> None:
        """Add or revise entries, then alternate, from the previous factors if there are any."""
        self._omega.put(entries)
        self._refit()

    def remove(self, entries: Entries) -> None:
        """Remove pairs that are in Ω, then alternate."""
        for row, column in zip(entries.rows.tolist(), entries.columns.tolist(), strict=True):
            self._omega.remove(row, column)
        self._refit()

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._omega

    def _refit(self) -> None:
        if len(self._omega) == 0:
            rank = self.options.rank or 1
            self.U, self.V = np.zeros((self._m, rank)), np.zeros((self._n, rank))
            return
        problem = _Problem.of(self._omega)
        start = None
        if self.U is not None and self.V is not None and self.U.any() and self.V.any():
            root = np.sqrt(problem.scale_v)
            start = (self.U * (problem.scale_x / root), self.V * (problem.scale_y / root))
            self.previous = (orthonormal(self.U), orthonormal(self.V))
        if self.options.rank is not None:
            U, V, _ = self._solve(problem, self.options.rank, start)
        else:
            U, V = self._choose_rank(problem)
        self._noise = float(np.mean(_residuals(problem, U, V) ** 2)) * problem.scale_v**2
        root = np.sqrt(problem.scale_v)
        self.U, self.V = U * (root / problem.scale_x), V * (root / problem.scale_y)
        self._scales = (problem.scale_x, problem.scale_y, problem.scale_v)

    def _choose_rank(self, problem: _Problem) -> tuple[FloatArray, FloatArray]:
        """The rank with the least Bayesian information criterion; ranks beyond a perfect fit are not tried."""
        size = len(problem.values)
        best: tuple[float, FloatArray, FloatArray] | None = None
        for rank in range(1, min(self._m, self._n, _MAX_AUTO_RANK) + 1):
            U, V, _ = self._solve(problem, rank, None)
            error = max(float(np.mean(_residuals(problem, U, V) ** 2)), 1e-12)  # values have mean square 1
            parameters = rank * (self._m + self._n - rank)
            criterion = size * np.log(error) + parameters * np.log(size)
            if best is None or criterion < best[0]:
                best = (criterion, U, V)
            if error <= 1e-12 or parameters >= size:
                break
        assert best is not None
        return best[1], best[2]

    def _solve(
        self, problem: _Problem, rank: int, start: tuple[FloatArray, FloatArray] | None
    ) -> tuple[FloatArray, FloatArray, float]:
        """Alternate from `start` until J stops decreasing; gives U, V in the problem's units, and J."""
        o = self.options
        U, V = start if start is not None and start[0].shape[1] == rank else self._start(problem, rank)
        keep_u, keep_v = self._penalty(0), self._penalty(1)
        grams = _column_grams(problem)
        J = np.inf
        self.status = "max_iterations"
        for iteration in range(1, o.max_iterations + 1):
            U = _solve_u(problem, grams, V, keep_u)
            V = _solve_v(problem, U, keep_v)
            before, J = J, float(
                np.sum(_residuals(problem, U, V) ** 2) + np.sum(U * (keep_u @ U)) + np.sum(V * (keep_v @ V))
            )  # fmt: skip
            self.iterations = iteration
            if before - J <= o.tolerance * J:
                self.status = "converged"
                break
        return U, V, J

    def _penalty(self, which: int) -> FloatArray:
        """(ρ + λ) I − λ U'U'ᵀ for factor 0 (U) or 1 (V): positive definite, since U' is orthonormal."""
        keep = self.options.ridge * np.eye((self._m, self._n)[which])
        if self.previous is not None:
            weight, basis = (self.options.lambda_1, self.options.lambda_2)[which], self.previous[which]
            keep += weight * (np.eye(len(basis)) - basis @ basis.T)
        return keep

    def _start(self, problem: _Problem, rank: int) -> tuple[FloatArray, FloatArray]:
        m, n = self._m, self._n
        if m * n > _FULL_START:
            rng = stream(self.options.seed, "completion", "als")
            return rng.standard_normal((m, rank)), rng.standard_normal((n, rank))
        groups = problem.y.shape[0]
        gram, right = np.zeros((m * n, m * n)), np.zeros((m, n))
        for c in range(groups):
            x = problem.x[problem.columns == c]
            y = problem.y[c]
            gram += np.kron(x.T @ x, np.outer(y, y))
            right += np.outer(x.T @ problem.values[problem.columns == c], y)
        ridge = max(self.options.ridge, 1e-8) * max(np.trace(gram) / (m * n), 1e-300)
        W = _solve_positive(gram + ridge * np.eye(m * n), right.ravel()).reshape(m, n)
        left, sizes, right_t = np.linalg.svd(W, full_matrices=False)
        root = np.sqrt(np.maximum(sizes[:rank], 1e-8 * max(sizes[0], 1e-8)))
        return left[:, :rank] * root, right_t[:rank].T * root

    def penalties(self) -> dict[str, float]:
        """λ₁, λ₂, ridge_u and ridge_v in the caller's units, as `polaug.cost` takes them."""
        sx, sy, sv = self._scales
        first, second = (0.0, 0.0) if self.previous is None else (self.options.lambda_1, self.options.lambda_2)
        return {
            "lambda_1": first * sv * sx**2,
            "lambda_2": second * sv * sy**2,
            "ridge_u": (self.options.ridge + first) * sv * sx**2,
            "ridge_v": (self.options.ridge + second) * sv * sy**2,
        }

    def std(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Standard deviation of Q̂ (M, N) given V: what the observed entries leave open about U."""
        assert self.V is not None
        sx, sy, sv = self._scales
        if len(self._omega) == 0:
            return np.full((len(X), len(Y)), np.inf)
        problem = _Problem.of(self._omega)
        V = self.V * (sy / np.sqrt(sv))
        system = _system_u(problem, _column_grams(problem), V, self._penalty(0))
        m, r = self._m, V.shape[1]
        inverse = linalg.pinvh(system).reshape(m, r, m, r)
        t = (Y / sy) @ V
        x = X / sx
        variance = np.empty((len(X), len(Y)))
        for a in range(len(Y)):
            inner = np.einsum("r,irjs,s->ij", t[a], inverse, t[a])
            variance[:, a] = np.einsum("ki,ij,kj->k", x, inner, x)
        return np.sqrt(np.maximum(variance, 0.0) * self._noise)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Factors, their predecessors and Ω as plain arrays."""
        state: dict[str, NDArray[Any]] = {
            "scales": np.array(self._scales), "noise": np.array(self._noise), **self._omega.state_dict(),
        }  # fmt: skip
        if self.U is not None and self.V is not None:
            state |= {"U": self.U.copy(), "V": self.V.copy()}
        if self.previous is not None:
            state |= {"previous_U": self.previous[0].copy(), "previous_V": self.previous[1].copy()}
        return state

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from `state_dict`."""
        omega = Omega.from_state(state, self._m, self._n)
        if state["scales"].shape != (3,):
            raise StateError(f"scales: must have 3 numbers, got shape {state['scales'].shape}. The state is damaged.")
        U, V = state["U"].copy(), state["V"].copy()
        if len(U) != self._m or len(V) != self._n or U.shape[1] != V.shape[1]:
            raise StateError(f"U, V: do not fit {self._m} and {self._n} features, got {U.shape} and {V.shape}.")
        self._omega, self.U, self.V = omega, U, V
        self.previous = (state["previous_U"], state["previous_V"]) if "previous_U" in state else None
        self._scales = (float(state["scales"][0]), float(state["scales"][1]), float(state["scales"][2]))
        self._noise = float(state["noise"])


def _rms(array: FloatArray) -> float:
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    return float(largest * np.sqrt(np.mean((array / largest) ** 2)))  # scaled first: 1e200² would overflow


def _residuals(problem: _Problem, U: FloatArray, V: FloatArray) -> FloatArray:
    fitted: FloatArray = np.einsum("kr,kr->k", problem.x @ U, (problem.y @ V)[problem.columns])
    return problem.values - fitted


def _column_grams(problem: _Problem) -> FloatArray | None:
    """Σ x xᵀ of each column's entries (groups, m, m), where that takes no more memory than Ω itself."""
    groups, m = problem.y.shape[0], problem.x.shape[1]
    if groups * m > max(len(problem.x), 64):
        return None
    grams = np.empty((groups, m, m))
    for c in range(groups):
        x = problem.x[problem.columns == c]
        grams[c] = x.T @ x
    return grams


def _system_u(problem: _Problem, grams: FloatArray | None, V: FloatArray, keep: FloatArray) -> FloatArray:
    """The normal equations (m r, m r) of U given V."""
    t = problem.y @ V
    m, r = problem.x.shape[1], V.shape[1]
    system = np.asarray(np.kron(keep, np.eye(r)), dtype=np.float64)
    if grams is not None:
        outer = t[:, :, None] * t[:, None, :]
        system += np.tensordot(grams, outer, (0, 0)).transpose(0, 2, 1, 3).reshape(m * r, m * r)
        return system
    for k in range(0, len(problem.x), _CHUNK):
        x, columns = problem.x[k : k + _CHUNK], problem.columns[k : k + _CHUNK]
        phi = (x[:, :, None] * t[columns][:, None, :]).reshape(len(x), m * r)
        system += phi.T @ phi
    return system


def _solve_u(problem: _Problem, grams: FloatArray | None, V: FloatArray, keep: FloatArray) -> FloatArray:
    t = (problem.y @ V)[problem.columns]
    right = problem.x.T @ (problem.values[:, None] * t)
    solution: FloatArray = _solve_positive(_system_u(problem, grams, V, keep), right.ravel())
    return solution.reshape(right.shape)


def _solve_v(problem: _Problem, U: FloatArray, keep: FloatArray) -> FloatArray:
    z = problem.x @ U
    n, r = problem.y.shape[1], U.shape[1]
    outer = np.add.reduceat(z[:, :, None] * z[:, None, :], problem.starts)
    sums = np.add.reduceat(z * problem.values[:, None], problem.starts)
    pairs = problem.y[:, :, None] * problem.y[:, None, :]
    system = np.tensordot(pairs, outer, (0, 0)).transpose(0, 2, 1, 3).reshape(n * r, n * r)
    right = problem.y.T @ sums
    return _solve_positive(system + np.kron(keep, np.eye(r)), right.ravel()).reshape(n, r)


def _solve_positive(system: FloatArray, right: FloatArray) -> FloatArray:
    """Solve a positive definite system; one that rounding made singular gets its least-norm solution."""
    try:
        return np.asarray(linalg.cho_solve(linalg.cho_factor(system), right))
    except linalg.LinAlgError:
        return np.asarray(linalg.lstsq(system, right)[0])
