"""Where a run has been and what Q̂ made of it, on a grid over two dimensions of the observations, as training goes on.

Of more than two dimensions those two are drawn that move Q̂ most; Q̂ is then a slice through the median of the states
seen. Everything is bounded: states beyond a number are thinned evenly, and so are snapshots. Nothing here is random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polaug.exploration import Explorer
from polaug.features import action_features
from polaug.features.spaces import Space
from polaug.state import State
from polaug.study.looks import CELLS, Array, Looks, Snapshot, beliefs
from polaug.study.trail import Trail

__all__ = ["CELLS", "SNAPSHOTS", "MapRecorder"]

SNAPSHOTS = 12
"""The most that are kept."""
_WIDEST = 64  # numbers in an observation: beyond that two of them say nothing


class MapRecorder:
    """Watches a run: `observe` every vector step, `snapshot` now and then, `state` at the end."""

    def __init__(self, observation_space: spaces.Box, action_space: Space, *, gamma: float = 0.99) -> None:
        self._size = int(np.prod(observation_space.shape))
        self._low = observation_space.low.astype(np.float64).ravel()
        self._high = observation_space.high.astype(np.float64).ravel()
        self._actions = action_features("auto", action_space)
        self._action_box = action_space if isinstance(action_space, spaces.Box) else None
        self._trail = Trail(self._size, gamma, self._columns)
        self._looks = Looks(observation_space)
        self._snapshots: list[Snapshot] = []
        self._calls, self._stride = 0, 1
        self._skipped: tuple[int, Explorer | None] | None = None

    @classmethod
    def of(cls, observation_space: Space, action_space: Space, *, gamma: float = 0.99) -> MapRecorder | None:
        """A recorder if observations are a Box of 2 to 64 real numbers, otherwise None."""
        if not isinstance(observation_space, spaces.Box) or observation_space.dtype.kind != "f":
            return None
        fits = 2 <= int(np.prod(observation_space.shape)) <= _WIDEST
        return cls(observation_space, action_space, gamma=gamma) if fits else None

    def observe(self, observations: Any, actions: Any, rewards: Any, ended: Any) -> None:
        """One step of n environments: where they were, what was done there, and what came of it (raw rewards)."""
        self._trail.add(observations, actions, rewards, ended)

    def _columns(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        if self._action_box is not None:
            actions = np.clip(actions, self._action_box.low, self._action_box.high)
        return self._actions.to_indices(actions)

    def snapshot(self, step: int, explorer: Explorer | None) -> None:
        """What is known after `step` steps. Call it as often as you like: most calls cost nothing."""
        self._calls += 1
        if (self._calls - 1) % self._stride:
            self._skipped = (step, explorer)
            return
        self._take(step, explorer)
        if len(self._snapshots) > SNAPSHOTS:
            self._snapshots, self._stride = self._snapshots[::2], 2 * self._stride

    def state(self) -> State:
        """The maps as plain arrays; the last call of `snapshot` is always among them."""
        if not self._trail.steps:
            return {}
        if self._skipped is not None or not self._snapshots:
            self._take(*(self._skipped or (self._trail.steps, None)))
            if len(self._snapshots) > SNAPSHOTS:
                del self._snapshots[-2]
        i, j = self._dimensions()
        states, columns, returns, times, known = self._trail.rows()
        low, high = self._range(states)
        edges = np.linspace(low[[i, j]], high[[i, j]], CELLS + 1, axis=1)
        places = [np.clip(np.searchsorted(edges[k], states[:, d], "right") - 1, 0, CELLS - 1)
                  for k, d in enumerate((i, j))]  # fmt: skip
        cells = places[0] * CELLS + places[1]
        visits, observed = [], []
        for each in self._snapshots:
            visits.append(np.bincount(cells[times <= each.cut], minlength=CELLS**2) * self._trail.stride)
            there = known <= each.cut
            observed.append(self._best_means(cells[there], columns[there], returns[there]))
        grid = (len(self._snapshots), CELLS, CELLS)
        maps: State = {
            "steps": np.array([each.step for each in self._snapshots], dtype=np.int64),
            "dimensions": np.array([i, j], dtype=np.int64),
            "median": np.median(states, axis=0).astype(np.float64),
            "edges": edges,
            "visits": np.array(visits, dtype=np.int64).reshape(grid),
            "observed": np.array(observed, dtype=np.float32).reshape(grid),
        }
        return maps | beliefs(self._snapshots, (i, j), edges)

    # -- snapshots --------------------------------------------------------------------------------------------------

    def _take(self, step: int, explorer: Explorer | None) -> None:
        self._skipped = None
        if not self._trail.steps:
            return
        if explorer is None:  # nobody is asked, so that no range is needed, which costs as much as thousands of steps
            unknown = np.empty(0)
            self._snapshots.append(Snapshot(step, self._trail.steps, unknown, unknown, unknown))
            return
        states = self._trail.rows()[0]
        low, high = self._range(states)
        made = Snapshot(step, self._trail.steps, low, high, np.median(states, axis=0).astype(np.float64))
        self._snapshots.append(made)
        self._looks.take(made, states, explorer)

    # -- the end ----------------------------------------------------------------------------------------------------

    def _dimensions(self) -> tuple[int, int]:
        """The two dimensions that moved Q̂ most; without Q̂, those that tell most about returns."""
        if self._looks.dimensions is not None:
            return self._looks.dimensions
        states, _, returns, _, _ = self._trail.rows()
        there = np.isfinite(returns)
        one, other = sorted(np.argsort(-_correlations(states[there], returns[there]), kind="stable")[:2].tolist())
        return one, other

    def _range(self, states: NDArray[np.float32]) -> tuple[Array, Array]:
        """What is drawn of each dimension: the bounds of a plane that has some, otherwise what was seen."""
        low, high = states.min(axis=0).astype(np.float64), states.max(axis=0).astype(np.float64)
        margin = 0.02 * (high - low)
        low, high = np.maximum(low - margin, self._low), np.minimum(high + margin, self._high)
        if self._size == 2:
            low = np.where(np.abs(self._low) < 1e6, self._low, low)
            high = np.where(np.abs(self._high) < 1e6, self._high, high)
        return low, np.where(high > low, high, low + 1.0)

    def _best_means(self, cells: NDArray[Any], columns: NDArray[Any], returns: NDArray[Any]) -> Array:
        """Q̃: the best action's mean return from each cell; NaN where none is known."""
        n = self._actions.n_actions
        pairs, total = cells * n + columns, CELLS**2 * n
        counts = np.bincount(pairs, minlength=total)
        sums = np.bincount(pairs, returns, minlength=total)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf).reshape(-1, n).max(axis=1)
        return np.where(np.isfinite(means), means, np.nan)


def _correlations(states: NDArray[np.float32], returns: NDArray[np.float32]) -> Array:
    """|r| (d,) of each dimension with the returns; 0 where either stands still."""
    if not len(returns):
        return np.zeros(states.shape[1])
    x, y = states - states.mean(axis=0), returns - returns.mean()
    scale = np.sqrt(np.square(x).sum(axis=0) * np.square(y).sum())
    r: Array = np.divide(x.T @ y, scale, out=np.zeros(states.shape[1]), where=scale > 0)
    return np.abs(r)
