"""Why Numba: one update by polaug's kernel, by SciPy's BLAS calls and by NumPy; `python -m benchmarks.rank_one`.

The same arithmetic each time: φ = x ⊗ y, h = P φ, P ← P − h hᵀ / (1 + φᵀh), and the step of w.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas

from benchmarks.timing import alternate, save
from polaug.completion.rank_one import add_entry


def measure(parameters: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(parameters // 5), rng.standard_normal(5)
    lower, fortran, full = np.eye(parameters), np.asfortranarray(np.eye(parameters)), np.eye(parameters)
    w, b, h, phi, w_blas, b_blas = np.zeros((6, parameters))
    w_numpy = np.zeros(parameters)

    def numba() -> None:
        add_entry(lower, w, b, h, phi, x, y, 1.0, 1.0, 0.1)

    def scipy() -> None:
        f = np.multiply.outer(x, y).ravel()
        g = blas.dsymv(1.0, fortran, f, lower=1)
        below, residual = 1.0 + blas.ddot(g, f), 1.0 - blas.ddot(w_blas, f)
        blas.daxpy(f, b_blas)
        blas.daxpy(g, w_blas, a=residual / below)
        blas.dsyr(-1.0 / below, g, lower=1, a=fortran, overwrite_a=1)

    def numpy() -> None:
        f = np.multiply.outer(x, y).ravel()
        g = full @ f
        below, residual = 1.0 + g @ f, 1.0 - w_numpy @ f
        np.add(w_numpy, g * (residual / below), out=w_numpy)
        np.subtract(full, np.multiply.outer(g / below, g), out=full)

    times = alternate(numba, scipy, numpy, rounds=15, repeats=50 if parameters < 1000 else 10)
    return {"parameters": parameters} | {
        f"{name}_us": round(1e6 * seconds, 1) for name, seconds in zip(("numba", "scipy", "numpy"), times, strict=True)
    }


def main() -> None:
    rows = [measure(parameters) for parameters in (25, 100, 300, 1000)]
    for row in rows:
        print(row)
    save("rank_one", {"update": rows})


if __name__ == "__main__":
    main()
