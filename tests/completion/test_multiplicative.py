"""Eq. 3 and 4 as printed: against the dense transcription, and where the printed update is undefined."""

import numpy as np
import pytest
from tests.completion.problems import low_rank
from tests.reference import dense_masked_multiplicative, dense_multiplicative

import polaug
from polaug.completion import multiplicative
from polaug.streams import stream


def start(rng, m, n, r):
    return rng.random((m, r)) + 1e-3, rng.random((n, r)) + 1e-3


@pytest.mark.parametrize("kernel", ["compiled", "python"])
@pytest.mark.parametrize("lambdas", [(0.0, 0.0), (0.05, 0.1)])
def test_zero_filled_kernel_equals_the_dense_transcription(kernel, lambdas):
    p = low_rank(seed=3, non_negative=True)
    Q_tilde = p.mask * p.Q
    rng = np.random.default_rng(0)
    U, V = start(rng, 6, 4, 2)
    previous_U, previous_V = start(rng, 6, 4, 2)
    expected = dense_multiplicative(p.X, p.Y, Q_tilde, U, V, previous_U, previous_V, *lambdas, 1e-9, 60)
    alternate = multiplicative.alternate_factors
    run = alternate if kernel == "compiled" else alternate.py_func
    arguments = False, p.X.T @ p.X, p.Y.T @ p.Y, p.X.T @ Q_tilde @ p.Y
    iterations, _ = run(*arguments, U, V, previous_U, previous_V, *lambdas, 1e-9, 60)
    np.testing.assert_allclose(U, expected[0], rtol=1e-8)
    np.testing.assert_allclose(V, expected[1], rtol=1e-8)
    assert iterations == expected[2]


@pytest.mark.parametrize("kernel", ["compiled", "python"])
def test_masked_kernel_equals_the_dense_transcription(kernel):
    p = low_rank(seed=4, non_negative=True)
    rng = np.random.default_rng(1)
    U, V = start(rng, 6, 4, 2)
    previous_U, previous_V = start(rng, 6, 4, 2)
    Q_tilde = p.mask * p.Q
    expected = dense_masked_multiplicative(p.X, p.Y, Q_tilde, p.mask, U, V, previous_U, previous_V, 0.05, 0.05, 30)
    alternate = multiplicative.alternate_factors
    run = alternate if kernel == "compiled" else alternate.py_func
    run(True, p.X[p.rows], p.Y[p.columns], p.X.T @ Q_tilde @ p.Y, U, V, previous_U, previous_V, 0.05, 0.05, 0.0, 30)
    np.testing.assert_allclose(U, expected[0], rtol=1e-8)
    np.testing.assert_allclose(V, expected[1], rtol=1e-8)


@pytest.mark.parametrize("reading", ["zero_filled", "masked"])
@pytest.mark.parametrize("seed", range(5))
def test_every_alternation_decreases_the_fit_on_non_negative_data_without_lambda(reading, seed):
    p = low_rank(seed=seed, non_negative=True, noise=0.0, entries=150)
    start = stream(0, "completion", "multiplicative").random((10, 2)) + 1e-3  # the solver's own dense start: U above V
    costs = [polaug.cost(*p.observed, start[:6], start[6:], reading=reading)]
    for iterations in range(1, 40):
        model = polaug.InductiveCompletion(
            "multiplicative",
            rank=2,
            lambda_1=0,
            lambda_2=0,
            reading=reading,
            max_iterations=iterations,
            tolerance=1e-12,
        ).fit(*p.observed)
        costs.append(polaug.cost(*p.observed, *model.factors(), reading=reading))
    assert np.all(np.diff(costs) <= 1e-9 * costs[0])
    assert costs[-1] < 0.9 * costs[0]


def test_masked_reading_ignores_what_was_not_observed_and_zero_filled_does_not():
    p = low_rank(seed=1, non_negative=True, entries=60, rank=1)
    errors = {}
    for reading in ("masked", "zero_filled"):
        model = polaug.InductiveCompletion(
            "multiplicative", rank=1, lambda_1=0, lambda_2=0, reading=reading, max_iterations=5000, tolerance=1e-10
        ).fit(*p.observed)
        errors[reading] = np.linalg.norm(model.predict(p.X, p.Y) - p.Q) / np.linalg.norm(p.Q)
    assert errors["masked"] < 0.05
    assert errors["zero_filled"] > 0.5


def test_one_entry_that_changes_gives_the_same_as_a_fresh_fit_on_all_entries():
    p = low_rank(seed=2, non_negative=True)
    stepwise = polaug.InductiveCompletion("multiplicative", rank=2)
    rng = np.random.default_rng(0)
    for _ in range(300):
        k = rng.integers(len(p.rows))
        stepwise.partial_fit(p.X, p.Y, [p.rows[k]], [p.columns[k]], [rng.random()])
    stepwise.partial_fit(*p.observed)
    batch = polaug.InductiveCompletion("multiplicative", rank=2, lambda_1=0, lambda_2=0, tolerance=1e-12).fit(
        *p.observed
    )
    np.testing.assert_allclose(stepwise._solver._C, batch._solver._C, atol=1e-10)
    assert stepwise.n_entries == batch.n_entries == len(p.rows)


def test_partial_fit_notices_other_features():
    p = low_rank(seed=2, non_negative=True)
    model = polaug.InductiveCompletion("multiplicative", rank=1).partial_fit(*p.observed)
    before = model._solver._A.copy()
    model.partial_fit(2 * p.X, p.Y, [0], [0], [1.0])
    np.testing.assert_allclose(model._solver._A, 4 * before)


def test_the_previous_factors_pull_as_lambda_says():
    p = low_rank(seed=6, non_negative=True)
    drift = {}
    for weight in (0.0, 0.3):
        model = polaug.InductiveCompletion("multiplicative", rank=1, lambda_1=weight, lambda_2=weight, init="previous")
        model.fit(*p.observed)
        before = model.predict(p.X, p.Y)
        model.partial_fit(p.X, p.Y, [0], [0], [0.0])
        drift[weight] = np.abs(model.predict(p.X, p.Y) - before).max()
    assert drift[0.0] > 0
    assert drift[0.3] != drift[0.0]


def test_zero_denominator_leaves_the_entry_as_it_is():
    U, V = np.array([[2.0], [3.0]]), np.array([[1.0]])
    none = np.zeros((2, 1))
    A = np.diag([1.0, 0.0])  # the second feature never occurs: 0 / 0 in Eq. 3
    iterations, status = multiplicative.alternate_factors(
        False, A, np.eye(1), np.array([[4.0], [0.0]]), U, V, none, np.zeros((1, 1)), 0.0, 0.0, 1e-9, 10
    )
    assert U[1, 0] == 3.0
    assert U[0, 0] * V[0, 0] == pytest.approx(4.0)
    assert multiplicative.STATUS[status] == "converged"
    assert iterations < 10


def test_cancelling_denominator_counts_as_zero():
    # A U VᵀBV = 2 and λ U'U'ᵀU = 2: the printed denominator is exactly 0
    U, V = np.array([[2.0]]), np.array([[1.0]])
    multiplicative.alternate_factors(
        False, np.eye(1), np.eye(1), np.array([[5.0]]), U, V, np.array([[1.0]]), np.zeros((1, 1)), 1.0, 0.0, 1e-9, 1
    )
    assert U[0, 0] == 2.0


def test_negative_ratio_changes_the_sign_as_printed():
    U, V = np.array([[1.0]]), np.array([[1.0]])
    none = np.zeros((1, 1))
    one = np.eye(1)
    multiplicative.alternate_factors(False, one, one, np.array([[-3.0]]), U, V, none, none, 0.0, 0.0, 1e-9, 50)
    assert U[0, 0] * V[0, 0] == pytest.approx(-3.0)


def test_divergence_keeps_the_last_factors_in_range_and_says_so():
    p = low_rank(seed=0, M=5, N=3, m=2, n=1, rank=1, entries=4)
    model = polaug.InductiveCompletion("multiplicative", rank=1, lambda_1=1.0, lambda_2=1.0, init="previous")
    X, Y = 1e-3 * np.ones((5, 2)), 1e-3 * np.ones((3, 1))
    for k in range(20):  # tiny features, full λ: the printed denominators are dominated by −λ U'U'ᵀU
        model.partial_fit(X, Y, [k % 5], [k % 3], [-1e8 * (k + 1)])
    assert np.isfinite(model.predict(X, Y)).all()
    assert model.status in ("diverged", "max_iterations", "converged")
    U, V = np.full((1, 1), 1e100), np.full((1, 1), 1.0)
    none, one = np.zeros((1, 1)), np.full((1, 1), 1e-100)
    _, status = multiplicative.alternate_factors(
        False, one, one, np.full((1, 1), 1e100), U, V, none, none, 0.0, 0.0, 1e-9, 9
    )
    assert multiplicative.STATUS[status] == "diverged"
    assert np.isfinite(U).all()
    assert np.isfinite(V).all()
    assert np.isfinite(model.predict(p.X, p.Y)).all()


def test_counts_divide_the_values():
    p = low_rank(seed=2, non_negative=True)
    counts = np.random.default_rng(0).integers(1, 9, len(p.rows))
    a = polaug.InductiveCompletion("multiplicative", rank=2).fit(p.X, p.Y, p.rows, p.columns, p.values * counts, counts)
    b = polaug.InductiveCompletion("multiplicative", rank=2).fit(*p.observed)
    np.testing.assert_allclose(a.predict(p.X, p.Y), b.predict(p.X, p.Y), rtol=1e-9)


def test_the_same_seed_repeats_and_another_differs():
    p = low_rank(seed=5)
    fits = [
        polaug.InductiveCompletion("multiplicative", rank=2, seed=s, max_iterations=3).fit(*p.observed)
        for s in (7, 7, 8)
    ]
    assert np.array_equal(fits[0].factors()[0], fits[1].factors()[0])
    assert not np.array_equal(fits[0].factors()[0], fits[2].factors()[0])
