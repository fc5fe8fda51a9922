"""J and the canonical distance against their definitions."""

import numpy as np
import pytest
from tests.completion.problems import low_rank
from tests.reference import dense_cost

import polaug
from polaug.errors import InvalidInputError


@pytest.mark.parametrize("reading", ["zero_filled", "masked"])
@pytest.mark.parametrize("with_previous", [True, False])
def test_cost_is_equation_2(reading, with_previous):
    p = low_rank(seed=2, noise=0.3)
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    previous = (rng.standard_normal((6, 2)), rng.standard_normal((4, 2))) if with_previous else (None, None)
    mask = p.mask if reading == "masked" else np.ones(p.Q.shape)
    expected = dense_cost(p.X, p.Y, p.mask * p.Q, mask, U, V, *previous, 0.7, 0.3, 0.1, 0.2)
    weights = {"lambda_1": 0.7, "lambda_2": 0.3, "ridge_u": 0.1, "ridge_v": 0.2}
    assert polaug.cost(*p.observed, U, V, *previous, reading=reading, **weights) == pytest.approx(expected)


def test_cost_refuses_factors_of_another_model():
    p = low_rank()
    with pytest.raises(InvalidInputError, match=r"^V: must have one row for each of the 4"):
        polaug.cost(*p.observed, np.ones((6, 2)), np.ones((5, 2)))


def test_distance_is_the_papers_trace_form_for_orthonormal_bases():
    rng = np.random.default_rng(0)
    A, B = (np.linalg.qr(rng.standard_normal((9, 3)))[0] for _ in range(2))
    expected = 3 - np.trace(A @ A.T @ B @ B.T)
    assert polaug.canonical_distance(A, B) ** 2 == pytest.approx(expected)
    mixed = A @ rng.standard_normal((3, 3))  # another basis of the same subspace
    assert polaug.canonical_distance(mixed, B) ** 2 == pytest.approx(expected)
    assert polaug.canonical_distance(A, mixed) == pytest.approx(0.0, abs=1e-7)


def test_principal_angles_are_accurate_when_tiny_and_when_right():
    for angle in (1e-9, 1e-4, 0.3, 1.5, np.pi / 2):
        A = np.array([[1.0], [0.0], [0.0]])
        B = np.array([[np.cos(angle)], [np.sin(angle)], [0.0]])
        assert polaug.principal_angles(A, B)[0] == pytest.approx(angle, rel=1e-6)


def test_directions_only_one_subspace_has_count_as_orthogonal():
    assert polaug.canonical_distance(np.eye(4)[:, :1], np.eye(4)[:, :3]) == pytest.approx(np.sqrt(2))
    assert polaug.canonical_distance(np.eye(4)[:, :2], np.eye(4)[:, 2:]) == pytest.approx(np.sqrt(2))
    assert polaug.canonical_distance(np.zeros((4, 1)), np.eye(4)[:, :1]) == pytest.approx(1.0)


def test_subspaces_of_different_spaces_are_refused():
    with pytest.raises(InvalidInputError, match="same space"):
        polaug.principal_angles(np.eye(3), np.eye(4))
