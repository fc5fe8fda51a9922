"""Recursive ridge completion: one new, changed or removed entry at a time, no refit (the paper's own future work).

W (m, n) minimises Σ_Ω weight · (Q̃ − xᵀ W y)² + ridge ‖W‖², a linear least-squares problem in the p = m n numbers of W
with features φ = x ⊗ y. The model keeps P = Λ⁻¹ and w = Λ⁻¹ b, where Λ = ridge I + Σ weight φφᵀ and b = Σ weight φ Q̃:

    a new entry       h = P φ,  P ← P − weight h hᵀ / (1 + weight φᵀh),  w ← w + weight h (Q̃ − φᵀw) / (1 + weight φᵀh)
    a removed entry   the same with the negative weight
    a revised value   w ← w + weight P φ ΔQ̃

each in O(p²) whatever the number of rows, columns, entries or steps. Rank-one updates lose digits, so w is
refined against Λw = b every few updates, the entries since the last refactorisation are kept aside, and every 2p
updates (sooner at first, and at once when a removal is ill-conditioned) Λ takes them in by one matrix product and is
inverted anew: amortised O(p²) too. Results agree with a batch fit to 1e-8 of the largest value observed.

Forgetting is applied every `block` = max(64, 2p) updates: every weight is multiplied by forgetting^block, the ridge is
not, so that P stays bounded in directions that are no longer visited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from polaug.checks import positive, whole
from polaug.completion.entries import Entries, FloatArray
from polaug.completion.rank_one import add_entry, refine, revise_entry, times
from polaug.errors import StateError, invalid

_CHUNK = 1024
_ILL_CONDITIONED = 0.1  # 1 + weight φᵀPφ below this: refactorise instead of a rank-one update


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursiveOptions:
    """Settings of the `recursive` solver."""

    rank: int | None = None
    """Keep only the best rank-r part of W in predictions; None: all of W."""
    ridge: float = 1e-4
    """Weight of ‖W‖² against one observed entry. Below about 1e-5 rounding begins to show in large models."""
    forgetting: float = 1.0
    """Factor by which the weight of an entry shrinks with every later one (applied in blocks); 1: never forget."""
    noise: float | None = None
    """Standard deviation of the observed values, for that of predictions; None: estimated from the residuals."""

    def __post_init__(self) -> None:
        if self.rank is not None:
            whole("rank", self.rank, 1)
        positive("ridge", self.ridge)
        if not (0.0 < self.forgetting <= 1.0):
            raise invalid(
                "forgetting", "must lie in (0, 1]", self.forgetting, "Pass 1 to keep everything, or say 0.999."
            )
        if self.noise is not None:
            positive("noise", self.noise)


class Recursive:
    """The `recursive` solver: exact ridge regression of W, updated entry by entry."""

    Options = RecursiveOptions
    needs_all_rows = False

    def __init__(self, options: RecursiveOptions, m: int, n: int) -> None:
        self.options = options
        self._m, self._n = m, n
        self._full_rank = min(m, n)
        self.rank = options.rank or self._full_rank
        p = m * n
        self.block = max(64, 2 * p)
        self.iterations, self.status = 1, "converged"
        self._entries: dict[tuple[int, int], tuple[float, float, int]] = {}  # value, weight, epoch of that weight
        self._epoch = 0  # blocks forgotten so far
        self._since_block = 0
        self._gram = np.zeros((p, p))  # Σ weight φφᵀ without the pending entries
        self._b = np.zeros(p)
        self._P = np.eye(p) / options.ridge  # Λ⁻¹; only the lower triangle is kept up to date
        self._w = np.zeros(p)
        self.weights = self._w.reshape(m, n)  # W (m, n), a view
        self._pending = np.empty((self.block, p))
        self._pending_weights = np.empty(self.block)
        self._n_pending = 0
        self._updates_at_refactor = 0
        self._updates = 0
        self._revisions = 0
        self._refine_every = 1 if p <= 64 else 8  # small models have the time; large ones amortise it
        self._phi, self._h = np.empty(p), np.empty(p)
        self._square_sum = 0.0  # Σ weight Q̃²
        self._weight_sum = 0.0

    @property
    def n_entries(self) -> int:
        """|Ω|."""
        return len(self._entries)

    def update(self, X: FloatArray, Y: FloatArray, entries: Entries) -> None:
        """Add new entries and revise known ones."""
        if len(entries) >= 8 and not self._entries:
            self._add_many(entries)
            return
        rows, columns, values = entries.rows.tolist(), entries.columns.tolist(), entries.values.tolist()
        for k, key in enumerate(zip(rows, columns, strict=True)):
            self.put(X, Y, key, entries.x[k], entries.y[k], values[k])

    def _add_many(self, entries: Entries) -> None:
        """The first entries at once: matrix products instead of as many rank-one updates."""
        for k in range(0, len(entries), _CHUNK):
            x, y, v = entries.x[k : k + _CHUNK], entries.y[k : k + _CHUNK], entries.values[k : k + _CHUNK]
            phi = (x[:, :, None] * y[:, None, :]).reshape(len(v), -1)
            self._gram += phi.T @ phi
            self._b += v @ phi
            self._square_sum += float(v @ v)
        keys = zip(entries.rows.tolist(), entries.columns.tolist(), strict=True)
        self._entries = {key: (value, 1.0, 0) for key, value in zip(keys, entries.values.tolist(), strict=True)}
        self._weight_sum = float(len(entries))
        self._updates = len(entries)
        self._refactor()

    def put(
        self, X: FloatArray, Y: FloatArray, key: tuple[int, int], x: FloatArray, y: FloatArray, value: float
    ) -> None:
        """Add the entry at `key` = (row, column), or revise it if it is known. The fast path: nothing is checked."""
        known = self._entries.get(key)
        if known is None:
            self._add(x, y, value, 1.0)
        elif self.options.forgetting == 1.0 or known[2] == self._epoch:
            self._revise(x, y, value - known[0], known[0], known[1])
            self._entries[key] = (value, known[1], known[2])
            return
        else:  # a revision renews the weight of an entry that had begun to fade
            self._drop(x, y, known)
            self._add(x, y, value, 1.0)
        self._entries[key] = (value, 1.0, self._epoch)
        self._tick()

    def remove(self, entries: Entries) -> None:
        """Remove known entries."""
        for k, key in enumerate(zip(entries.rows.tolist(), entries.columns.tolist(), strict=True)):
            self._drop(entries.x[k], entries.y[k], self._entries.pop(key))
            self._tick()

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._entries

    def _weight_now(self, known: tuple[float, float, int]) -> float:
        return known[1] * float(self.options.forgetting ** (self.block * (self._epoch - known[2])))

    def _drop(self, x: FloatArray, y: FloatArray, known: tuple[float, float, int]) -> None:
        self._add(x, y, known[0], -self._weight_now(known))

    def _add(self, x: FloatArray, y: FloatArray, value: float, weight: float) -> None:
        if self._n_pending == self.block:
            self._refactor()
        held = add_entry(
            self._P, self._w, self._b, self._h, self._pending[self._n_pending], x, y, value, weight, _ILL_CONDITIONED
        )
        self._pending_weights[self._n_pending] = weight
        self._n_pending += 1
        self._updates += 1
        self._square_sum += weight * value * value
        self._weight_sum += weight
        # Early on, P still carries 1/ridge in most directions and rank-one updates lose most: refactor at 8, 16, 32, …
        if not held or (self._n_pending >= 8 and self._n_pending >= self._updates_at_refactor):
            self._refactor()
        elif self._updates % self._refine_every == 0:
            self._refine()

    def _revise(self, x: FloatArray, y: FloatArray, change: float, before: float, weight: float) -> None:
        revise_entry(self._P, self._w, self._b, self._h, self._phi, x, y, weight * change)
        self._square_sum += weight * (change * (2.0 * before + change))
        self._revisions += 1
        if self._revisions % self._refine_every == 0:
            self._refine()

    def _tick(self) -> None:
        """Count an addition or removal; at the end of a block, forget."""
        self._since_block += 1
        if self._since_block >= self.block:
            self._since_block = 0
            if self.options.forgetting < 1.0:
                self._absorb()
                fade = self.options.forgetting**self.block
                self._gram *= fade
                self._b *= fade
                self._square_sum *= fade
                self._weight_sum *= fade
                self._epoch += 1
                self._refactor()

    def _refine(self) -> None:
        """One step of iterative refinement of w: its error no longer depends on how P came about."""
        n = self._n_pending
        refine(self._P, self._w, self._b, self._gram, self._pending[:n], self._pending_weights[:n], self.options.ridge)

    def _absorb(self) -> None:
        """Move the pending entries into the Gram matrix by one matrix product."""
        pending, weights = self._pending[: self._n_pending], self._pending_weights[: self._n_pending]
        self._gram += pending.T @ (weights[:, None] * pending)
        self._n_pending = 0

    def _refactor(self) -> None:
        """P and w from Λ and b, without the rounding of the rank-one updates since the last time."""
        self._absorb()
        self._updates_at_refactor = self._updates
        if not self._entries and self._weight_sum == 0.0:
            self._gram[:] = 0.0  # all entries are gone: nothing of them may remain, not even rounding
            self._b[:] = 0.0
            self._square_sum = 0.0
        self._P = inverse_of(self._gram + self.options.ridge * np.eye(len(self._b)))
        times(self._P, self._b, self._w)
        self._refine()

    def settle(self) -> None:
        """Refactorise now, so that the solution is as exact as a batch fit."""
        self._refactor()

    def _factors(self) -> tuple[FloatArray, FloatArray]:
        """U (m, r) and V (n, r) with W ≈ U Vᵀ."""
        left, sizes, right_t = np.linalg.svd(self.weights, full_matrices=False)
        root = np.sqrt(sizes[: self.rank])
        return left[:, : self.rank] * root, right_t[: self.rank].T * root

    @property
    def U(self) -> FloatArray:  # noqa: N802 (the paper's name)
        """U (m, r) with W ≈ U Vᵀ."""
        return self._factors()[0]

    @property
    def V(self) -> FloatArray:  # noqa: N802 (the paper's name)
        """V (n, r) with W ≈ U Vᵀ."""
        return self._factors()[1]

    def predict(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Q̂ (M, N); cheaper than through the factors where W is used whole."""
        if self.rank == self._full_rank:
            return np.asarray(X @ self.weights @ Y.T)
        U, V = self._factors()
        return np.asarray((X @ U) @ (Y @ V).T)

    def std(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Standard deviation of Q̂ (M, N): noise · √(φᵀ Λ⁻¹ φ)."""
        lower = np.tril(self._P)
        P = (lower + np.tril(lower, -1).T).reshape(self._m, self._n, self._m, self._n)
        variance = np.empty((len(X), len(Y)))
        for a, y in enumerate(Y):
            inner = np.einsum("n,inks,s->ik", y, P, y, optimize=True)
            variance[:, a] = np.einsum("ki,ij,kj->k", X, inner, X, optimize=True)
        return self._noise() * np.sqrt(np.maximum(variance, 0.0))

    def _noise(self) -> float:
        if self.options.noise is not None:
            return self.options.noise
        if self._weight_sum <= 0.0:
            return 1.0
        left_over = max(self._square_sum - float(self._b @ self._w), 0.0)
        return float(np.sqrt(left_over / self._weight_sum))

    def merge(self, other: Recursive) -> None:
        """Take in another model's data, exactly; a pair that both have counts with both weights."""
        if other.options != self.options or (other._m, other._n) != (self._m, self._n):
            raise invalid(
                "other", f"must have the same features ({self._m}, {self._n}) and settings", other.options,
                "Build both models with the same arguments.",
            )  # fmt: skip
        self._absorb()
        other._absorb()
        # Each side's weights are expressed at its own epoch, which is "now" for both; so the sums simply add.
        for key, (value, weight, epoch) in other._entries.items():
            theirs = other._weight_now((value, weight, epoch))
            if key in self._entries:
                known = self._entries[key]
                ours = self._weight_now(known)
                value = (ours * known[0] + theirs * value) / (ours + theirs)
                theirs += ours
            self._entries[key] = (value, theirs, self._epoch)
        self._gram += other._gram
        self._b += other._b
        self._square_sum += other._square_sum
        self._weight_sum += other._weight_sum
        self._updates += other._updates
        self._refactor()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The state as plain arrays."""
        n = self._n_pending
        keys = np.array(list(self._entries), dtype=np.int64).reshape(-1, 2)
        records = np.array(list(self._entries.values()), dtype=np.float64).reshape(-1, 3)
        counters = [self._epoch, self._since_block, self._updates_at_refactor, self._updates,
                    self._revisions]  # fmt: skip
        return {
            "keys": keys, "records": records, "gram": self._gram.copy(), "b": self._b.copy(), "P": self._P.copy(),
            "w": self._w.copy(), "pending": self._pending[:n].copy(),
            "pending_weights": self._pending_weights[:n].copy(),
            "counters": np.array(counters, dtype=np.int64), "sums": np.array([self._square_sum, self._weight_sum]),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, NDArray[Any]]) -> None:
        """Continue from `state_dict`."""
        p, n = len(self._b), len(state["pending_weights"])
        entries = len(state["keys"])
        shapes = {"keys": (entries, 2), "records": (entries, 3), "gram": (p, p), "b": (p,), "P": (p, p), "w": (p,),
                  "pending": (n, p), "counters": (5,), "sums": (2,)}  # fmt: skip
        for name, shape in shapes.items():
            if state[name].shape != shape:
                raise StateError(f"{name}: must have shape {shape}, got {state[name].shape}. The state is damaged.")
        if n > self.block:
            raise StateError(f"pending: must have at most {self.block} rows, got {n}. The state is damaged.")
        self._entries = {
            (int(key[0]), int(key[1])): (float(record[0]), float(record[1]), int(record[2]))
            for key, record in zip(state["keys"], state["records"], strict=True)
        }
        self._gram, self._b = state["gram"].copy(), state["b"].copy()
        self._P = state["P"].copy()
        self._w[:] = state["w"]
        self._pending[:n], self._pending_weights[:n] = state["pending"], state["pending_weights"]
        self._n_pending = n
        counters = (int(c) for c in state["counters"])
        self._epoch, self._since_block, self._updates_at_refactor, self._updates, self._revisions = counters
        self._square_sum, self._weight_sum = (float(s) for s in state["sums"])


def inverse_of(matrix: FloatArray) -> FloatArray:
    """The inverse of a positive definite matrix, right in its lower triangle.

    Eigenvalues lost to rounding are raised to the rounding level.
    """
    factor, info = linalg.lapack.dpotrf(matrix, lower=1)
    if info == 0:
        inverse, info = linalg.lapack.dpotri(factor, lower=1)
        if info == 0:
            return np.ascontiguousarray(inverse)
    sizes, vectors = np.linalg.eigh(matrix)
    sizes = np.maximum(sizes, len(matrix) * np.finfo(np.float64).eps * max(sizes[-1], 1e-300))
    return np.asarray((vectors / sizes) @ vectors.T)
