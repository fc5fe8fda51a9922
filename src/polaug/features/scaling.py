"""Automatic scaling of flat observations to about [−1, 1], frozen between refreshes that become ever rarer.

Where the space's bounds are finite they are mapped to ±1. Elsewhere the scale comes from what was observed.
`statistics="range"` (running minimum and maximum) is the default: it was the best single choice in experiments with
explorers, fills [−1, 1] whatever the shape of the distribution, and settles for good once the extremes have
been seen. `"moments"` (mean ± √3 standard deviations, the half-width of a uniform distribution) is for
observations with outliers, but drifts for as long as the behaviour changes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import loaded
from polaug.errors import StateError
from polaug.features.spaces import Flattener, Space
from polaug.state import LARGEST_COUNT, part, prefixed

_FIRST, _GROWTH = 20, 1.3  # observations before the first refresh, and their growth until the next
_TOLERANCE = 0.01  # a shift below 1% of the half-width is not worth recomputing every stored feature
_WIDEST = 1e101  # of a saved scale: observations are at most 1e100
_SMALLEST = 1e-100  # with observations up to 1e100 a narrower half-width would overflow


class Scaler:
    """z = (x − centre) / half-width, clipped to ±`clip`; 0 in dimensions that are constant or not yet known.

    The scale is refreshed after 20 observations and then each time their number has grown by 30%: O(log steps) times.
    `low` and `high` (d,) are the space's bounds, `trusted` (d,) marks those to use,
    `resolution` (d,) is the relative rounding of the observations: a range below it is noise and taken as constant.
    """

    def __init__(
        self,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        trusted: NDArray[np.bool_],
        resolution: NDArray[np.float64] | float = 0.0,
        *,
        statistics: str = "range",
        clip: float = 3.0,
    ) -> None:
        self.statistics = statistics
        self._adaptive = ~trusted
        self._adapts = bool(self._adaptive.any())
        self._resolution = np.maximum(resolution, 4 * np.finfo(np.float64).eps)
        # An adaptive dimension starts with width 0, so its features are 0 until it varies.
        finite_low, finite_high = np.where(trusted, low, 0.0), np.where(trusted, high, 0.0)
        centre = (finite_low + finite_high) / 2
        self._set_scale(centre, self._without_noise(centre, (finite_high - finite_low) / 2))
        self._ceiling = np.full((1, len(centre)), clip)
        self._floor = -self._ceiling
        self._count = 0
        self._next_refresh = _FIRST
        # Statistics are of x − origin, the first observation, so that a huge common offset costs no accuracy.
        self._origin = np.zeros_like(self.centre)
        self._running = np.zeros((2, len(self.centre)))  # minimum and maximum, or mean and sum of squares

    def __call__(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scaled values z (n, d) of flat observations x (n, d)."""
        z: NDArray[np.float64] = x - self._shift
        z *= self._inverse
        np.maximum(z, self._floor, out=z)
        np.minimum(z, self._ceiling, out=z)
        return z

    def observe(self, x: NDArray[np.float64]) -> bool:
        """Take in x (n, d); True when the frozen scale changed."""
        n = len(x)
        if not self._adapts or n == 0:
            return False
        if self._count == 0:
            self._origin = x[0].copy()
        delta = x - self._origin
        first, second = self._running
        if self.statistics == "range":
            smallest, largest = (delta[0], delta[0]) if n == 1 else (delta.min(axis=0), delta.max(axis=0))
            np.minimum(first, smallest, out=first)
            np.maximum(second, largest, out=second)
        else:  # Chan's update of the mean and the sum of squared deviations by those of a batch
            mean = delta.mean(axis=0)
            shift = mean - first
            share = n / (self._count + n)
            first += shift * share
            second += np.square(delta - mean).sum(axis=0) + np.square(shift) * (self._count * share)
        self._count += n
        return self._count >= self._next_refresh and self._refresh()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Frozen scale and running statistics."""
        return {
            "centre": self.centre.copy(),
            "half_width": self.half_width.copy(),
            "origin": self._origin.copy(),
            f"running_{self.statistics}": self._running.copy(),
            "counts": np.array([self._count, self._next_refresh], dtype=np.int64),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded("Scaler", state, self.state_dict())
        running = new[f"running_{self.statistics}"]
        count, next_refresh = (int(number) for number in new["counts"])
        ordered = running[0] <= running[1] if self.statistics == "range" else running[1] >= 0
        width, spread = new["half_width"], running if self.statistics == "range" else running[0]
        sizes = np.abs(np.concatenate([new["centre"], width, new["origin"], spread.ravel()]))
        counted = 0 <= count <= LARGEST_COUNT and 1 <= next_refresh <= LARGEST_COUNT
        possible = ((width == 0.0) | (width >= _SMALLEST)).all() and ordered.all() and (sizes <= _WIDEST).all()
        if not (counted and possible):
            raise StateError("state: widths or counts of Scaler are impossible. The state is damaged.")
        self._set_scale(new["centre"], new["half_width"])
        self._origin, self._running, self._count, self._next_refresh = new["origin"], running, count, next_refresh

    def _refresh(self) -> bool:
        self._next_refresh = max(self._count + 1, math.ceil(self._count * _GROWTH))
        first, second = self._running
        if self.statistics == "range":
            centre, half_width = self._origin + (first + second) / 2, (second - first) / 2
        else:
            centre, half_width = self._origin + first, np.sqrt(3 * second / self._count)
        centre = np.where(self._adaptive, centre, self.centre)
        half_width = np.where(self._adaptive, self._without_noise(centre, half_width), self.half_width)
        slack = np.maximum(_TOLERANCE * half_width, self._resolution * np.abs(centre))
        moved = np.abs(centre - self.centre) > slack
        # Where the width is and was zero, z is zero whatever the centre.
        moved &= (half_width > 0) | (self.half_width > 0)
        moved |= np.abs(half_width - self.half_width) > slack
        if not moved.any():
            return False
        self._set_scale(centre, half_width)
        return True

    def _set_scale(self, centre: NDArray[np.float64], half_width: NDArray[np.float64]) -> None:
        self.centre, self.half_width = centre, half_width
        # As rows (1, d): for a batch of one NumPy then has nothing to broadcast, which halves the time of a call.
        self._shift = centre[None]
        self._inverse = np.divide(1.0, half_width, out=np.zeros_like(half_width), where=half_width > 0)[None]

    def _without_noise(self, centre: NDArray[np.float64], half_width: NDArray[np.float64]) -> NDArray[np.float64]:
        noise = np.maximum(self._resolution * np.abs(centre), _SMALLEST)
        return np.where(half_width > noise, half_width, 0.0)


class ScaledFeatures(ABC):
    """The common body of maps that are a fixed basis of scaled observations: flatten, scale, apply `_basis`.

    A subclass sets `size` and may list random arrays in `_drawn`.
    `bounds=False` scales by running statistics even where the space has finite bounds: better when an
    environment's bounds are far wider than what is ever visited. The rest is passed to `Scaler`.
    """

    size: int
    _drawn: tuple[str, ...] = ()  # names of the arrays that a seed drew: saved, so that a loaded map is the same

    def __init__(self, space: Space, *, bounds: bool = True, clip: float = 3.0, statistics: str = "range") -> None:
        self._flatten = flatten = Flattener(space)
        trusted = flatten.bounded & (bounds | flatten.categorical)
        self._scaler = Scaler(flatten.low, flatten.high, trusted, flatten.resolution, statistics=statistics, clip=clip)

    @abstractmethod
    def _basis(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Features (n, m) of scaled observations z (n, d), which may be overwritten."""

    def __call__(self, observations: Any) -> NDArray[np.float64]:
        """Features (n, m)."""
        return self._basis(self._scaler(self._flatten(observations)))

    def observe(self, observations: Any) -> bool:
        """Update the scale; True when stored features are out of date."""
        return self._scaler.observe(self._flatten(observations))

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The scale, and what was drawn at random."""
        state = prefixed("scaler", self._scaler.state_dict())
        return state | {name: getattr(self, "_" + name).copy() for name in self._drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`. A StateError changes nothing."""
        new = loaded(type(self).__name__, state, self.state_dict())
        self._scaler.load_state_dict(part("scaler", new))
        for name in self._drawn:
            setattr(self, "_" + name, new[name])
