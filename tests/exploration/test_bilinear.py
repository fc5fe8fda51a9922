"""The engine behind `optimistic`: what rounding leaves behind does no harm."""

import numpy as np

from polaug.exploration.bilinear import Group, Waves
from polaug.exploration.store import Store


def test_a_gram_matrix_that_is_not_quite_definite_is_factored_with_more_ridge():
    """Pairs that leave the store are subtracted, which may leave a little less than nothing."""
    rng = np.random.default_rng(0)
    group = Group(Store(2, 2, 100), np.eye(2), Waves(2, 3, rng), 0.03, 1)
    group._gram[0, 4, 4] = -0.2
    group.factor()
    ridges = [
        np.diag(np.tril(factor) @ np.tril(factor).T - gram)
        for factor, gram in zip(group._factors, group._gram, strict=True)
    ]
    np.testing.assert_allclose(ridges[0], 0.3)
    np.testing.assert_allclose(ridges[1], 0.03)
