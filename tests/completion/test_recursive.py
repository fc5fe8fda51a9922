"""The recursive solver against the batch solution, after any sequence of changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.completion.problems import low_rank
from tests.reference import batch_ridge

import polaug
from polaug.completion import rank_one


def agree(model, X, Y, entries, ridge, largest, weights=None):
    """Predictions equal those of the batch solution to 1e-8 of the largest value ever observed."""
    rows, columns = np.array([*entries]).reshape(-1, 2).astype(int).T
    values = np.array([*entries.values()])
    W = batch_ridge(X[rows], Y[columns], values, ridge, weights)
    np.testing.assert_allclose(model.predict(X, Y), X @ W @ Y.T, atol=1e-8 * largest, rtol=0)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 7),
    n=st.integers(1, 4),
    ridge=st.sampled_from([1e-6, 1e-2, 1.0]),
    scale=st.sampled_from([1e-8, 1.0, 1e8]),
    deficient=st.booleans(),
)
def test_agrees_with_batch_after_any_sequence_of_additions_revisions_and_removals(seed, m, n, ridge, scale, deficient):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((30, m)), rng.standard_normal((6, n))
    if deficient:
        X[:, -1] = X[:, 0]
    model = polaug.InductiveCompletion("recursive", ridge=ridge)
    entries = {}
    for _ in range(150):
        key = (int(rng.integers(30)), int(rng.integers(6)))
        if entries and rng.random() < 0.4:
            gone = list(entries)[rng.integers(len(entries))]
            del entries[gone]
            model.remove(X, Y, [gone[0]], [gone[1]])
        entries[key] = scale * rng.standard_normal()
        model.partial_fit(X, Y, [key[0]], [key[1]], [entries[key]])
    agree(model, X, Y, entries, ridge, 4 * scale)
    assert model.n_entries == len(entries)


def test_agrees_with_batch_after_ten_thousand_steps():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((500, 12)), np.eye(3)
    model = polaug.InductiveCompletion("recursive", ridge=1e-3)
    entries = {}
    for _ in range(10_000):
        key = (int(rng.integers(500)), int(rng.integers(3)))
        entries[key] = rng.standard_normal()
        model.partial_fit(X, Y, [key[0]], [key[1]], [entries[key]])
    agree(model, X, Y, entries, 1e-3, 4.0)


def test_removing_everything_leaves_nothing():
    p = low_rank(seed=0)
    model = polaug.InductiveCompletion("recursive").fit(*p.observed)
    model.remove(p.X, p.Y, p.rows, p.columns)
    assert model.n_entries == 0
    assert np.abs(model.predict(p.X, p.Y)).max() < 1e-8 * np.abs(p.Q).max()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), overlap=st.booleans())
def test_two_models_merge_exactly(seed, overlap):
    p = low_rank(seed=seed, noise=0.3, entries=120)
    first, second = slice(0, 70 if overlap else 60), slice(60, 120)
    parts = [
        polaug.InductiveCompletion("recursive", ridge=0.1).fit(p.X, p.Y, p.rows[s], p.columns[s], p.values[s] + k)
        for k, s in enumerate((first, second))
    ]
    parts[0].merge(parts[1])
    rows, columns = (
        np.concatenate([p.rows[first], p.rows[second]]),
        np.concatenate([p.columns[first], p.columns[second]]),
    )
    values = np.concatenate([p.values[first], p.values[second] + 1])
    W = batch_ridge(p.X[rows], p.Y[columns], values, 0.1)
    np.testing.assert_allclose(parts[0].predict(p.X, p.Y), p.X @ W @ p.Y.T, atol=1e-8 * np.abs(values).max())
    if overlap:  # a pair that both had is one entry with both weights, and can still be removed as a whole
        parts[0].remove(p.X, p.Y, p.rows[60:70], p.columns[60:70])
        keep = np.r_[0:60, 80:130]
        W = batch_ridge(p.X[rows[keep]], p.Y[columns[keep]], values[keep], 0.1)
        np.testing.assert_allclose(parts[0].predict(p.X, p.Y), p.X @ W @ p.Y.T, atol=1e-8 * np.abs(values).max())


def test_forgetting_weighs_blocks_as_documented():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((1000, 3)), np.eye(2)
    model = polaug.InductiveCompletion("recursive", ridge=0.1, forgetting=0.99)
    values = rng.standard_normal(300)
    for k in range(300):
        model.partial_fit(X, Y, [k], [k % 2], values[k : k + 1])
    block = model._solver.block
    weights = np.array([0.99 ** (block * (300 // block - k // block)) for k in range(300)])
    agree(model, X, Y, {(k, k % 2): values[k] for k in range(300)}, 0.1, 4.0, weights)
    model.partial_fit(X, Y, [0], [0], [9.0])  # a revision renews the weight
    values[0], weights[0] = 9.0, 1.0
    agree(model, X, Y, {(k, k % 2): values[k] for k in range(300)}, 0.1, 9.0, weights)
    model.remove(X, Y, [5], [1])
    left = [k for k in range(300) if k != 5]
    agree(model, X, Y, {(k, k % 2): values[k] for k in left}, 0.1, 9.0, weights[left])


def test_forgetting_follows_a_changed_world_and_stays_finite():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20_000, 3)), np.eye(2)
    errors = {}
    for forgetting in (1.0, 0.98):
        model = polaug.InductiveCompletion("recursive", ridge=1e-6, forgetting=forgetting)
        for k in range(3000):
            world = 1.0 if k < 1500 else -1.0
            model.partial_fit(X, Y, [k], [0], [world * X[k].sum()])
        errors[forgetting] = np.abs(model.predict(X[:50], Y)[:, 0] + X[:50].sum(axis=1)).max()
        assert np.isfinite(model.predict(X, Y, return_std=True)[1]).all()
    assert errors[0.98] < 1e-6 < errors[1.0]


def test_std_is_the_posterior_deviation_and_shrinks_with_evidence():
    p = low_rank(seed=0, noise=0.5, entries=200)
    model = polaug.InductiveCompletion("recursive", ridge=0.5, noise=2.0).fit(*p.observed)
    phi = np.einsum("ki,kj->kij", p.X[p.rows], p.Y[p.columns]).reshape(len(p.rows), -1)
    cov = 4.0 * np.linalg.inv(0.5 * np.eye(phi.shape[1]) + phi.T @ phi)
    at = np.kron(p.X[3], p.Y[2])
    _, std = model.predict(p.X, p.Y, return_std=True)
    assert std[3, 2] == pytest.approx(np.sqrt(at @ cov @ at))
    model.partial_fit(p.X, p.Y, [3], [2], [0.0])
    assert np.all(model.predict(p.X, p.Y, return_std=True)[1] <= std + 1e-12)


def test_noise_is_estimated_from_the_residuals():
    p = low_rank(seed=0, M=400, N=12, noise=0.7, entries=2000)
    assert polaug.InductiveCompletion("recursive").fit(*p.observed)._solver._noise() == pytest.approx(0.7, rel=0.1)


def test_rank_truncates_both_prediction_and_factors():
    p = low_rank(seed=0, rank=3, entries=300)
    model = polaug.InductiveCompletion("recursive", rank=1).fit(*p.observed)
    U, V = model.factors()
    assert U.shape == (6, 1)
    np.testing.assert_allclose(model.predict(p.X, p.Y), p.X @ U @ V.T @ p.Y.T, rtol=1e-9, atol=1e-9)
    full = polaug.InductiveCompletion("recursive").fit(*p.observed)
    singular = np.linalg.svd(full._solver.weights, compute_uv=False)
    assert np.linalg.norm(full._solver.weights - U @ V.T, 2) == pytest.approx(singular[1], rel=1e-6)


@pytest.mark.parametrize("kernel", ["compiled", "python"])
def test_kernel_is_sherman_morrison(kernel):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(3), rng.standard_normal(2)
    root = rng.standard_normal((6, 6))
    precision = root @ root.T + np.eye(6)
    b = rng.standard_normal(6)
    P = np.linalg.inv(precision)
    w, phi, h = P @ b, np.empty(6), np.empty(6)
    add = rank_one.add_entry if kernel == "compiled" else rank_one.add_entry.py_func
    assert add(P, w, b, h, phi, x, y, 1.5, 2.0, 1e-3)
    np.testing.assert_allclose(phi, np.kron(x, y))
    expected = precision + 2.0 * np.outer(phi, phi)
    np.testing.assert_allclose(np.tril(P), np.tril(np.linalg.inv(expected)), atol=1e-12)
    np.testing.assert_allclose(w, np.linalg.solve(expected, b), atol=1e-12)
    revise = rank_one.revise_entry if kernel == "compiled" else rank_one.revise_entry.py_func
    revise(P, w, b, h, phi, x, y, 0.7)
    np.testing.assert_allclose(w, np.linalg.solve(expected, b), atol=1e-12)


def test_huge_and_dependent_features_stay_finite():
    X = np.ones((50, 4)) * 1e8
    model = polaug.InductiveCompletion("recursive")
    for k in range(50):
        model.partial_fit(X, np.eye(2), [k], [k % 2], [1e8 * (-1) ** k])
    mean, std = model.predict(X, np.eye(2), return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert mean[0] == pytest.approx([1e8, -1e8], rel=1e-3)


def test_large_models_that_refine_seldom_agree_too():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 20)), rng.standard_normal((6, 5))
    X[:, -1] = X[:, 0]
    model = polaug.InductiveCompletion("recursive")
    entries = {}
    for _ in range(700):
        key = (int(rng.integers(60)), int(rng.integers(6)))
        entries[key] = rng.standard_normal()
        model.partial_fit(X, Y, [key[0]], [key[1]], [entries[key]])
        if rng.random() < 0.3:
            del entries[key]
            model.remove(X, Y, [key[0]], [key[1]])
    agree(model, X, Y, entries, 1e-4, 4.0)
