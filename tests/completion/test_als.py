"""Alternating least squares on Ω: recovery, descent, stationarity, rank."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.completion.problems import low_rank
from tests.reference import numerical_gradient

import polaug


@pytest.mark.parametrize("seed", range(10))
def test_exact_recovery_from_three_entries_per_degree_of_freedom(seed):
    """A rank-2 W of 10 × 8 has 32 degrees of freedom; 96 of the 12,000 entries recover Q."""
    p = low_rank(seed=seed, M=200, N=60, m=10, n=8, rank=2, entries=96)
    model = polaug.InductiveCompletion("als", rank=2).fit(*p.observed)
    assert np.linalg.norm(model.predict(p.X, p.Y) - p.Q) < 1e-6 * np.linalg.norm(p.Q)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_rank_is_chosen_from_the_data(rank):
    p = low_rank(seed=rank, M=100, N=20, m=6, n=5, rank=rank, entries=400, noise=0.01)
    assert polaug.InductiveCompletion("als").fit(*p.observed).rank == rank
    clean = low_rank(seed=rank, M=100, N=20, m=6, n=5, rank=rank, entries=400)
    assert polaug.InductiveCompletion("als").fit(*clean.observed).rank == rank


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.integers(1, 3), weight=st.sampled_from([0.0, 1e-3, 1.0]))
def test_cost_never_increases(seed, rank, weight):
    """J by its public definition, after 1, 2, 3, … alternations from the same start."""
    p = low_rank(seed=seed, entries=60, noise=0.3)
    q = low_rank(seed=seed + 1, entries=60, noise=0.3)
    costs = []
    for iterations in (1, 2, 3, 5, 8, 13, 21):
        options = {"ridge": 1e-3, "lambda_1": weight, "lambda_2": weight, "tolerance": 1e-15}
        model = polaug.InductiveCompletion("als", rank=rank, max_iterations=20, **options)
        model.fit(p.X, p.Y, q.rows, q.columns, q.values)  # previous factors from other data
        stepped = polaug.InductiveCompletion("als", rank=rank, max_iterations=iterations, **options)
        stepped.load_state_dict(model.state_dict())
        stepped.partial_fit(*p.observed)
        rows, columns = stepped._solver._omega._keys[: stepped.n_entries].T
        values = stepped._solver._omega.values
        previous = stepped.previous()
        costs.append(
            polaug.cost(
                p.X, p.Y, rows, columns, values, *stepped.factors(), *previous, reading="masked", **stepped.penalties()
            )
        )
    assert np.all(np.diff(costs) <= 1e-9 * np.abs(costs[0]))


@pytest.mark.parametrize("weight", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_vanishes_at_the_fixed_point(seed, weight):
    p = low_rank(seed=seed, entries=80, noise=0.2)
    model = polaug.InductiveCompletion(
        "als", rank=2, ridge=1e-2, lambda_1=weight, lambda_2=weight, tolerance=1e-14, max_iterations=3000
    ).fit(*p.observed)
    model.partial_fit(p.X, p.Y, p.rows[:1], p.columns[:1], p.values[:1] + 1.0)
    values = p.values.copy()
    values[0] += 1.0
    U, V = model.factors()
    previous, penalties = model.previous(), model.penalties()

    def cost(U, V):
        return polaug.cost(p.X, p.Y, p.rows, p.columns, values, U, V, *previous, reading="masked", **penalties)

    scale = np.abs(numerical_gradient(lambda u: cost(u, V), 2 * U)).max()
    assert np.abs(numerical_gradient(lambda u: cost(u, V), U)).max() < 1e-5 * scale
    assert np.abs(numerical_gradient(lambda v: cost(U, v), V)).max() < 1e-5 * scale


def test_geodesic_term_keeps_the_subspace():
    p, q = low_rank(seed=0, noise=0.1), low_rank(seed=9, noise=0.1)
    distance = {}
    for weight in (0.0, 1e4):
        model = polaug.InductiveCompletion("als", rank=2, ridge=0.1, lambda_1=weight, lambda_2=weight).fit(*p.observed)
        before = model.factors()[0]
        model.partial_fit(p.X, p.Y, q.rows, q.columns, q.values)
        distance[weight] = polaug.canonical_distance(model.factors()[0], before)
    assert distance[1e4] < 1e-2 < distance[0.0]


@pytest.mark.parametrize("grouped", [True, False])
def test_many_and_few_columns_give_the_least_squares_solution_of_each_half_step(grouped):
    p = low_rank(seed=1, M=50, N=4 if grouped else 90, m=5, n=3, rank=1, entries=150, noise=0.5)
    model = polaug.InductiveCompletion("als", rank=1, ridge=1e-12, tolerance=1e-15, max_iterations=5000).fit(
        *p.observed
    )
    U, V = model.factors()
    phi = p.X[p.rows] * (p.Y[p.columns] @ V)
    best = np.linalg.lstsq(phi, p.values, rcond=None)[0]
    np.testing.assert_allclose(U[:, 0], best, rtol=1e-5)


def test_std_is_small_where_observed_and_grows_away_from_it():
    p = low_rank(seed=1, noise=0.1, entries=200)
    model = polaug.InductiveCompletion("als", rank=2).fit(*p.observed)
    _, near = model.predict(p.X, p.Y, return_std=True)
    _, far = model.predict(10 * p.X, p.Y, return_std=True)
    assert np.all(far > 5 * near)


def test_removal_is_as_if_the_entry_had_never_been():
    p = low_rank(seed=1, noise=0.1, entries=80)
    model = polaug.InductiveCompletion("als", rank=2, tolerance=1e-15).fit(*p.observed)
    model.remove(p.X, p.Y, p.rows[40:], p.columns[40:])
    rest = polaug.InductiveCompletion("als", rank=2, tolerance=1e-15)
    rest.fit(p.X, p.Y, p.rows[:40], p.columns[:40], p.values[:40])
    assert model.n_entries == 40
    assert (int(p.rows[50]), int(p.columns[50])) not in model._solver
    np.testing.assert_allclose(model.predict(p.X, p.Y), rest.predict(p.X, p.Y), atol=1e-3 * np.abs(p.Q).max())
