"""One-hot features of Discrete, MultiDiscrete and MultiBinary observations, and of Tuples of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import MAX_SIZE, loaded, size_limit
from polaug.errors import UnsupportedSpaceError, shown
from polaug.features.mixed_radix import MixedRadix
from polaug.features.spaces import Flattener, Space


class OneHot:
    """One 1 for each choice: m is the sum of the numbers of categories. Rows are the combinations of choices."""

    def __init__(self, space: Space, *, max_size: int = MAX_SIZE) -> None:
        self._flatten = Flattener(space)
        if not self._flatten.categorical.all():
            raise UnsupportedSpaceError(
                "observation_space: one_hot needs Discrete, MultiDiscrete or MultiBinary, or a Tuple of these, "
                f"got {shown(space)}. Use grid or simhash for numbers."
            )
        counts = (self._flatten.high - self._flatten.low).astype(np.int64) + 1
        self._cells = MixedRadix(counts)
        self.size = size_limit(
            "one_hot",
            sum(map(int, counts)),
            "Raise max_size, or use fourier or grid, which treat the number as a position.",
            max_size,
        )
        self._offsets = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)

    @property
    def n_rows(self) -> int:
        """Number of combinations of choices."""
        return self._cells.total

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Features (n, m) of zeros and ones."""
        return self._features(self._choices(observations))

    def rows(self, observations: Any) -> NDArray[np.int64]:
        """Combination of each observation (n,); the last choice changes fastest."""
        return self._cells.ravel(self._choices(observations))

    def row_features(self) -> NDArray[np.float64]:
        """X (n_rows, m)."""
        return self._features(self._cells.all())

    def observe(self, observations: Any) -> bool:
        """Check the observations; there is nothing to learn, so always False."""
        self._flatten(observations)
        return False

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Only the numbers of categories, so that a state of another space is recognised."""
        return {"counts": self._cells.counts.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Check that the state belongs to these categories."""
        self._cells.check_same(loaded("OneHot", state, self.state_dict())["counts"], "OneHot")

    def _choices(self, observations: Any) -> NDArray[np.int64]:
        choices: NDArray[np.int64] = (self._flatten(observations) - self._flatten.low).astype(np.int64)
        return choices

    def _features(self, choices: NDArray[np.int64]) -> NDArray[np.float64]:
        features = np.zeros((len(choices), self.size))
        features[np.arange(len(choices))[:, None], choices + self._offsets] = 1.0
        return features
