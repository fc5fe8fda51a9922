"""Multilinear interpolation on a grid over [−1, 1]^d (Davies, 1997).

Interpolation averages, so value iteration through it converges whatever the dynamics (Gordon, 1995).
"""

from __future__ import annotations

import numpy as np

from polaug.compiled import compiled
from polaug.explorers.base import FloatArray, IntArray


def grid_shape(relevance: FloatArray, nodes: int, least: int) -> IntArray | None:
    """Nodes (d,) along each dimension, 1 along those without relevance; None if less than `least` would be left."""
    dimensions = int(np.count_nonzero(relevance))
    along = round(nodes ** (1.0 / max(dimensions, 1)) - 0.499)
    return np.where(relevance > 0.0, min(along, 100), 1).astype(np.int64) if dimensions and along >= least else None


def grid_nodes(shape: IntArray) -> FloatArray:
    """The nodes (n, d)."""
    axes = [np.linspace(-1.0, 1.0, along) if along > 1 else np.zeros(1) for along in shape]
    return np.ascontiguousarray(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape)))


@compiled
def write_corners(shape: IntArray, z: FloatArray, nodes: IntArray, weights: FloatArray) -> None:
    """The nodes (c,) around z (d,) and their weights, in place; a z beyond the grid is taken to its border."""
    nodes[:], weights[:] = 0, 1.0
    size, at = 1, 0
    for k in range(z.shape[0] - 1, -1, -1):
        if shape[k] == 1:
            continue
        along = min(max((z[k] + 1.0) * 0.5 * (shape[k] - 1), 0.0), shape[k] - 1.0)
        cell = min(int(along), shape[k] - 2)
        for c in range(nodes.shape[0]):
            upper = (c >> at) & 1
            nodes[c] += (cell + upper) * size
            weights[c] *= along - cell if upper else 1.0 - (along - cell)
        at += 1
        size *= shape[k]


@compiled
def corner_count(shape: IntArray) -> int:
    """How many nodes surround a point."""
    count = 1
    for k in range(shape.shape[0]):
        count *= 2 if shape[k] > 1 else 1
    return count


@compiled
def corners(shape: IntArray, states: FloatArray) -> tuple[IntArray, FloatArray]:
    """`write_corners` of states (n, d): (n, c) both."""
    count = corner_count(shape)
    nodes, weights = np.empty((states.shape[0], count), np.int64), np.empty((states.shape[0], count))
    for i in range(states.shape[0]):
        write_corners(shape, states[i], nodes[i], weights[i])
    return nodes, weights


@compiled
def interpolated(shape: IntArray, values: FloatArray, z: FloatArray) -> float:
    """The value at z (d,) from those at the nodes (n,)."""
    count = corner_count(shape)
    nodes, weights = np.empty(count, np.int64), np.empty(count)
    write_corners(shape, z, nodes, weights)
    total = 0.0
    for c in range(count):
        total += weights[c] * values[nodes[c]]
    return total


@compiled
def back_up_nodes(
    values: FloatArray, nodes: IntArray, weights: FloatArray, known: FloatArray, onward: FloatArray, low: float,
    high: float, backwards: bool,
) -> float:  # fmt: skip
    """Bellman backup of the `values` (n,) of all nodes, one after another and in place (Gauss-Seidel).

    Action a of node i pays `known` and leads on, by the factor `onward` (n, A), to the corners (n A, c) of row i A + a.
    Gives the most that any value has changed.
    """
    n, n_actions = known.shape
    largest = 0.0
    for j in range(n):
        i = n - 1 - j if backwards else j
        best = -np.inf
        for a in range(n_actions):
            row, following = i * n_actions + a, 0.0
            for c in range(nodes.shape[1]):
                following += weights[row, c] * values[nodes[row, c]]
            best = max(best, known[i, a] + onward[i, a] * following)
        best = min(max(best, low), high)
        largest = max(largest, abs(best - values[i]))
        values[i] = best
    return largest


@compiled
def nearest(states: FloatArray, seen: FloatArray) -> IntArray:
    """For each of `states` (n, d) the row of the nearest of `seen` (N, d)."""
    rows = np.zeros(states.shape[0], np.int64)
    for i in range(states.shape[0]):
        least = np.inf
        for j in range(seen.shape[0]):
            square = 0.0
            for k in range(states.shape[1]):
                square += (states[i, k] - seen[j, k]) ** 2
            if square < least:
                least, rows[i] = square, j
    return rows
