"""The compiled kernels behind `recursive`: rank-one changes of an inverse Gram matrix; one triangle is kept."""

from __future__ import annotations

import numpy as np

from polaug.compiled import compiled
from polaug.completion.entries import FloatArray


@compiled
def times(lower: FloatArray, vector: FloatArray, out: FloatArray) -> None:
    """Out = S v for a symmetric S (p, p) of which only the lower triangle is read: half the memory traffic."""
    for i in range(vector.shape[0]):
        row = lower[i]
        at = vector[i]
        total = 0.0
        for j in range(i):
            total += row[j] * vector[j]
            out[j] += row[j] * at
        out[i] = total + row[i] * at


@compiled
def add_entry(
    P: FloatArray, w: FloatArray, b: FloatArray, h: FloatArray, phi: FloatArray, x: FloatArray, y: FloatArray,
    value: float, weight: float, ill_conditioned: float,
) -> bool:  # fmt: skip
    """Sherman–Morrison in place on the lower triangle of P (p, p) and on w (p,); writes φ = x ⊗ y into `phi`.

    b takes the entry in any case. False, with P and w left alone, where the update would be ill-conditioned.
    """
    n = y.shape[0]
    for i in range(x.shape[0]):
        for j in range(n):
            phi[i * n + j] = x[i] * y[j]
    p = phi.shape[0]
    times(P, phi, h)
    leverage, predicted = 0.0, 0.0
    for i in range(p):
        b[i] += weight * value * phi[i]
        leverage += h[i] * phi[i]
        predicted += w[i] * phi[i]
    below = 1.0 + weight * leverage
    if leverage < 0.0 or not below > ill_conditioned:
        return False
    gain = weight / below
    residual = value - predicted
    for i in range(p):
        step = gain * h[i]
        w[i] += step * residual
        row = P[i]
        for j in range(i + 1):
            row[j] -= step * h[j]
    return True


@compiled
def revise_entry(
    P: FloatArray, w: FloatArray, b: FloatArray, h: FloatArray, phi: FloatArray, x: FloatArray, y: FloatArray,
    weighted_change: float,
) -> None:  # fmt: skip
    """W ← w + P φ · weighted_change and b ← b + φ · weighted_change, in place."""
    n = y.shape[0]
    for i in range(x.shape[0]):
        for j in range(n):
            phi[i * n + j] = x[i] * y[j]
    times(P, phi, h)
    for i in range(phi.shape[0]):
        b[i] += weighted_change * phi[i]
        w[i] += weighted_change * h[i]


@compiled
def refine(
    P: FloatArray,
    w: FloatArray,
    b: FloatArray,
    gram: FloatArray,
    pending: FloatArray,
    weights: FloatArray,
    ridge: float,
) -> None:
    """W ← w + P (b − Λw) in place, where Λ = ridge I + gram + Σ weight φφᵀ over the `pending` φ (k, p)."""
    p = w.shape[0]
    product = np.empty(p)
    left = np.empty(p)
    times(gram, w, product)
    for i in range(p):
        left[i] = b[i] - ridge * w[i] - product[i]
    for k in range(pending.shape[0]):
        row = pending[k]
        total = 0.0
        for j in range(p):
            total += row[j] * w[j]
        total *= weights[k]
        for j in range(p):
            left[j] -= total * row[j]
    times(P, left, product)
    for i in range(p):
        w[i] += product[i]
