"""The user's callable as state features, for any space. Its output is checked at every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import loaded, whole
from polaug.errors import InvalidInputError, StateError, invalid
from polaug.features.spaces import Space, batch_length, example_batch


class Custom:
    """`function(observations)` -> (n, m), given the observations just as the environment sent them.

    m is read off one call on a sample of the space, unless `size` is given. Keep values within about ±1, and the
    function fixed: a map that changes must be a `StateFeatures` of its own, whose `observe` says when.
    """

    def __init__(self, space: Space, *, function: Callable[[Any], Any], size: int | None = None) -> None:
        if not callable(function):
            raise invalid("function", "must be callable", function, "Pass f with f(observations) -> array (n, m).")
        self._function, self._space = function, space
        self._name = getattr(function, "__qualname__", None) or repr(function)
        self.size = 0 if size is None else whole("size", size, 1)
        if size is None:
            self.size = self(example_batch(space)).shape[1]

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Checked features (n, m)."""
        output = self._function(observations)
        try:
            features = np.asarray(output, dtype=np.float64).copy()  # the callable may keep what it returned
        except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor that requires a gradient
            raise self._blame("must return an array of numbers (n, m)", output) from None
        n = batch_length(self._space, observations)
        if features.ndim != 2 or (n is not None and len(features) != n):
            raise self._blame(f"must return an array (n, m), here with n = {n}", features)
        if self.size == 0 and features.shape[1] == 0:
            raise self._blame("must return at least one feature", features)
        if self.size and features.shape[1] != self.size:
            raise self._blame(f"must always return the same m = {self.size} features", features)
        if not np.isfinite(features).all():
            env, column = np.argwhere(~np.isfinite(features))[0]
            raise self._blame(f"environment {env}, feature {column}: must be finite", float(features[env, column]))
        return features

    def observe(self, observations: Any) -> bool:
        """The map never changes: always False."""
        return False

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The number of features: a function cannot be saved as arrays."""
        return {"size": np.array(self.size)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Check that the state belongs to a function with as many features."""
        new = loaded("Custom", state, self.state_dict())
        if int(new["size"]) != self.size:
            raise StateError(
                f"state: {self._name} has {self.size} features, the state has {int(new['size'])}. "
                "Load it with the callable it came from."
            )

    def _blame(self, rule: str, value: Any) -> InvalidInputError:
        return invalid(f"features callable {self._name!r}", rule, value, "Fix the output of the callable.")
