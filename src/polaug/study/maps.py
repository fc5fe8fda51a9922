"""Visits, observed returns and Q̂ of a run on a grid over two dimensions of the observations, during training.

Of more than two dimensions those two are drawn that correlate most with the return at the first look; Q̂ is then a slice
through the median of the states seen. Everything is bounded: states beyond a number are thinned evenly, and so are
snapshots. Nothing here is random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polaug.errors import StateError
from polaug.explorers import Explorer
from polaug.features import action_features
from polaug.features.spaces import Space
from polaug.state import State, within

__all__ = ["CELLS", "SNAPSHOTS", "MapRecorder"]

CELLS = 24
"""Cells along each of the two dimensions of a map."""
SNAPSHOTS = 12
"""The most that are kept."""
ROWS = 100_000
"""The most states that are kept."""
_WIDEST = 64  # numbers in an observation: beyond that two of them say nothing
_LONGEST = 20_000  # steps after which an episode under way is settled without waiting for its end
_SAMPLE = 256  # states seen, for singular values
_CHUNK = 512  # states that an explorer is asked for at once: more are slower, since they leave the cache

Array = NDArray[np.float64]
Rows = tuple[NDArray[np.float32], Array]
"""States (n, d), and (n, 4): column of the action, return, step at which it was seen, step at which it ended."""


@dataclass(slots=True)
class Snapshot:
    """Visits, returns and Q̂ after `step` steps, on maps (g, g) whose edges go from `low` to `high` (2,)."""

    step: int
    low: Array
    high: Array
    singular_values: Array | None = None
    maps: dict[str, Array] = field(default_factory=dict)


class MapRecorder:
    """Watches a run: `observe` every vector step, `snapshot` now and then, `state` at the end."""

    def __init__(self, observation_space: spaces.Box, action_space: Space, *, gamma: float = 0.99) -> None:
        self._space, self._size = observation_space, int(np.prod(observation_space.shape))
        self._low = observation_space.low.astype(np.float64).ravel()
        self._high = observation_space.high.astype(np.float64).ravel()
        self._actions = action_features("auto", action_space)
        self._action_box = action_space if isinstance(action_space, spaces.Box) else None
        self._trail = Trail(self._size, gamma, self._columns)
        self._pair: list[int] | None = [0, 1] if self._size == 2 else None
        self._snapshots: list[Snapshot] = []
        self._calls, self._stride = 0, 1
        self._skipped: tuple[int, Explorer | None] | None = None

    @classmethod
    def of(cls, observation_space: Space, action_space: Space, *, gamma: float = 0.99) -> MapRecorder | None:
        """A recorder if observations are a Box of 2 to 64 real numbers, otherwise None."""
        if not isinstance(observation_space, spaces.Box) or np.dtype(observation_space.dtype).kind != "f":
            return None
        fits = 2 <= int(np.prod(observation_space.shape)) <= _WIDEST
        return cls(observation_space, action_space, gamma=gamma) if fits else None

    def observe(self, observations: Any, actions: Any, rewards: Any, ended: Any) -> None:
        """One step of n environments: states, actions, raw rewards and ends."""
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
        states, numbers = self._trail.rows()
        columns, returns, times, known = numbers.T
        pair = self._pair or _most(_correlations(states, returns))
        edges = np.linspace(*self._range(states, pair), CELLS + 1, axis=1)
        places = [np.clip(np.searchsorted(edges[k], states[:, pair[k]], "right") - 1, 0, CELLS - 1) for k in (0, 1)]
        cells = places[0] * CELLS + places[1]
        steps = [each.step for each in self._snapshots]
        visits = [np.bincount(cells[times <= t], minlength=CELLS**2) * self._trail.stride for t in steps]
        observed = [self._best_means(cells[known <= t], columns[known <= t], returns[known <= t]) for t in steps]
        grid = (len(steps), CELLS, CELLS)
        maps: State = {
            "steps": np.array(steps, dtype=np.int64),
            "dimensions": np.array(pair, dtype=np.int64),
            "median": np.median(states, axis=0).astype(np.float64),
            "edges": edges,
            "visits": np.array(visits, dtype=np.int64).reshape(grid),
            "observed": np.array(observed, dtype=np.float32).reshape(grid),
        }
        return maps | self._beliefs((edges[:, 1:] + edges[:, :-1]) / 2)

    def _take(self, step: int, explorer: Explorer | None) -> None:
        self._skipped = None
        if not self._trail.steps:
            return
        made = Snapshot(step, np.empty(0), np.empty(0))
        self._snapshots.append(made)
        if explorer is None:
            return
        states, numbers = self._trail.rows()
        sample = states[np.linspace(0, len(states) - 1, min(_SAMPLE, len(states))).astype(int)]
        values = self._asked(explorer.q_values, sample)
        if values is not None:
            made.singular_values = np.asarray(np.linalg.svd(values, compute_uv=False), dtype=np.float64)
        if self._pair is None:
            self._pair = _most(_correlations(states, numbers[:, 1]))
        made.low, made.high = self._range(states, self._pair)
        edges = np.linspace(made.low, made.high, CELLS + 1, axis=1)
        centres = (edges[:, 1:] + edges[:, :-1]) / 2
        grid = np.tile(np.median(states, axis=0).astype(np.float64), (CELLS**2, 1))
        grid[:, self._pair] = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 2)
        values, unsure = self._asked(explorer.q_values, grid), self._asked(explorer.uncertainty, grid)
        if unsure is not None:
            made.maps["uncertainty"] = unsure.reshape(CELLS, CELLS)
        if values is not None:
            made.maps["completed"] = values.max(axis=1).reshape(CELLS, CELLS)
            made.maps["choice"] = values.argmax(axis=1).reshape(CELLS, CELLS)

    def _range(self, states: NDArray[np.float32], pair: list[int]) -> tuple[Array, Array]:
        """What is drawn of each dimension: the bounds of a plane that has some, otherwise what was seen."""
        low, high = (reduce(states[:, pair], axis=0).astype(np.float64) for reduce in (np.min, np.max))
        margin, least, most = 0.02 * (high - low), self._low[pair], self._high[pair]
        low, high = np.maximum(low - margin, least), np.minimum(high + margin, most)
        if self._size == 2:
            low, high = np.where(np.abs(least) < 1e6, least, low), np.where(np.abs(most) < 1e6, most, high)
        return low, np.where(high > low, high, low + 1.0)

    def _best_means(self, cells: NDArray[Any], columns: Array, returns: Array) -> Array:
        """Q̃: the best action's mean return from each cell; NaN where none is known."""
        n = self._actions.n_actions
        means = means_of(cells * n + columns.astype(np.int64), returns, CELLS**2 * n)
        best: Array = np.fmax.reduce(means.reshape(-1, n), axis=1)
        return best

    def _asked(self, question: Callable[[Any], Array | None], states: NDArray[Any]) -> Array | None:
        """The explorer's answer (n, ...) for states (n, d), a chunk at a time; None if it has none."""
        shaped = states.astype(self._space.dtype).reshape(-1, *self._space.shape)
        answers = [question(shaped[first : first + _CHUNK]) for first in range(0, len(shaped), _CHUNK)]
        known = [answer for answer in answers if answer is not None]
        return np.concatenate(known) if len(known) == len(answers) else None

    def _beliefs(self, centres: Array) -> State:
        """Q̂'s maps at `centres` (2, g); NaN where no state had been seen yet, or before there was a Q̂."""
        maps: State = {}
        for name in ("completed", "choice", "uncertainty"):
            if any(name in each.maps for each in self._snapshots):
                cells = np.stack([_resampled(each, name, centres) for each in self._snapshots])
                known = np.nan_to_num(cells, nan=-1).astype(np.int16)
                maps[name] = known if name == "choice" else cells.astype(np.float32)
        spectra = [np.empty(0) if each.singular_values is None else each.singular_values for each in self._snapshots]
        if longest := max(map(len, spectra)):
            rows = [np.append(each, np.full(longest - len(each), np.nan)) for each in spectra]
            maps["singular_values"] = np.stack(rows)
        return maps


def means_of(groups: NDArray[np.int64], values: Array, total: int) -> Array:
    """Mean (total,) of the values of each group; NaN of an empty one."""
    counts, sums = np.bincount(groups, minlength=total), np.bincount(groups, values, minlength=total)
    means: Array = np.divide(sums, counts, out=np.full(total, np.nan), where=counts > 0)
    return means


def _resampled(each: Snapshot, name: str, centres: Array) -> Array:
    """A map of a snapshot's own range at other centres (2, g); NaN outside that range."""
    if name not in each.maps:
        return np.full((CELLS, CELLS), np.nan)
    low, high = each.low[:, None], each.high[:, None]
    places = np.floor((centres - low) / (high - low) * CELLS).astype(int)
    outside = (places < 0) | (places >= CELLS)
    i, j = np.clip(places, 0, CELLS - 1)
    return np.where(outside[0][:, None] | outside[1][None, :], np.nan, each.maps[name][np.ix_(i, j)])


def _most(influence: Array) -> list[int]:
    """The two dimensions with the most influence."""
    return sorted(np.argsort(-influence, kind="stable")[:2].tolist())


def _correlations(states: NDArray[np.float32], returns: Array) -> Array:
    """|r| (d,) of each dimension with the returns that are known; 0 where either stands still."""
    there = np.isfinite(returns)
    if not there.any():
        return np.zeros(states.shape[1])
    x, y = states[there] - states[there].mean(axis=0), returns[there] - returns[there].mean()
    scale = np.sqrt(np.square(x).sum(axis=0) * np.square(y).sum())
    r: Array = np.divide(x.T @ y, scale, out=np.zeros(states.shape[1]), where=scale > 0)
    return np.abs(r)


class Trail:
    """The steps of all environments as `Rows`; `columns` gives the columns (k,) of actions (k, ...)."""

    def __init__(self, size: int, gamma: float, columns: Callable[[NDArray[Any]], NDArray[np.int64]]) -> None:
        self._gamma, self._columns = gamma, columns
        self._open: dict[int, list[tuple[Any, ...]]] = {}  # by environment the steps of its episode under way
        self._ended: list[Rows] = [(np.zeros((0, size), np.float32), np.zeros((0, 4)))]
        self._filled = self._settled = 0
        self.steps = 0
        """Steps of all environments so far."""
        self.stride = 1
        """Number of steps that a row stands for."""

    def add(self, states: Any, actions: Any, rewards: Any, ended: Any) -> None:
        """One step of n environments."""
        self.steps += len(ended)
        for env, over in enumerate(ended):
            episode = self._open.setdefault(env, [])
            episode.append(
                (np.array(states[env], np.float32).ravel(), np.array(actions[env]), rewards[env], self.steps)
            )
            if over or len(episode) >= _LONGEST:
                self._settle(env)

    def rows(self) -> Rows:
        """All of them, in no particular order; of open episodes returns are NaN and ends infinite."""
        parts = [(s[:: self.stride], n[:: self.stride]) for s, n in map(self._table, self._open.values())]
        for _, numbers in parts:
            numbers[:, 1], numbers[:, 3] = np.nan, np.inf
        self._ended = [_joined(self._ended)]
        return _joined([*self._ended, *parts])

    def _table(self, episode: list[tuple[Any, ...]]) -> Rows:
        states, actions, rewards, seen = zip(*episode, strict=True)
        backwards = accumulate(map(float, reversed(rewards)), lambda later, reward: reward + self._gamma * later)
        columns, known = self._columns(np.stack(actions)), np.full(len(seen), seen[-1])
        numbers = np.stack([columns, np.array(list(backwards)[::-1]), np.array(seen), known], axis=1)
        return np.stack(states), numbers.astype(np.float64)

    def _settle(self, env: int) -> None:
        """The episode is over: its returns are known from now on."""
        states, numbers = self._table(self._open.pop(env))
        first = -self._settled % self.stride  # as if all episodes were one: short ones are thinned like long ones
        self._settled += len(states)
        self._ended.append((states[first :: self.stride], numbers[first :: self.stride]))
        self._filled += len(self._ended[-1][0])
        if self._filled > ROWS:
            states, numbers = _joined(self._ended)
            self._ended, self.stride = [(states[::2].copy(), numbers[::2].copy())], 2 * self.stride
            self._filled = len(self._ended[0][0])


def _joined(parts: list[Rows]) -> Rows:
    states, numbers = zip(*parts, strict=True)
    return np.concatenate(states), np.concatenate(numbers)


# -- maps read back ---------------------------------------------------------------------------------------------------

_LAYOUTS = {
    "steps": "it", "dimensions": "i2", "median": "fd", "edges": "f2e", "visits": "itgg", "observed": "ftgg",
    "completed": "ftgg", "uncertainty": "ftgg", "choice": "itgg", "singular_values": "ftk",
}  # fmt: skip
"""Kind of each array's numbers, then the length of each axis; those with the same letter are equal."""
_OPTIONAL = ("completed", "uncertainty", "choice", "singular_values")
_LARGEST = 1e100  # of what is drawn: differences of larger numbers overflow


def checked_maps(state: State) -> State:
    """The maps of `MapRecorder`, once every array has the shape and the values that can be drawn."""
    sizes: dict[str, int] = {"2": 2}
    for name, layout in _LAYOUTS.items():
        kind, axes = layout[0], layout[1:]
        if name in _OPTIONAL and name not in state:
            continue
        array = state.get(name, np.empty(0, "O"))
        fits = array.dtype.kind == kind and array.ndim == len(axes)
        if not fits or any(sizes.setdefault(a, n) != n for a, n in zip(axes, array.shape, strict=True)):
            raise StateError(f"maps.{name}: has another shape than it was saved with. The state is damaged.")
    cells = sizes["g"]
    if not sizes["t"] or not cells or cells % 2 or sizes["e"] != cells + 1:
        raise StateError(f"maps: {sizes['t']} snapshots of {cells} cells cannot be drawn. The state is damaged.")
    within("maps.dimensions", state["dimensions"], 0, sizes["d"] - 1)
    for name, most in (("steps", 2**62), ("visits", 2**32 - 1), ("choice", 2**15)):
        within(f"maps.{name}", state.get(name, np.zeros(0, np.int64)), -1 if name == "choice" else 0, most)
    for name in ("median", "edges", "observed", "completed", "uncertainty", "singular_values"):
        values = state.get(name, np.zeros(0)).astype(np.float64)
        known = values if name in ("median", "edges") else values[~np.isnan(values)]
        if not (np.abs(known) <= _LARGEST).all():
            raise StateError(f"maps.{name}: must be finite numbers up to {_LARGEST:g}. The state is damaged.")
    return state
