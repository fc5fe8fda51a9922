"""What holds for every solver: order, duplicates, emptiness, scales, bad input, saved state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.completion.problems import low_rank

import polaug
from polaug.errors import InvalidInputError, NotFittedError, StateError, UnknownNameError

SOLVERS = polaug.solvers()


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_order_of_observations_does_not_matter(solver):
    p = low_rank(seed=3, noise=0.2)  # partly negative: Eq. 3 and 4 then amplify every bit, so equality must be exact
    order = np.random.default_rng(0).permutation(len(p.rows))
    a = polaug.InductiveCompletion(solver, rank=2).fit(*p.observed)
    b = polaug.InductiveCompletion(solver, rank=2).fit(p.X, p.Y, p.rows[order], p.columns[order], p.values[order])
    np.testing.assert_array_equal(a.predict(p.X, p.Y), b.predict(p.X, p.Y))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_pair_given_twice_counts_once_with_its_mean(solver):
    p = low_rank(seed=3, non_negative=True)
    once = polaug.InductiveCompletion(solver, rank=2).fit(*p.observed)
    rows, columns = np.r_[p.rows, p.rows[:20]], np.r_[p.columns, p.columns[:20]]
    values = np.r_[p.values, p.values[:20] - 1.0]
    values[:20] += 1.0
    twice = polaug.InductiveCompletion(solver, rank=2).fit(p.X, p.Y, rows, columns, values)
    assert twice.n_entries == once.n_entries
    np.testing.assert_allclose(twice.predict(p.X, p.Y), once.predict(p.X, p.Y), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_observed_predicts_zero(solver):
    p = low_rank()
    model = polaug.InductiveCompletion(solver).fit(p.X, p.Y, [], [], [])
    assert model.n_entries == 0
    assert np.array_equal(model.predict(p.X, p.Y), np.zeros(p.Q.shape))
    model.partial_fit(*p.observed)
    assert model.n_entries == len(p.rows)
    assert np.abs(model.predict(p.X, p.Y)).max() > 0


@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    M=st.integers(1, 25),
    N=st.integers(1, 8),
    m=st.integers(1, 5),
    n=st.integers(1, 5),
    data=st.data(),
    feature_scale=st.sampled_from([1e-8, 1e-3, 1.0, 1e3, 1e8]),
    value_scale=st.sampled_from([1e-8, 1.0, 1e8]),
    deficient=st.booleans(),
)
def test_every_shape_rank_and_scale_gives_a_finite_completion(
    solver, seed, M, N, m, n, data, feature_scale, value_scale, deficient
):
    rank = data.draw(st.integers(1, min(m, n)))
    entries = data.draw(st.integers(0, M * N))
    p = low_rank(seed=seed, M=M, N=N, m=m, n=n, rank=rank, entries=entries)
    X = feature_scale * (p.X if not deficient else np.repeat(p.X[:, :1], m, axis=1))
    model = polaug.InductiveCompletion(solver, rank=rank)
    model.fit(X, p.Y, p.rows, p.columns, value_scale * p.values)
    Q_hat = model.predict(X, p.Y)
    assert Q_hat.shape == (M, N)
    assert np.isfinite(Q_hat).all()
    U, V = model.factors()
    assert U.shape == (m, rank)
    assert V.shape == (n, rank)
    np.testing.assert_allclose(X @ U @ V.T @ p.Y.T, Q_hat, rtol=1e-6, atol=1e-9 * max(np.abs(Q_hat).max(), 1e-300))


@pytest.mark.parametrize("feature_scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("value_scale", [1e-8, 1.0, 1e8])
def test_als_recovers_at_every_scale(feature_scale, value_scale):
    p = low_rank(seed=1, entries=150)
    X = feature_scale * p.X
    model = polaug.InductiveCompletion("als", rank=2).fit(X, p.Y, p.rows, p.columns, value_scale * p.values)
    np.testing.assert_allclose(model.predict(X, p.Y), value_scale * p.Q, atol=1e-6 * value_scale * np.abs(p.Q).max())


@pytest.mark.parametrize("solver", SOLVERS)
def test_greedy_is_the_argmax(solver):
    p = low_rank(seed=3)
    model = polaug.InductiveCompletion(solver, rank=2).fit(*p.observed)
    assert np.array_equal(model.greedy(p.X, p.Y), model.predict(p.X, p.Y).argmax(axis=1))


BAD = {
    "NaN in X": lambda p: (np.where(p.X[3, 1] == p.X, np.nan, p.X), p.Y, p.rows, p.columns, p.values, "X"),
    "infinite Y": lambda p: (p.X, np.full_like(p.Y, np.inf), p.rows, p.columns, p.values, "Y"),
    "NaN value": lambda p: (p.X, p.Y, p.rows, p.columns, np.r_[np.nan, p.values[1:]], "values"),
    "flat X": lambda p: (p.X[:, 0], p.Y, p.rows, p.columns, p.values, "X"),
    "text": lambda p: ([["a"]], p.Y, p.rows, p.columns, p.values, "X"),
    "row outside": lambda p: (p.X, p.Y, p.rows + 40, p.columns, p.values, "rows"),
    "negative column": lambda p: (p.X, p.Y, p.rows, p.columns - 12, p.values, "columns"),
    "fractional rows": lambda p: (p.X, p.Y, p.rows + 0.5, p.columns, p.values, "rows"),
    "fewer columns": lambda p: (p.X, p.Y, p.rows, p.columns[:-1], p.values, "columns"),
    "fewer values": lambda p: (p.X, p.Y, p.rows, p.columns, p.values[:-1], "values"),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_input_names_the_parameter_and_leaves_the_model_as_it_was(solver, case, method):
    p = low_rank(seed=3)
    p.rows[0], p.columns[0] = 3, 0
    model = polaug.InductiveCompletion(solver, rank=2).fit(*p.observed)
    before = {name: array.copy() for name, array in model.state_dict().items()}
    *arguments, name = BAD[case](p)
    with pytest.raises(InvalidInputError, match=f"^{name}"):
        getattr(model, method)(*arguments)
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_counts_must_be_positive():
    p = low_rank()
    with pytest.raises(InvalidInputError, match="counts: must be positive"):
        polaug.InductiveCompletion("als").fit(*p.observed, np.zeros(len(p.rows)))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("rank", [0, -1, 5, 1.5, True])
def test_impossible_ranks_are_refused(solver, rank):
    p = low_rank(n=4)
    with pytest.raises(InvalidInputError, match="rank"):
        polaug.InductiveCompletion(solver, rank=rank).fit(*p.observed)


def test_unknown_names_get_the_nearest_valid_one():
    with pytest.raises(UnknownNameError, match="Did you mean 'recursive'"):
        polaug.InductiveCompletion("recursiv")
    with pytest.raises(UnknownNameError, match="Did you mean 'forgetting'"):
        polaug.InductiveCompletion("recursive", forgeting=0.9)
    with pytest.raises(UnknownNameError, match="masked"):
        polaug.InductiveCompletion("multiplicative", reading="maskd")


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("als", {"ridge": 0.0}),
        ("als", {"ridge": "much"}),
        ("als", {"lambda_1": -1.0}),
        ("als", {"max_iterations": 0}),
        ("multiplicative", {"tolerance": float("nan")}),
        ("multiplicative", {"lambda_2": float("inf")}),
        ("recursive", {"forgetting": 0.0}),
        ("recursive", {"forgetting": 1.1}),
        ("recursive", {"noise": -1.0}),
    ],
)
def test_impossible_settings_are_refused_by_name(solver, options):
    with pytest.raises(InvalidInputError, match=f"^{next(iter(options))}"):
        polaug.InductiveCompletion(solver, **options)


def test_asking_too_early_or_for_what_a_solver_lacks():
    p = low_rank()
    model = polaug.InductiveCompletion("multiplicative")
    for ask in (model.factors, lambda: model.predict(p.X, p.Y), model.state_dict):
        with pytest.raises(NotFittedError, match="not fitted"):
            ask()
    model.fit(*p.observed)
    with pytest.raises(InvalidInputError, match="return_std"):
        model.predict(p.X, p.Y, return_std=True)
    with pytest.raises(InvalidInputError, match="remove"):
        model.remove(p.X, p.Y, [0], [0])
    with pytest.raises(InvalidInputError, match="merge"):
        model.merge(model)
    with pytest.raises(InvalidInputError, match="features the model was fitted with"):
        model.predict(p.X[:, :2], p.Y)


@pytest.mark.parametrize("solver", ["als", "recursive"])
def test_removing_what_is_not_there_changes_nothing(solver):
    p = low_rank(seed=3)
    model = polaug.InductiveCompletion(solver, rank=2).fit(*p.observed)
    seen = set(zip(p.rows.tolist(), p.columns.tolist(), strict=True))
    unseen = next((i, j) for i in range(40) for j in range(12) if (i, j) not in seen)
    with pytest.raises(InvalidInputError, match="observed entries"):
        model.remove(p.X, p.Y, [p.rows[0], unseen[0]], [p.columns[0], unseen[1]])
    assert model.n_entries == len(p.rows)


@pytest.mark.parametrize("solver", SOLVERS)
def test_saved_state_continues_to_the_bit(solver):
    p = low_rank(seed=3, noise=0.1)
    half = len(p.rows) // 2
    whole = polaug.InductiveCompletion(solver, rank=2)
    whole.partial_fit(p.X, p.Y, p.rows[:half], p.columns[:half], p.values[:half])
    state = whole.state_dict()
    assert all(isinstance(array, np.ndarray) and array.dtype != object for array in state.values())
    resumed = polaug.InductiveCompletion(solver, rank=2).load_state_dict(state)
    for k in range(half, len(p.rows)):
        for model in (whole, resumed):
            model.partial_fit(p.X, p.Y, p.rows[k : k + 1], p.columns[k : k + 1], p.values[k : k + 1])
    np.testing.assert_array_equal(whole.predict(p.X, p.Y), resumed.predict(p.X, p.Y))


@pytest.mark.parametrize("solver", SOLVERS)
def test_damaged_state_is_refused_and_changes_nothing(solver):
    p = low_rank(seed=3)
    model = polaug.InductiveCompletion(solver, rank=2).fit(*p.observed)
    before = model.predict(p.X, p.Y)
    state = model.state_dict()
    for name in state:
        with pytest.raises(StateError):
            model.load_state_dict({key: array for key, array in state.items() if key != name} | {"X": before})
    foreign = polaug.InductiveCompletion("als" if solver != "als" else "recursive").fit(*p.observed).state_dict()
    with pytest.raises(StateError, match="belongs to"):
        model.load_state_dict(foreign)
    np.testing.assert_array_equal(model.predict(p.X, p.Y), before)
