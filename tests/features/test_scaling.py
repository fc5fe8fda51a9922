"""Automatic scaling: from bounds, from statistics, and never a surprise from offsets, constants or giants."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from polaug.errors import StateError
from polaug.features import Scaler, state_features
from polaug.features.spaces import Flattener

SCALED = ("random_fourier", "fourier", "grid", "simhash")


def unbounded(d: int, **options) -> Scaler:
    infinite = np.full(d, np.inf)
    return Scaler(-infinite, infinite, np.zeros(d, bool), **options)


def test_finite_bounds_are_mapped_to_one_without_any_observation():
    scaler = Scaler(np.array([-1.2, -0.07]), np.array([0.6, 0.07]), np.ones(2, bool))
    np.testing.assert_allclose(scaler(np.array([[-1.2, 0.07], [-0.3, 0.0]])), [[-1, 1], [0, 0]], atol=1e-12)
    assert scaler.observe(np.full((100, 2), 0.01)) is False


@pytest.mark.parametrize("statistics", ["range", "moments"])
def test_unknown_dimensions_say_nothing_until_the_first_refresh(statistics):
    scaler = unbounded(1, statistics=statistics)
    rng = np.random.default_rng(0)
    assert not any(scaler.observe(rng.uniform(5, 7, (1, 1))) for _ in range(19))
    assert scaler(np.array([[6.9]])) == 0
    assert scaler.observe(rng.uniform(5, 7, (1, 1)))
    assert scaler(np.array([[6.9]])) > 0.5


@pytest.mark.parametrize("statistics", ["range", "moments"])
def test_uniform_observations_fill_the_interval(statistics):
    scaler = unbounded(2, statistics=statistics)
    x = np.random.default_rng(0).uniform([-3, 100], [5, 101], (5000, 2))
    scaler.observe(x)
    z = scaler(x)
    np.testing.assert_allclose(z.min(axis=0), -1, atol=0.05)
    np.testing.assert_allclose(z.max(axis=0), 1, atol=0.05)
    assert np.abs(scaler(x * 1e6)).max() == 3.0


@pytest.mark.parametrize("statistics", ["range", "moments"])
def test_the_scale_changes_only_logarithmically_often_and_batches_do_not_matter(statistics):
    x = np.random.default_rng(0).standard_normal((20_000, 3))
    one_by_one, batched = unbounded(3, statistics=statistics), unbounded(3, statistics=statistics)
    changes = sum(one_by_one.observe(row[None]) for row in x)
    assert 2 <= changes <= 30
    batched.observe(x)
    np.testing.assert_allclose(one_by_one.state_dict()[f"running_{statistics}"],
                               batched.state_dict()[f"running_{statistics}"], rtol=1e-9, atol=1e-12)  # fmt: skip


def test_true_means_that_the_output_really_changed():
    scaler, rng = unbounded(2), np.random.default_rng(1)
    probe = rng.standard_normal((50, 2))
    before = scaler(probe)
    for _ in range(3000):
        changed = scaler.observe(rng.standard_normal((1, 2)))
        after = scaler(probe)
        assert changed == (not np.array_equal(before, after))
        before = after
    settled = unbounded(1)
    settled.observe(np.linspace(-1, 1, 50)[:, None])
    assert not any(settled.observe(np.array([[0.3]])) for _ in range(500))


@pytest.mark.parametrize("statistics", ["range", "moments"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_dimensions_give_zero_even_when_their_last_bit_flickers(statistics, dtype):
    space = spaces.Box(-np.inf, np.inf, (2,), dtype)
    rng = np.random.default_rng(0)
    x = np.column_stack([np.full(200, 1e6), rng.standard_normal(200)]).astype(dtype)
    x[::3, 0] = np.nextafter(x[::3, 0], dtype(np.inf))
    flat = Flattener(space)
    scaler = Scaler(flat.low, flat.high, flat.bounded, flat.resolution, statistics=statistics)
    scaler.observe(flat(x))
    np.testing.assert_array_equal(scaler(flat(x))[:, 0], 0.0)
    assert np.ptp(scaler(flat(x))[:, 1]) > 1


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-7), (np.float32, 0.05)])
def test_scaled_and_shifted_observations_give_the_same_features(name, bounded, dtype, tolerance):
    high = np.array([1.5, 80.0, 3.0]) if bounded else np.full(3, np.inf)
    plain = spaces.Box(-high, high, dtype=np.float64)
    moved = spaces.Box(*(np.asarray(b * 1000 + 1e6, dtype) for b in (-high, high)), dtype=dtype)
    one, other = state_features(name, plain, seed=3), state_features(name, moved, seed=3)
    x = np.random.default_rng(0).uniform(-1, 1, (300, 3)) * [1.5, 80.0, 3.0]
    for batch in np.split(x, 30):
        one.observe(batch)
        other.observe((batch * 1000 + 1e6).astype(dtype))
    a, b = one(x), other((x * 1000 + 1e6).astype(dtype))
    # Hashes jump at the edge of a cell: all but a few observations must stay in theirs.
    close = np.isclose(a, b, atol=tolerance).all(axis=1)
    assert close.mean() >= (1.0 if tolerance < 1e-3 and name not in ("grid", "simhash") else 0.95)


def test_float32_infinity_as_a_bound_counts_as_none():
    huge = np.finfo(np.float32).max
    features = state_features("random_fourier", spaces.Box(-huge, huge, (1,)))
    x = np.linspace(-2, 2, 100)[:, None]
    assert features.observe(x)
    np.testing.assert_allclose(5 * features(x)[:, -1], x[:, 0] / 2, atol=1e-12)  # the linear term is z / 5


def test_bounds_can_be_ignored():
    features = state_features("random_fourier", spaces.Box(-100, 100, (1,)), bounds=False)
    features.observe(np.linspace(-1, 1, 100)[:, None])
    np.testing.assert_allclose(5 * features(np.array([[0.5]]))[:, -1], [0.5])


@settings(max_examples=60, deadline=None)
@given(
    x=hnp.arrays(np.float64, (25, 3), elements=st.floats(allow_nan=False, allow_infinity=False)),
    name=st.sampled_from(SCALED),
)
def test_any_finite_input_gives_finite_bounded_features(x, name):
    features = state_features(name, spaces.Box(-np.inf, np.inf, (3,), np.float64))
    for batch in (x[:1], x):
        features.observe(batch)
        result = features(x)
        assert np.isfinite(result).all()
        assert np.abs(result).max() <= 3


def test_a_damaged_state_changes_nothing():
    scaler = unbounded(2)
    scaler.observe(np.random.default_rng(0).standard_normal((50, 2)))
    good = scaler.state_dict()
    damages = [
        {k: v for k, v in good.items() if k != "origin"},
        good | {"more": np.zeros(1)},
        good | {"centre": np.zeros(3)},
        good | {"centre": np.array([np.nan, 0])},
        good | {"half_width": np.array([-1.0, 1.0])},
        good | {"counts": np.array([0.5, 1.0])},
        good | {"origin": "text"},
        None,
    ]
    for damage in damages:
        with pytest.raises(StateError):
            scaler.load_state_dict(damage)
        for key, value in scaler.state_dict().items():
            np.testing.assert_array_equal(value, good[key])
    with pytest.raises(StateError, match="running"):
        unbounded(2, statistics="moments").load_state_dict(good)
