"""Slow, obvious versions of every kernel: the definitions, transcribed. Fast code is tested against these."""

from __future__ import annotations

import numpy as np


def dense_multiplicative(X, Y, Q_tilde, U, V, previous_U, previous_V, lambda_1, lambda_2, tolerance, max_iterations):
    """Eq. 3 and 4 letter by letter on the dense, zero-filled M × N matrix."""
    for iteration in range(max_iterations):  # noqa: B007
        before_U, before_V = U, V
        U = U * ((X.T @ Q_tilde @ Y @ V) / (X.T @ X @ U @ V.T @ Y.T @ Y @ V - lambda_1 * previous_U @ previous_U.T @ U))
        V = V * (
            (Y.T @ Q_tilde.T @ X @ U) / (Y.T @ Y @ V @ U.T @ X.T @ X @ U - lambda_2 * previous_V @ previous_V.T @ V)
        )
        change_u = np.linalg.norm(U - before_U) / np.linalg.norm(U)
        change_v = np.linalg.norm(V - before_V) / np.linalg.norm(V)
        if max(change_u, change_v) <= tolerance:
            break
    return U, V, iteration + 1


def dense_masked_multiplicative(X, Y, Q_tilde, mask, U, V, previous_U, previous_V, lambda_1, lambda_2, iterations):
    """The same with the model masked to Ω, a fixed number of alternations."""
    for _ in range(iterations):
        fitted = mask * (X @ U @ V.T @ Y.T)
        U = U * ((X.T @ Q_tilde @ Y @ V) / (X.T @ fitted @ Y @ V - lambda_1 * previous_U @ previous_U.T @ U))
        fitted = mask * (X @ U @ V.T @ Y.T)
        V = V * ((Y.T @ Q_tilde.T @ X @ U) / (Y.T @ fitted.T @ X @ U - lambda_2 * previous_V @ previous_V.T @ V))
    return U, V


def dense_cost(X, Y, Q_tilde, mask, U, V, previous_U, previous_V, lambda_1, lambda_2, ridge_u, ridge_v):
    """Eq. 2 with traces as printed; `mask` of ones for the zero-filled reading."""
    difference = mask * (Q_tilde - X @ U @ V.T @ Y.T)
    total = np.trace(difference.T @ difference) + ridge_u * np.sum(U**2) + ridge_v * np.sum(V**2)
    if previous_U is not None:
        total += lambda_1 * (U.shape[1] - np.trace(U @ U.T @ previous_U @ previous_U.T))
    if previous_V is not None:
        total += lambda_2 * (V.shape[1] - np.trace(V @ V.T @ previous_V @ previous_V.T))
    return total


def batch_ridge(x, y, values, ridge, weights=None):
    """W (m, n) of the weighted ridge problem, as one least-squares problem solved by QR."""
    m, n = x.shape[1], y.shape[1]
    weights = np.ones(len(values)) if weights is None else weights
    phi = np.array([np.kron(a, b) for a, b in zip(x, y, strict=True)]).reshape(len(values), m * n)
    root = np.sqrt(weights)[:, None]
    stacked = np.vstack([root * phi, np.sqrt(ridge) * np.eye(m * n)])
    right = np.concatenate([root[:, 0] * values, np.zeros(m * n)])
    return np.linalg.lstsq(stacked, right, rcond=None)[0].reshape(m, n)


def numerical_gradient(function, point, step=1e-6):
    """Central differences of a scalar function, entry by entry."""
    gradient = np.empty_like(point)
    for index in np.ndindex(point.shape):
        ahead, behind = point.copy(), point.copy()
        ahead[index] += step
        behind[index] -= step
        gradient[index] = (function(ahead) - function(behind)) / (2 * step)
    return gradient
