"""The cost J of Eq. 2, and the distances between the subspaces that factors span (Section 3 of the paper)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.checks import choice
from polaug.completion.entries import read_entries, read_features
from polaug.errors import invalid

FloatArray = NDArray[np.float64]
Reading = Literal["zero_filled", "masked"]
READINGS: tuple[Reading, ...] = ("zero_filled", "masked")


def cost(
    X: ArrayLike,
    Y: ArrayLike,
    rows: ArrayLike,
    columns: ArrayLike,
    values: ArrayLike,
    U: ArrayLike,
    V: ArrayLike,
    previous_U: ArrayLike | None = None,
    previous_V: ArrayLike | None = None,
    *,
    counts: ArrayLike | None = None,
    reading: Reading = "zero_filled",
    lambda_1: float = 1.0,
    lambda_2: float = 1.0,
    ridge_u: float = 0.0,
    ridge_v: float = 0.0,
) -> float:
    """J of Eq. 2: ‖Q̃ − X U Vᵀ Yᵀ‖² + λ₁(r − tr(UUᵀU'U'ᵀ)) + λ₂(r − tr(VVᵀV'V'ᵀ)) + ridge_u ‖U‖² + ridge_v ‖V‖².

    `reading="zero_filled"` sums over all M × N entries with Q̃ = 0 off Ω, as printed; `"masked"` sums over Ω.
    The geodesic terms are left out without previous factors. The ridge terms are polaug's, and 0 in the paper.
    Never forms an M × N matrix.
    """
    choice("reading", reading, READINGS)
    x_all, y_all = read_features("X", X, None, finite=True), read_features("Y", Y, None, finite=True)
    u, v = np.asarray(U, dtype=np.float64), np.asarray(V, dtype=np.float64)
    for name, factor, size in (("U", u, x_all.shape[1]), ("V", v, y_all.shape[1])):
        if factor.ndim != 2 or factor.shape[0] != size:
            raise invalid(
                name, f"must have one row for each of the {size} features", factor, "Pass the model's factors()."
            )
    entries = read_entries(x_all, y_all, rows, columns, values, counts)
    predicted = np.einsum("kr,kr->k", entries.x @ u, entries.y @ v)
    fit = float(np.sum((entries.values - predicted) ** 2))
    if reading == "zero_filled":  # ‖X U Vᵀ Yᵀ‖² over everything, less the part that lies on Ω
        everything = np.sum((u.T @ (x_all.T @ x_all) @ u) * (v.T @ (y_all.T @ y_all) @ v))
        fit += float(everything - np.sum(predicted**2))
    total = fit + ridge_u * float(np.sum(u**2)) + ridge_v * float(np.sum(v**2))
    for factor, previous, weight in ((u, previous_U, lambda_1), (v, previous_V, lambda_2)):
        if previous is not None:
            total += weight * (
                factor.shape[1] - float(np.sum((np.asarray(previous, dtype=np.float64).T @ factor) ** 2))
            )
    return total


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
