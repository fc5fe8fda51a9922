"""Distances between the subspaces that factors span (Section 3 of the paper)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.errors import invalid

FloatArray = NDArray[np.float64]


def orthonormal(factor: FloatArray) -> FloatArray:
    """An orthonormal basis (m, k) of the span of `factor` (m, r); k < r where its columns depend on each other."""
    left, sizes, _ = np.linalg.svd(factor, full_matrices=False)
    if not sizes.size or sizes[0] == 0.0:
        return left[:, :0]
    return left[:, sizes > sizes[0] * max(factor.shape) * np.finfo(np.float64).eps]


def principal_angles(A: ArrayLike, B: ArrayLike) -> FloatArray:
    """The angles θ₁ ≤ θ₂ ≤ … in radians between the spans of A (m, r) and B (m, s), as many as the smaller dimension.

    Small angles come from sines and large ones from cosines, since each is inaccurate where it is flat.
    """
    a, b = (orthonormal(_matrix(name, given)) for name, given in (("A", A), ("B", B)))
    if len(a) != len(b):
        raise invalid("B", f"must have as many rows as A ({len(a)})", b.shape, "Compare subspaces of the same space.")
    if a.shape[1] < b.shape[1]:
        a, b = b, a
    cosines = np.clip(np.linalg.svd(a.T @ b, compute_uv=False), 0.0, 1.0)
    sines = np.clip(np.linalg.svd(b - a @ (a.T @ b), compute_uv=False)[::-1][: len(cosines)], 0.0, 1.0)
    angles: FloatArray = np.where(cosines**2 > 0.5, np.arcsin(sines), np.arccos(cosines))
    return angles


def canonical_distance(A: ArrayLike, B: ArrayLike) -> float:
    """The projection distance d = √(Σ sin² θ_k) = √(r − tr(A Aᵀ B Bᵀ)) of Section 3, for any bases A and B.

    0 for equal subspaces, √r for orthogonal ones. Bases need not be orthonormal. Where dimensions differ, the
    directions that only one of the subspaces has count as orthogonal.
    """
    a, b = orthonormal(_matrix("A", A)), orthonormal(_matrix("B", B))
    missing = abs(a.shape[1] - b.shape[1])
    return float(np.sqrt(np.sum(np.sin(principal_angles(a, b)) ** 2) + missing))


def _matrix(name: str, given: ArrayLike) -> FloatArray:
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise invalid(
            name, "must be a finite matrix whose columns span the subspace", matrix, "Pass a 2-D float array."
        )
    return matrix
