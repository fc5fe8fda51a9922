"""`InductiveCompletion`: the estimator that checks what comes in and hands it to a solver."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.completion.als import Als
from polaug.completion.entries import Entries, FloatArray, IntArray, read_entries, read_features, read_one
from polaug.completion.multiplicative import Multiplicative
from polaug.completion.recursive import Recursive
from polaug.errors import NotFittedError, StateError, invalid, unknown


class Solver(Protocol):
    """What a solver offers the estimator. Input has been checked; `update` must not fail half-way."""

    Options: ClassVar[Any]
    needs_all_rows: ClassVar[bool]  # True: all of X and Y matters, not only the observed rows
    iterations: int
    status: str

    def __init__(self, options: Any, m: int, n: int) -> None: ...

    @property
    def rank(self) -> int:
        """Columns of U and V."""

    @property
    def n_entries(self) -> int:
        """|Ω|."""

    @property
    def U(self) -> FloatArray | None:  # noqa: N802 (the paper's name)
        """Factor of the rows' features, (m, r)."""

    @property
    def V(self) -> FloatArray | None:  # noqa: N802 (the paper's name)
        """Factor of the columns' features, (n, r)."""

    def knows(self, X: FloatArray, Y: FloatArray) -> bool:
        """True if nothing has to be computed anew from all of X and Y."""

    def update(self, X: FloatArray, Y: FloatArray, entries: Entries) -> None:
        """Add new entries and revise known ones."""

    def put(
        self, X: FloatArray, Y: FloatArray, key: tuple[int, int], x: FloatArray, y: FloatArray, value: float
    ) -> None:
        """`update` for the entry at `key` = (row, column), whose features are x and y."""

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything as plain arrays."""

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from `state_dict`."""


SOLVERS: dict[str, type[Any]] = {
    "als": Als,
    "multiplicative": Multiplicative,
    "recursive": Recursive,
}


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
        Columns of U and V; None leaves the choice to the solver (als: from the data, multiplicative: 1,
        recursive: all).
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
        """Fit to Q(rows[k], columns[k]) = values[k] alone, forgetting everything before.

        X (M, m) and Y (N, n) hold the features of all rows and columns. With `counts` (the paper's Nq) the values are
        divided by them: Q̃ = Q / Nq. Pairs given more than once count once, with the mean of their values.
        """
        x_all, y_all = read_features("X", X, None, finite=True), read_features("Y", Y, None, finite=True)
        entries = read_entries(x_all, y_all, rows, columns, values, counts)
        m, n = x_all.shape[1], y_all.shape[1]
        solver = SOLVERS[self.solver](self.options, m, n)
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
        """Add new entries and revise the values of known ones; the first call is a `fit`.

        One entry as plain Python numbers, `partial_fit(X, Y, 17, 2, 0.5)`, takes the shortest way. Only the rows of X
        and Y that `rows` and `columns` name are read, so the cost does not depend on M and N. The
        `multiplicative` solver needs XᵀX as well: it recomputes it only when X or Y is another array than in the call
        before, so do not change those arrays in place.
        """
        fresh = self._solver is None
        x_all = read_features("X", X, None if fresh else self._m, finite=False)
        y_all = read_features("Y", Y, None if fresh else self._n, finite=False)
        m, n = x_all.shape[1], y_all.shape[1]
        solver = SOLVERS[self.solver](self.options, m, n) if fresh else self._solver
        known = solver.needs_all_rows and solver.knows(x_all, y_all)
        if solver.needs_all_rows and not known:
            read_features("X", x_all, m, finite=True)
            read_features("Y", y_all, n, finite=True)
        one: Any = (rows, columns, values)
        if counts is None and type(one[0]) is int and type(one[1]) is int and type(one[2]) is float:
            solver.put(x_all, y_all, one[:2], *read_one(x_all, y_all, *one, scanned=known))
        else:
            solver.update(x_all, y_all, read_entries(x_all, y_all, rows, columns, values, counts))
        self._solver, self._m, self._n = solver, m, n
        return self

    def remove(self, X: ArrayLike, Y: ArrayLike, rows: ArrayLike, columns: ArrayLike) -> InductiveCompletion:
        """Take entries out of Ω again (solvers "als" and "recursive"); each must be in it."""
        solver = self._fitted()
        if isinstance(solver, Multiplicative):
            raise invalid(
                "solver",
                "must be 'als' or 'recursive' to remove entries",
                self.solver,
                "Call fit without them.",
            )
        x_all, y_all = (
            read_features("X", X, self._m, finite=False),
            read_features("Y", Y, self._n, finite=False),
        )
        entries = read_entries(x_all, y_all, rows, columns, np.zeros(np.size(np.asarray(rows))))
        missing = [k for k in zip(entries.rows.tolist(), entries.columns.tolist(), strict=True) if k not in solver]
        if missing:
            raise invalid("rows, columns", "must name observed entries", missing[0], "Remove only what was fitted.")
        if isinstance(solver, Recursive):
            solver.remove(entries.rows, entries.columns, entries.x, entries.y)
        else:
            solver.remove(entries.rows, entries.columns)
        return self

    def merge(self, other: InductiveCompletion) -> InductiveCompletion:
        """Take in the data of another fitted model (solver "recursive"), exactly as if this one had seen it."""
        ours, theirs = self._fitted(), other._fitted()
        if not (isinstance(ours, Recursive) and isinstance(theirs, Recursive)):
            raise invalid(
                "solver",
                "must be 'recursive' in both models to merge",
                other.solver,
                "Fit with solver='recursive'.",
            )
        if theirs is ours:
            raise invalid("other", "must be another model", other, "A model's own data is in it already.")
        ours.merge(theirs)
        return self

    def predict(self, X: ArrayLike, Y: ArrayLike, return_std: bool = False) -> Any:
        """Q̂ (M, N) for any rows' features X (M, m) and columns' features Y (N, n), seen in training or not.

        With `return_std` gives (Q̂, its standard deviation), for the solvers "recursive" (noise · √(φᵀΛ⁻¹φ)) and "als"
        (given V).
        """
        solver = self._fitted()
        if return_std and isinstance(solver, Multiplicative):
            raise invalid(
                "return_std",
                "needs solver 'recursive' or 'als'",
                self.solver,
                "Eq. 3 and 4 carry no uncertainty.",
            )
        x = read_features("X", X, self._m, finite=True)
        y = read_features("Y", Y, self._n, finite=True)
        mean = solver.predict(x, y) if isinstance(solver, Recursive) else (x @ solver.U) @ (y @ solver.V).T
        return (mean, solver.std(x, y)) if return_std else mean

    def greedy(self, X: ArrayLike, Y: ArrayLike) -> IntArray:
        """The column with the largest Q̂ for each row of X, (M,); the first of equal ones."""
        best: IntArray = self.predict(X, Y).argmax(axis=1)
        return best

    def factors(self) -> tuple[FloatArray, FloatArray]:
        """U (m, r) and V (n, r); copies, so that changing them does not change the model."""
        solver = self._fitted()
        return solver.U.copy(), solver.V.copy()

    def penalties(self) -> dict[str, float]:
        """The weights λ₁, λ₂, ridge_u, ridge_v that `polaug.cost` takes, in the caller's units (solver "als")."""
        solver = self._fitted()
        if not isinstance(solver, Als):
            raise invalid(
                "solver",
                "must be 'als' to ask for its penalties",
                self.solver,
                "Only als minimises J as it stands.",
            )
        return solver.penalties()

    def previous(self) -> tuple[FloatArray, FloatArray] | None:
        """U' and V' of the geodesic term in the last fit (solver "als"); None where there were none."""
        solver = self._fitted()
        return solver.previous() if isinstance(solver, Als) else None

    @property
    def rank(self) -> int:
        """The rank in use."""
        return int(self._fitted().rank)

    @property
    def n_entries(self) -> int:
        """How many entries have been observed, |Ω|."""
        return int(self._solver.n_entries) if self._solver is not None else 0

    @property
    def iterations(self) -> int:
        """Alternations that the last fit took."""
        return int(self._fitted().iterations)

    @property
    def status(self) -> str:
        """How the last fit ended: "converged", "max_iterations" or "diverged"."""
        return str(self._fitted().status)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The fitted model as plain arrays, without pickles; `load_state_dict` continues from it to the bit."""
        state = dict(self._fitted().state_dict())
        state["solver"] = np.array(self.solver)
        state["shape"] = np.array([self._m, self._n], dtype=np.int64)
        return state

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> InductiveCompletion:
        """Continue from `state_dict` of a model with the same solver; on any fault the model stays as it was."""
        try:
            if str(state["solver"]) != self.solver:
                raise StateError(
                    f"solver: the state belongs to {str(state['solver'])!r}, this model is {self.solver!r}. "
                    "Build the model with the same solver."
                )
            m, n = (int(size) for size in state["shape"])
            solver = SOLVERS[self.solver](self.options, m, n)
            solver.load_state_dict(state)
        except (KeyError, TypeError, IndexError, AttributeError) as fault:
            raise StateError(f"state: damaged or incomplete ({fault!r}). Save it anew with state_dict().") from fault
        except ValueError as fault:
            if isinstance(fault, StateError):
                raise
            raise StateError(f"state: does not fit this model ({fault}).") from fault
        self._solver, self._m, self._n = solver, m, n
        return self

    def _fitted(self) -> Any:
        if self._solver is None:
            raise NotFittedError("InductiveCompletion: not fitted yet. Call fit or partial_fit first.")
        return self._solver
