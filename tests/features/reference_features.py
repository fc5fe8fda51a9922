"""Slow, obvious versions of the feature maps: one state, one feature at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np


def fourier(states: np.ndarray, order: int, coupling: int) -> dict[tuple[int, ...], np.ndarray]:
    """cos(π c·s) for every allowed c, keyed by c; states in [0, 1]."""
    d = states.shape[1]
    found = {}
    for c in itertools.product(range(order + 1), repeat=d):
        if sum(entry > 0 for entry in c) <= coupling:
            found[c] = np.array([math.cos(math.pi * sum(a * b for a, b in zip(c, s, strict=True))) for s in states])
    return found


def monomials(states: np.ndarray, degree: int, coupling: int) -> dict[tuple[int, ...], np.ndarray]:
    """Every allowed monomial, keyed by its exponents."""
    d = states.shape[1]
    found = {}
    for powers in itertools.product(range(degree + 1), repeat=d):
        if sum(powers) <= degree and sum(p > 0 for p in powers) <= coupling:
            found[powers] = np.array([math.prod(x**p for x, p in zip(s, powers, strict=True)) for s in states])
    return found


def nearest_point(value: float, points: list[float]) -> int:
    """Index of the point with the smallest distance."""
    return min(range(len(points)), key=lambda i: abs(points[i] - value))


def nearest_action(action: np.ndarray, listed: np.ndarray, low: np.ndarray, high: np.ndarray) -> int:
    """Index of the listed action nearest in units of the space's width."""
    width = np.where(high > low, high - low, 1.0)
    return int(np.argmin([np.sum(((action - other) / width) ** 2) for other in listed]))
