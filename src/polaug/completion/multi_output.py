"""Recursive ridge regression of several outputs on shared features: the engine behind every prediction of box 3.

The rows of Φ are features φ(s, a) = x(s) ⊗ y(a) of the pairs tried so far (Ω), the columns of T the numbers known
there: each coordinate of the next state, the reward, a value. W (p, k) minimises

    ‖T − Φ W‖² + tr(Wᵀ Λ₀ W),    so    W = P Φᵀ T    with    P = Λ⁻¹,  Λ = Λ₀ + Φᵀ Φ

and φᵀ W completes all entries outside Ω. Each row is taken in as it comes, in O(p²) and whatever their number:

    h = P φ,   g = 1 / (1 + φᵀ h),   P ← P − g h hᵀ,   W ← W + g h (t − φᵀ W)

√(φᵀ P φ) is the standard deviation of a prediction in units of the noise: the novelty of the pair, which a bandit
takes for its optimism (Abbasi-Yadkori et al., 2011). Φᵀ Φ and Φᵀ T are sums, so engines that have seen different data
merge exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polaug.compiled import compiled
from polaug.completion.entries import FloatArray
from polaug.completion.rank_one import times
from polaug.completion.recursive import inverse_of
from polaug.errors import invalid
from polaug.snapshot import saved

_BULK = 0.5  # rows, as a share of p, from which on a matrix product and an inversion cost less than rank-one updates


@saved("prior", "_gram", "_moments", "count", "_block", "_since", "_P", "weights")
class MultiOutput:
    """Ridge regression of k outputs, one row at a time.

    Parameters
    ----------
    prior : array (p, p) or (p,)
        Λ₀, or its diagonal.
    outputs : int
        k; 0 for an engine that only measures novelty.
    """

    def __init__(self, prior: FloatArray, outputs: int) -> None:
        self.prior: FloatArray = np.diag(prior) if prior.ndim == 1 else prior
        p = len(self.prior)
        self._gram, self._moments, self.count = np.zeros((p, p)), np.zeros((p, outputs)), 0
        self._block = max(64, p)  # rank-one updates between two inversions, which take away their rounding
        self._since = 0
        self._P = inverse_of(self.prior)
        self.weights = np.zeros((p, outputs))
        """W (p, k)."""

    @property
    def features(self) -> int:
        """P, the number of features."""
        return len(self.prior)

    def add(self, phi: FloatArray, targets: FloatArray, step: int | None = None) -> None:
        """Take in rows φ (n, p) with their targets (n, k): all at once, or to the bit as if `step` came at a time."""
        step = len(phi) if step is None else step
        if self.multiplies(step):
            for at in range(0, len(phi), step):
                some = phi[at : at + step]
                self._gram += some.T @ some
                self._moments += some.T @ targets[at : at + step]
                self.count += len(some)
                self._invert()
            return
        for block in self.blocks(len(phi), step):
            add_rows(*self.arrays, phi[block], targets[block])

    def blocks(self, rows: int, step: int) -> Iterator[slice]:
        """The rows, `step` of which come at a time, up to each inversion. The caller takes them in before the next."""
        at = 0
        while at < rows:
            until = min(at - (self._since - self._block) // step * step, rows)
            yield slice(at, until)
            self.count += until - at
            self._since += until - at
            if self._since >= self._block:
                self._invert()
            at = until

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """P, W, Φᵀ Φ and Φᵀ T, which `add_rows` changes in place; of the first and third only the lower triangles."""
        return self._P, self.weights, self._gram, self._moments

    def multiplies(self, rows: int) -> bool:
        """Whether so many rows at once are taken in by a matrix product and an inversion."""
        return rows >= _BULK * len(self.prior)

    def solve(self, moments: FloatArray) -> None:
        """Give all rows so far other targets, with Φᵀ T = `moments` (p, k): a sweep of fitted Q iteration."""
        self._moments, self.weights = moments, np.asarray(self.inverse @ moments)

    def inverts_with(self, rows: int) -> bool:
        """Whether taking in so many rows ends with an inversion, in O(p³)."""
        return self._since + rows >= self._block or rows >= _BULK * len(self.prior)

    def predict(self, phi: FloatArray) -> FloatArray:
        """φᵀ W (n, k)."""
        return np.asarray(phi @ self.weights)

    def variance(self, phi: FloatArray) -> FloatArray:
        """φᵀ P φ (n,): the variance of a prediction in units of the noise, which falls with what was seen nearby."""
        return np.asarray(np.einsum("ni,ni->n", phi @ self.inverse, phi))

    @property
    def inverse(self) -> FloatArray:
        """P (p, p), symmetric."""
        return np.asarray(np.tril(self._P) + np.tril(self._P, -1).T)

    @property
    def lower(self) -> FloatArray:
        """P (p, p), of which only the lower triangle counts; not a copy."""
        return self._P

    def merge(self, other: MultiOutput) -> None:
        """Take in the rows that another engine with the same features and prior has seen."""
        if other._moments.shape != self._moments.shape:
            p, k = self._moments.shape
            raise invalid("other", f"must be of {p} features and {k} outputs", other._moments.shape,
                          "Merge engines with the same settings.")  # fmt: skip
        self._gram += other._gram
        self._moments += other._moments
        self.count += other.count
        self._invert()

    def _invert(self) -> None:
        """P and W from the sums, without the rounding of the rank-one updates since the last time."""
        self._since = 0
        self._P = inverse_of(self.prior + self._gram)
        self.weights = np.asarray(self.inverse @ self._moments)


@compiled
def add_rows(
    P: FloatArray, W: FloatArray, gram: FloatArray, moments: FloatArray, phi: FloatArray, targets: FloatArray
) -> None:
    """Sherman–Morrison in place for rows φ (n, p), on the lower triangles of P and `gram`, on W and `moments`."""
    p, k = W.shape
    h = np.empty(p)
    for r in range(phi.shape[0]):
        row = phi[r]
        times(P, row, h)
        leverage = 0.0
        for i in range(p):
            leverage += h[i] * row[i]
        gain = 1.0 / (1.0 + max(leverage, 0.0))
        for o in range(k):
            left = targets[r, o]
            for i in range(p):
                left -= row[i] * W[i, o]
            for i in range(p):
                W[i, o] += gain * h[i] * left
                moments[i, o] += row[i] * targets[r, o]
        for i in range(p):
            step, at = gain * h[i], row[i]
            below, sums = P[i], gram[i]
            for j in range(i + 1):
                below[j] -= step * h[j]
                sums[j] += at * row[j]
