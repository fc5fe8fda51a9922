"""The cost J of Eq. 2."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polaug.completion.entries import read_entries, read_features
from polaug.errors import invalid, unknown

FloatArray = NDArray[np.float64]
Reading = Literal["zero_filled", "masked"]
READINGS: tuple[Reading, ...] = ("zero_filled", "masked")


def check_reading(reading: str) -> None:
    """Raise an error for an unknown reading of Eq. 2."""
    if reading not in READINGS:
        raise unknown("reading", reading, READINGS)


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
    check_reading(reading)
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
