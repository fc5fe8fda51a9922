"""Cost of the completion engine: `python -m benchmarks.completion` (about a minute on one core).

Recursive: one update and one greedy action against the bare BLAS operations they need, at 100, 300 and 1000 parameters;
against the number of rows; against the number of steps. Multiplicative: one completion as printed against the dense
transcription of Eq. 3 and 4.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import blas
from tests.reference import dense_multiplicative

import polaug
from benchmarks.timing import alternate, save
from polaug.completion.multiplicative import alternate_factors


def recursive_against_blas(parameters: int) -> dict[str, float]:
    n = 5
    m = parameters // n
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2000, m)), rng.standard_normal((11, n))
    model = polaug.InductiveCompletion("recursive", ridge=1e-2)
    order = itertools.cycle(rng.permutation(2000 * 11).tolist())
    values = rng.standard_normal(2000 * 11).tolist()

    def public() -> None:
        at = next(order)
        row, column = divmod(at, 11)
        model.partial_fit(X, Y, row, column, values[at])
        model.greedy(X[row : row + 1], Y)

    def engine() -> None:
        at = next(order)
        row, column = divmod(at, 11)
        solver.put(X, Y, (row, column), X[row], Y[column], values[at])
        int((X[row] @ solver.weights @ Y.T).argmax())

    for _ in range(100):
        public()
    solver = model._solver
    P = np.asfortranarray(np.eye(parameters))
    W = np.asfortranarray(rng.standard_normal((n, m)))
    phi = rng.standard_normal(parameters)
    x = rng.standard_normal(m)

    def bare() -> None:  # P φ, the rank-one update of P, w + …, xᵀ W, (xᵀ W) Yᵀ
        h = blas.dsymv(1.0, P, phi)
        blas.dsyr(1e-9, h, a=P, overwrite_a=1)
        blas.daxpy(h, phi.copy(), a=1e-9)
        blas.dgemv(1.0, Y, blas.dgemv(1.0, W, x))

    # A whole block of updates in each measurement, so that refactorisations are in it in proportion.
    repeats = solver.block
    times = alternate(bare, engine, public, rounds=7 if parameters < 1000 else 3, repeats=repeats)
    return {
        "parameters": parameters,
        "bare_blas_us": round(1e6 * times[0], 2),
        "engine_us": round(1e6 * times[1], 2),
        "public_us": round(1e6 * times[2], 2),
        "engine_ratio": round(times[1] / times[0], 2),
        "public_ratio": round(times[2] / times[0], 2),
    }


def recursive_against_rows() -> dict[str, float]:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((3, 3))
    calls = []
    for M in (285, 1_000_000):
        X = rng.standard_normal((M, 30))
        model = polaug.InductiveCompletion("recursive", ridge=1e-2)
        rows = itertools.cycle(rng.choice(M, 285, replace=False).tolist())

        def call(model=model, X=X, rows=rows) -> None:
            row = next(rows)
            model.partial_fit(X, Y, row, row % 3, 1.0)
            model.greedy(X[row : row + 1], Y)

        for _ in range(400):
            call()
        calls.append(call)
    small, large = alternate(*calls, rounds=9, repeats=400)
    return {
        "rows_285_us": round(1e6 * small, 2),
        "rows_1e6_us": round(1e6 * large, 2),
        "ratio": round(large / small, 2),
    }


def recursive_against_steps() -> dict[str, float]:
    """Fresh pairs all the way: step 10³ and step 10⁵ of two models, measured turn by turn."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((120_000, 20)), rng.standard_normal((5, 5))
    calls = []
    for steps in (1_000, 100_000):
        model = polaug.InductiveCompletion("recursive", ridge=1e-2)
        model.fit(X[:8], Y, range(8), [0] * 8, np.ones(8))
        rows = iter(range(8, 120_000))

        def call(model=model, rows=rows) -> None:
            row = next(rows)
            model.partial_fit(X, Y, row, row % 5, 1.0)
            model.greedy(X[row : row + 1], Y)

        for _ in range(steps):
            call()
        calls.append(call)
    early, late = alternate(*calls, rounds=9, repeats=400)
    return {"step_1e3_us": round(1e6 * early, 2), "step_1e5_us": round(1e6 * late, 2), "ratio": round(late / early, 2)}


def multiplicative_against_dense(M: int, N: int, m: int, observed: int) -> dict[str, float]:
    """One time step of Algorithm 1: one entry changes, then Eq. 3 and 4 alternate 100 times from the same factors."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((M, m)), (np.arange(N) + 1.0)[:, None]
    rows, columns = rng.integers(0, M, observed), rng.integers(0, N, observed)
    values = rng.random(observed)
    iterations = 100
    options = {"lambda_1": 0.0, "lambda_2": 0.0, "tolerance": 1e-300, "max_iterations": iterations}
    model = polaug.InductiveCompletion("multiplicative", rank=1, **options).fit(X, Y, rows, columns, values)
    Q_tilde = np.zeros((M, N))
    np.add.at(Q_tilde, (rows, columns), values)
    pairs, counts = np.unique(np.stack([rows, columns]), axis=1, return_counts=True)
    Q_tilde[pairs[0], pairs[1]] /= counts
    start_U, start_V = rng.random((m, 1)), rng.random((1, 1))
    none_U, none_V = np.zeros((m, 1)), np.zeros((1, 1))

    def dense() -> tuple[np.ndarray, np.ndarray, int]:
        return dense_multiplicative(X, Y, Q_tilde, start_U, start_V, none_U, none_V, 0.0, 0.0, 1e-300, iterations)

    def ours() -> None:
        model.partial_fit(X, Y, row, column, value)

    row, column = int(rows[0]), int(columns[0])
    value = float(Q_tilde[row, column])
    U, V, _ = dense()
    solver = model._solver
    u, v = start_U.copy(), start_V.copy()
    alternate_factors(False, solver._A, solver._B, solver._C, u, v, none_U, none_V, 0.0, 0.0, 1e-300, iterations)
    np.testing.assert_allclose(u @ v.T, U @ V.T, rtol=1e-8)
    slow, fast = alternate(dense, ours, rounds=7, repeats=20 if M < 1000 else 3)
    return {
        "M": M,
        "N": N,
        "dense_ms": round(1e3 * slow, 3),
        "ours_ms": round(1e3 * fast, 4),
        "ratio": round(slow / fast),
    }


def main() -> None:
    results = {
        "recursive_against_blas": [recursive_against_blas(p) for p in (100, 300, 1000)],
        "recursive_against_rows": recursive_against_rows(),
        "recursive_against_steps": recursive_against_steps(),
        "multiplicative_against_dense": [
            multiplicative_against_dense(285, 3, 2, 200),
            multiplicative_against_dense(100_000, 11, 4, 5000),
        ],
    }
    for name, result in results.items():
        for row in result if isinstance(result, list) else [result]:
            print(f"{name:30s}", "  ".join(f"{key} {value}" for key, value in row.items()))
    save("completion", results)


if __name__ == "__main__":
    main()
