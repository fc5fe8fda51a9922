"""Fourier and random Fourier bases against slow references and the kernel they stand for."""

from __future__ import annotations

import time

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.features import reference_features as reference

from polaug.errors import InvalidInputError
from polaug.features import state_features


@settings(max_examples=25, deadline=None)
@given(d=st.integers(1, 4), order=st.integers(1, 3), seed=st.integers(0, 99))
def test_fourier_equals_the_definition(d, order, seed):
    features = state_features("fourier", spaces.Box(-2, 2, (d,), np.float64), order=order)
    states = np.random.default_rng(seed).random((3, d))
    expected = reference.fourier(states, order, 2)
    assert {tuple(c) for c in features.coefficients.tolist()} == set(expected)
    columns = np.stack([expected[tuple(c)] for c in features.coefficients.tolist()], axis=1)
    np.testing.assert_allclose(features(states * 4 - 2), columns, atol=1e-12)


def test_permuting_dimensions_permutes_the_fourier_features():
    order = [2, 0, 1]
    high = np.array([1.0, 2.0, 3.0])
    one = state_features("fourier", spaces.Box(-high, high, dtype=np.float64))
    other = state_features("fourier", spaces.Box(-high[order], high[order], dtype=np.float64))
    x = np.random.default_rng(0).uniform(-high, high, (5, 3))
    where = [one.coefficients[:, order].tolist().index(c) for c in other.coefficients.tolist()]
    np.testing.assert_allclose(other(x[:, order]), one(x)[:, where], atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 4, 6, 8, 20, 100, 512])
def test_automatic_sizes_stay_moderate(d):
    space = spaces.Box(-1, 1, (d,))
    assert state_features("fourier", space).size <= max(150, 1 + d)
    assert state_features("random_fourier", space).size == 101 + d


def test_what_the_caller_asks_for_is_not_lowered():
    space = spaces.Box(-1, 1, (6,))
    assert state_features("fourier", space, order=4).size == 1 + 6 * 4 + 15 * 16
    assert state_features("fourier", spaces.Box(-1, 1, (20,)), order=4).size == 1 + 20 * 4 + 190 * 16


def test_too_large_a_basis_is_refused_before_it_is_built():
    space = spaces.Box(-1, 1, (100,))
    start = time.perf_counter()
    with pytest.raises(InvalidInputError, match=r"Fourier basis of order 9.*Lower the order"):
        state_features("fourier", space, order=9)
    with pytest.raises(InvalidInputError, match="order"):
        state_features("fourier", space, order=0)
    with pytest.raises(InvalidInputError, match="Lower frequencies"):
        state_features("random_fourier", space, frequencies=100_000)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("d", [1, 3, 10])
def test_random_fourier_inner_products_approach_the_gaussian_kernel(d):
    space = spaces.Box(-1, 1, (d,), np.float64)
    features = state_features("random_fourier", space, frequencies=2000, length_scale=0.7, seed=1)
    x = np.random.default_rng(0).uniform(-1, 1, (20, d))
    distance = np.square(x[:, None] - x[None]).sum(axis=2)
    waves = features(x)[:, :4000]
    np.testing.assert_allclose(waves @ waves.T, np.exp(-distance / (2 * 0.49 * d)), atol=0.1)


def test_random_fourier_waves_have_norm_one_and_are_followed_by_a_constant_and_the_state():
    x = np.random.default_rng(0).uniform(-1, 1, (7, 3))
    features = state_features("random_fourier", spaces.Box(-1, 1, (3,), np.float64), frequencies=5)
    assert features.size == 10 + 1 + 3
    np.testing.assert_allclose(np.linalg.norm(features(x)[:, :10], axis=1), 1)
    np.testing.assert_allclose(features(x)[:, 10], 0.5)
    np.testing.assert_allclose(features(x)[:, 11:], 0.2 * x)
    with pytest.raises(InvalidInputError, match="length_scale"):
        state_features("random_fourier", spaces.Box(-1, 1, (3,)), length_scale=-1)


@pytest.mark.parametrize(("name", "options"), [("fourier", {"order": 3}), ("random_fourier", {"frequencies": 20})])
@pytest.mark.parametrize("scale", [(1, 0), (1000, 1e6), (1e-6, 0)])
def test_a_ridge_regression_on_the_features_is_well_conditioned(name, options, scale):
    features = state_features(name, spaces.Box(-np.inf, np.inf, (3,), np.float64), **options)
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 3)) * [1, 50, 0.02] * scale[0] + scale[1]
    features.observe(x)
    gram = features(x).T @ features(x) / len(x)
    assert np.linalg.cond(gram + 1e-3 * np.eye(features.size)) < 1e5
    assert np.abs(gram).max() <= 1.001
