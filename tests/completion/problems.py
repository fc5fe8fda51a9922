"""Random completion problems for the tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Problem:
    X: np.ndarray
    Y: np.ndarray
    Q: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    @property
    def values(self):
        return self.Q[self.rows, self.columns]

    @property
    def observed(self):
        return self.X, self.Y, self.rows, self.columns, self.values

    @property
    def mask(self):
        mask = np.zeros(self.Q.shape)
        mask[self.rows, self.columns] = 1.0
        return mask


def low_rank(seed=0, M=40, N=12, m=6, n=4, rank=2, entries=100, noise=0.0, non_negative=False):
    rng = np.random.default_rng(seed)
    draw = rng.random if non_negative else (lambda size: rng.standard_normal(size))
    X, Y = draw((M, m)), draw((N, n))
    Q = X @ draw((m, rank)) @ draw((rank, n)) @ Y.T + noise * rng.standard_normal((M, N))
    at = rng.choice(M * N, entries, replace=False)
    return Problem(X, Y, Q, at // N, at % N)
