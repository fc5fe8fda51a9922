"""`InductiveCompletion`: the estimator. It checks its input and calls a solver."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.completion.als import Als
from polaug.completion.entries import FloatArray, IntArray, read_entries, read_features, read_one
from polaug.completion.multiplicative import Multiplicative
from polaug.completion.recursive import Recursive
from polaug.errors import NotFittedError, StateError, invalid, unknown

SOLVERS: dict[str, type[Any]] = {"als": Als, "multiplicative": Multiplicative, "recursive": Recursive}
"""Solvers by name. Their input is checked. `needs_all_rows`: they use all of X and Y, not only the observed rows."""


def solvers() -> tuple[str, ...]:
    """The names of the completion solvers."""
    return tuple(SOLVERS)


class InductiveCompletion:
    """Completes a matrix from a few observed entries and the features of its rows and columns: Q̂ = X U Vᵀ Yᵀ.

    Parameters
    ----------
    solver
        "als" (low rank, fitted on the observed entries only), "multiplicative" (Eq. 3 and 4 of the paper) or
        "recursive" (entry by entry, with a standard deviation).
    rank
        Columns of U and V. None lets the solver choose (als: from the data, multiplicative: 1, recursive: full rank).
    **options
        Settings of the solver; see `AlsOptions`, `MultiplicativeOptions` and `RecursiveOptions`.

    Examples
    --------
    >>> import numpy as np, polaug
    >>> X, Y = np.random.default_rng(0).normal(size=(50, 4)), np.eye(3)
    >>> Q = X @ np.ones((4, 1)) @ np.array([[1.0, -1.0, 2.0]])
    >>> rows, columns = np.arange(50), np.arange(50) % 3
    >>> completion = polaug.InductiveCompletion(solver="als", rank=1).fit(X, Y, rows, columns, Q[rows, columns])
    >>> bool(np.allclose(completion.predict(X, Y), Q, atol=1e-6))
    True
    """

    def __init__(self, solver: str = "als", rank: int | None = None, **options: Any) -> None:
        if solver not in SOLVERS:
            raise unknown("solver", solver, SOLVERS)
        self.solver = solver
        settings = SOLVERS[solver].Options
        valid = {field.name for field in dataclasses.fields(settings)}
        for name in options:
            if name not in valid:
                raise unknown(f"option of solver {solver!r}", name, valid)
        self.options = settings(rank=rank, **options)
        self._solver: Any = None
        self._m = self._n = 0

    def __repr__(self) -> str:
        settings = ", ".join(f"{f.name}={getattr(self.options, f.name)!r}" for f in dataclasses.fields(self.options))
        return f"InductiveCompletion(solver={self.solver!r}, {settings})"

    def fit(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        counts: ArrayLike | None = None,
    ) -> InductiveCompletion:
        """Fit to Q(rows[k], columns[k]) = values[k]. Earlier entries are forgotten.

        X (M, m) and Y (N, n) hold the features of all rows and columns. With `counts` (the paper's Nq) the values are
        divided by them: Q̃ = Q / Nq. Duplicate pairs count once, with their mean value.
        """
        x_all, y_all = read_features("X", X, None, finite=True), read_features("Y", Y, None, finite=True)
        entries = read_entries(x_all, y_all, rows, columns, values, counts)
        m, n = x_all.shape[1], y_all.shape[1]
        solver = self._new_solver(m, n)
        solver.update(x_all, y_all, entries)
        if isinstance(solver, Recursive):
            solver.settle()
        self._solver, self._m, self._n = solver, m, n
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        Y: ArrayLike,
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        counts: ArrayLike | None = None,
    ) -> InductiveCompletion:
        """Add new entries and update the values of known ones. The first call is a `fit`.

        A single entry as plain Python numbers, `partial_fit(X, Y, 17, 2, 0.5)`, is fastest. The call reads only the
        rows of X and Y in `rows` and `columns`, so its cost does not depend on M and N. The `multiplicative` solver
        also needs XᵀX. It recomputes XᵀX only if X or Y is another array than before, so do not change them in place.
        """
        fresh = self._solver is None
        x_all = read_features("X", X, None if fresh else self._m, finite=False)
        y_all = read_features("Y", Y, None if fresh else self._n, finite=False)
        m, n = x_all.shape[1], y_all.shape[1]
        solver = self._new_solver(m, n) if fresh else self._solver
        known = solver.needs_all_rows and solver.knows(x_all, y_all)
        if solver.needs_all_rows and not known:
            read_features("X", x_all, m, finite=True)
            read_features("Y", y_all, n, finite=True)
        one: Any = (rows, columns, values)
        fast = counts is None and hasattr(solver, "put")
        if fast and type(one[0]) is int and type(one[1]) is int and type(one[2]) is float:
            solver.put(x_all, y_all, one[:2], *read_one(x_all, y_all, *one, scanned=known))
        else:
            solver.update(x_all, y_all, read_entries(x_all, y_all, rows, columns, values, counts))
        self._solver, self._m, self._n = solver, m, n
        return self

    def remove(self, X: ArrayLike, Y: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> InductiveCompletion:
        """Remove observed entries (solvers "als" and "recursive")."""
        solver = self._fitted_as("remove entries", "als", "recursive")
        x_all, y_all = read_features("X", X, self._m, finite=False), read_features("Y", Y, self._n, finite=False)
        entries = read_entries(x_all, y_all, rows, columns, np.zeros(np.size(np.asarray(rows))))
        missing = [k for k in zip(entries.rows.tolist(), entries.columns.tolist(), strict=True) if k not in solver]
        if missing:
            raise invalid("rows, columns", "must name observed entries", missing[0], "Remove only what was fitted.")
        solver.remove(entries)
        return self

    def merge(self, other: InductiveCompletion) -> InductiveCompletion:
        """Add the data of another fitted model (solver "recursive"). The result is exact."""
        ours, theirs = (each._fitted_as("merge", "recursive") for each in (self, other))
        if theirs is ours:
            raise invalid("other", "must be another model", other, "A model already contains its own data.")
        ours.merge(theirs)
        return self

    def predict(self, X: ArrayLike, Y: ArrayLike, return_std: bool = False) -> Any:
        """Q̂ (M, N) for features X (M, m) of any rows and Y (N, n) of any columns, also unseen ones.

        With `return_std` the result is (Q̂, standard deviation), for the solvers "recursive" (noise · √(φᵀΛ⁻¹φ)) and
        "als" (for fixed V).
        """
        solver = self._fitted_as("give return_std", "als", "recursive") if return_std else self._fitted()
        x = read_features("X", X, self._m, finite=True)
        y = read_features("Y", Y, self._n, finite=True)
        mean = solver.predict(x, y) if isinstance(solver, Recursive) else (x @ solver.U) @ (y @ solver.V).T
        return (mean, solver.std(x, y)) if return_std else mean

    def greedy(self, X: ArrayLike, Y: ArrayLike) -> IntArray:
        """The column (M,) with the largest Q̂ for each row of X; the first one of equal ones."""
        best: IntArray = self.predict(X, Y).argmax(axis=1)
        return best

    def factors(self) -> tuple[FloatArray, FloatArray]:
        """Copies of U (m, r) and V (n, r)."""
        solver = self._fitted()
        return solver.U.copy(), solver.V.copy()

    def penalties(self) -> dict[str, float]:
        """The weights λ₁, λ₂, ridge_u, ridge_v that `polaug.cost` takes, in the caller's units (solver "als")."""
        penalties: dict[str, float] = self._fitted_as("ask for its penalties", "als").penalties()
        return penalties

    def previous(self) -> tuple[FloatArray, FloatArray] | None:
        """U' and V' of the geodesic term in the last fit (solver "als"); None if there were none."""
        solver = self._fitted()
        return solver.previous if isinstance(solver, Als) else None

    @property
    def rank(self) -> int:
        """The rank in use."""
        return int(self._fitted().rank)

    @property
    def n_entries(self) -> int:
        """Number of observed entries |Ω|."""
        return int(self._solver.n_entries) if self._solver is not None else 0

    @property
    def iterations(self) -> int:
        """Number of alternations of the last fit."""
        return int(self._fitted().iterations)

    @property
    def status(self) -> str:
        """How the last fit ended: "converged", "max_iterations" or "diverged"."""
        return str(self._fitted().status)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The fitted model as plain arrays. `load_state_dict` restores it exactly."""
        state = dict(self._fitted().state_dict())
        state["solver"] = np.array(self.solver)
        state["shape"] = np.array([self._m, self._n], dtype=np.int64)
        return state

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> InductiveCompletion:
        """Restore the `state_dict` of a model with the same solver. An error leaves the model unchanged."""
        try:
            if str(state["solver"]) != self.solver:
                raise StateError(
                    f"solver: the state belongs to {str(state['solver'])!r}, this model is {self.solver!r}. "
                    "Build the model with the same solver."
                )
            m, n = (int(size) for size in state["shape"])
            solver = self._new_solver(m, n)
            solver.load_state_dict(state)
        except (KeyError, TypeError, IndexError, AttributeError) as fault:
            raise StateError(f"state: damaged or incomplete ({fault!r}). Save it again with state_dict().") from fault
        except ValueError as fault:
            if isinstance(fault, StateError):
                raise
            raise StateError(f"state: does not fit this model ({fault}).") from fault
        self._solver, self._m, self._n = solver, m, n
        return self

    def _new_solver(self, m: int, n: int) -> Any:
        rank, most = self.options.rank, min(m, n)
        if rank is not None and rank > most:
            raise invalid("rank", f"must be at most {most}, the smaller of X's {m} and Y's {n} features", rank,
                          f"Pass rank={most} or fewer, or features that distinguish more.")  # fmt: skip
        return SOLVERS[self.solver](self.options, m, n)

    def _fitted_as(self, what: str, *solvers: str) -> Any:
        """The fitted solver, which must be one of `solvers` to do `what`."""
        if self.solver not in solvers:
            rule = f"must be {' or '.join(map(repr, solvers))} to {what}"
            raise invalid("solver", rule, self.solver, f"Build the model with solver={solvers[-1]!r}.")
        return self._fitted()

    def _fitted(self) -> Any:
        if self._solver is None:
            raise NotFittedError("InductiveCompletion: not fitted yet. Call fit or partial_fit first.")
        return self._solver
