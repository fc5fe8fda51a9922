"""The multi-output engine: as the normal equations say, whatever the order, merged exactly, saved to the bit."""

import numpy as np
import pytest

from polaug.completion.multi_output import MultiOutput, add_rows
from polaug.errors import InvalidInputError
from polaug.snapshot import restore, snapshot


def data(n=500, p=30, k=4, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((n, p))
    return phi, phi @ rng.standard_normal((p, k)) + 0.1 * rng.standard_normal((n, k))


def exact(phi, targets, prior):
    return np.linalg.solve(phi.T @ phi + prior, phi.T @ targets)


@pytest.mark.parametrize("chunk", [1, 7, 100, 500])
def test_weights_solve_the_normal_equations_in_whatever_portions_rows_come(chunk):
    phi, targets = data()
    prior = np.diag(np.linspace(0.01, 1.0, 30))
    engine = MultiOutput(prior, 4)
    for k in range(0, 500, chunk):
        engine.add(phi[k : k + chunk], targets[k : k + chunk])
    np.testing.assert_allclose(engine.weights, exact(phi, targets, prior), atol=1e-9)
    expected = np.einsum("ni,ij,nj->n", phi, np.linalg.inv(phi.T @ phi + prior), phi)
    np.testing.assert_allclose(engine.variance(phi), expected, rtol=1e-8)
    assert engine.count == 500


@pytest.mark.parametrize("step", [1, 3, 20])
def test_rows_that_come_a_few_at_a_time_may_be_taken_in_at_once(step):
    phi, targets = data(n=250)
    one, other = MultiOutput(np.full(30, 0.1), 4), MultiOutput(np.full(30, 0.1), 4)
    for engine in (one, other):
        engine.add(phi[:10], targets[:10])  # so that inversions come in the middle
    for k in range(10, 250, step):
        one.add(phi[k : k + step], targets[k : k + step])
    other.add(phi[10:], targets[10:], step)
    assert all(np.array_equal(a, b) for a, b in zip(one.arrays, other.arrays, strict=True))
    assert one.count == other.count == 250


def test_ten_thousand_updates_lose_no_digits():
    phi, targets = data(n=10_000, p=20)
    phi[:, 0] *= 1e-3  # ill-conditioned
    engine = MultiOutput(np.full(20, 1e-3), 4)
    for row, target in zip(phi, targets, strict=True):
        engine.add(row[None], target[None])
    np.testing.assert_allclose(engine.weights, exact(phi, targets, 1e-3 * np.eye(20)), rtol=1e-6, atol=1e-8)


def test_the_kernel_is_the_same_compiled_or_not():
    phi, targets = data(n=5, p=6, k=2)
    results = []
    for kernel in (add_rows, add_rows.py_func):
        arrays = [np.eye(6), np.zeros((6, 2)), np.zeros((6, 6)), np.zeros((6, 2))]
        kernel(*arrays, phi, targets)
        results.append(arrays)
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(np.tril(one) if one.shape == (6, 6) else one,
                                   np.tril(other) if other.shape == (6, 6) else other, atol=1e-12)  # fmt: skip


def test_engines_that_have_seen_different_rows_merge_exactly():
    phi, targets = data()
    whole, parts = MultiOutput(np.full(30, 0.1), 4), [MultiOutput(np.full(30, 0.1), 4) for _ in range(3)]
    whole.add(phi, targets)
    for k, part in enumerate(parts):
        part.add(phi[k::3], targets[k::3])
    parts[0].merge(parts[1])
    parts[0].merge(parts[2])
    np.testing.assert_allclose(parts[0].weights, whole.weights, atol=1e-10)
    np.testing.assert_allclose(parts[0].variance(phi), whole.variance(phi), rtol=1e-8)
    assert parts[0].count == 500
    with pytest.raises(InvalidInputError, match="other"):
        parts[0].merge(MultiOutput(np.full(29, 0.1), 4))


def test_it_goes_on_from_its_state_to_the_bit():
    phi, targets = data()
    engine, twin = MultiOutput(np.full(30, 0.1), 4), MultiOutput(np.full(30, 0.1), 4)
    for k in range(90):
        engine.add(phi[k : k + 1], targets[k : k + 1])
    restore(twin, snapshot(engine))
    for k in range(90, 300):
        for each in (engine, twin):
            each.add(phi[k : k + 1], targets[k : k + 1])
    np.testing.assert_array_equal(engine.weights, twin.weights)
    np.testing.assert_array_equal(engine.variance(phi), twin.variance(phi))


def test_novelty_falls_where_something_was_seen_and_only_there():
    engine = MultiOutput(np.full(2, 1.0), 0)
    for _ in range(10):
        engine.add(np.array([[1.0, 0.0]]), np.zeros((1, 0)))
    seen, unseen = engine.variance(np.eye(2))
    assert seen < 0.1
    assert unseen == pytest.approx(1.0)
