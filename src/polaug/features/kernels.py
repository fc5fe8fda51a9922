"""Compiled features of points: monomials, cosines, Gaussian radial basis functions, farthest-point selection."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polaug.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_QUADRATIC = 8
"""Dimensions up to which products of two of them are used."""


def polynomial_size(dimensions: int) -> int:
    """How many monomials `polynomial` gives."""
    products = dimensions * (dimensions + 1) // 2 if dimensions <= MAX_QUADRATIC else 0
    return 1 + dimensions + products


@compiled
def polynomial(z: FloatArray) -> FloatArray:
    """(1, z, and the products z_i z_j up to MAX_QUADRATIC dimensions), (n, ·) for z (n, d)."""
    n, d = z.shape
    quadratic = d <= MAX_QUADRATIC
    out = np.empty((n, 1 + d + (d * (d + 1) // 2 if quadratic else 0)))
    for i in range(n):
        out[i, 0] = 1.0
        k = 1
        for a in range(d):
            out[i, k] = z[i, a]
            k += 1
        if quadratic:
            for a in range(d):
                for b in range(a, d):
                    out[i, k] = z[i, a] * z[i, b]
                    k += 1
    return out


@compiled
def cosines(x: FloatArray) -> None:
    """Cos x (n,), in place and to six digits: unlike the exact one it vectorises. Range reduction and a polynomial."""
    for i in range(x.shape[0]):
        y = x[i] - 6.283185307179586 * math.floor(x[i] * 0.15915494309189535 + 0.5)
        y *= y
        x[i] = 1 + y * (-1 / 2 + y * (1 / 24 + y * (-1 / 720 + y * (1 / 40320 + y * (-1 / 3628800 + y * (
            1 / 479001600 - y * (1 / 87178291200 - y / 20922789888000)))))))  # fmt: skip


@compiled
def exponentials(x: FloatArray) -> None:
    """Exp x (n,) for x ≤ 0, in place and to six digits: exp(x / 256) as a polynomial, squared eight times."""
    for i in range(x.shape[0]):
        y = max(x[i], -60.0) / 256
        y = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24 + y / 120))))
        for _ in range(8):
            y *= y
        x[i] = y


@compiled
def farthest_points(z: FloatArray, count: int, start: int) -> tuple[IntArray, FloatArray]:
    """Rows of z (n, d) in an order that covers it: each next one is farthest from those before.

    Also gives the covering radius after each.
    """
    n, d = z.shape
    nearest = np.full(n, np.inf)
    order, radius = np.empty(count, dtype=np.int64), np.empty(count)
    at = start
    for i in range(count):
        order[i] = at
        farthest, follower = -1.0, 0
        for r in range(n):
            square = 0.0
            for k in range(d):
                difference = z[r, k] - z[at, k]
                square += difference * difference
            nearest[r] = min(nearest[r], square)
            if nearest[r] > farthest:
                farthest, follower = nearest[r], r
        radius[i] = math.sqrt(farthest)
        at = follower
    return order, radius


def bumps(z: FloatArray, centres: FloatArray, length: float) -> FloatArray:
    """exp(−|z − c|² / 2 length²), (n, m)."""
    squares = (z * z).sum(axis=1)[:, None] + (centres * centres).sum(axis=1) - 2.0 * (z @ centres.T)
    kernel: FloatArray = np.exp(np.maximum(squares, 0.0) * (-0.5 / length**2))
    return kernel


def single_bumps(z: FloatArray, centres: FloatArray, length: float) -> NDArray[np.float32]:
    """`bumps` in single precision, twice as fast for many rows."""
    scale = np.float32(1.0 / length)
    a, b = z.astype(np.float32) * scale, centres.astype(np.float32) * scale
    kernel: NDArray[np.float32] = a @ b.T
    kernel -= np.float32(0.5) * (a * a).sum(axis=1)[:, None]
    kernel -= np.float32(0.5) * (b * b).sum(axis=1)
    np.minimum(kernel, np.float32(0.0), out=kernel)
    np.exp(kernel, out=kernel)
    return kernel
