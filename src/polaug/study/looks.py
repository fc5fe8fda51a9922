"""What an explorer believes, looked at on a grid over two dimensions of the observations: Q̂, its choice, its doubts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polaug.exploration import Explorer
from polaug.state import State

CELLS = 24
"""Cells along each of the two dimensions of a map."""
_SHORTLIST = 3  # dimensions whose pairs are all looked at, since which two matter shows only later:
_SETTLED = (3, 2_000)  # after so many looks at Q̂ and so many steps. Until then cells are twice as wide
_SAMPLE = 256  # states seen, for singular values; every second one for the influence of dimensions
_CHUNK = 512  # states that an explorer is asked for at once: more are slower, since they leave the cache

Array = NDArray[np.float64]


@dataclass(slots=True)
class Snapshot:
    """What was believed after `cut` recorded steps; maps are (pairs, g, g), in ranges (d,) of that moment."""

    step: int
    cut: int
    low: Array
    high: Array
    median: Array
    pairs: list[tuple[int, int]] = field(default_factory=list)
    singular_values: Array | None = None
    maps: dict[str, Array] = field(default_factory=dict)


class Looks:
    """Asks explorers, and knows which two dimensions moved Q̂ most."""

    def __init__(self, space: spaces.Box) -> None:
        self._space, self._size = space, int(np.prod(space.shape))
        self._shortlist: list[int] = list(range(self._size)) if self._size <= _SHORTLIST else []
        self._influence, self._count, self._settled = np.zeros(self._size), 0, False

    def take(self, made: Snapshot, states: NDArray[np.float32], explorer: Explorer) -> None:
        """Complete a snapshot with what `explorer` believes; `states` (n, d) are those seen."""
        sample = states[np.linspace(0, len(states) - 1, min(_SAMPLE, len(states))).astype(int)]
        values = self._asked(explorer.q_values, sample)
        if values is not None:
            made.singular_values = np.asarray(np.linalg.svd(values, compute_uv=False), dtype=np.float64)
            if self._size > 2 and not self._settled:
                changes = self._changes(explorer, sample[::2], values[::2])
                self._influence += changes / max(changes.max(), 1e-300)
                self._count += 1
                self._shortlist = self._shortlist or np.argsort(changes)[-_SHORTLIST:].tolist()
        chosen = self.dimensions if self._settled else None
        made.pairs = [chosen] if chosen else list(combinations(sorted(self._shortlist or (0, 1)), 2))
        for pair in made.pairs:
            self._look(made, pair, explorer, with_values=values is not None)
        self._settled = self._count >= _SETTLED[0] and made.cut >= _SETTLED[1]

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """The two that moved Q̂ most, over all looks; None if there was no Q̂."""
        if self._size == 2:
            return 0, 1
        if not self._count:
            return None
        one, other = sorted(sorted(self._shortlist, key=lambda d: -self._influence[d])[:2])
        return one, other

    def _look(self, made: Snapshot, pair: tuple[int, int], explorer: Explorer, *, with_values: bool) -> None:
        """Add what the explorer believes on the grid of `pair`."""
        side = CELLS if len(made.pairs) == 1 else CELLS // 2
        edges = np.linspace(made.low[list(pair)], made.high[list(pair)], side + 1, axis=1)
        centres = (edges[:, 1:] + edges[:, :-1]) / 2
        grid = np.tile(made.median, (side**2, 1))
        grid[:, list(pair)] = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 2)
        found: dict[str, Any] = {"uncertainty": self._asked(explorer.uncertainty, grid)}
        if with_values:
            values = self._asked(explorer.q_values, grid)
            assert values is not None  # it was there a moment ago
            found |= {"completed": values.max(axis=1), "choice": values.argmax(axis=1)}
        for name, cells in found.items():
            if cells is not None:
                before = made.maps.get(name, np.zeros((0, side, side)))
                made.maps[name] = np.concatenate([before, np.reshape(cells, (1, side, side))])

    def _changes(self, explorer: Explorer, sample: NDArray[np.float32], values: Array) -> Array:
        """How much Q̂ changes (d,) when one dimension takes its values from other states."""
        order = np.random.default_rng(0).permutation(len(sample))
        changes = np.zeros(self._size)
        for d in range(self._size):
            mixed = sample.copy()
            mixed[:, d] = sample[order, d]
            after = self._asked(explorer.q_values, mixed)
            changes[d] = 0.0 if after is None else np.abs(after - values).mean()
        return changes

    def _asked(self, question: Callable[[Any], Array | None], states: NDArray[Any]) -> Array | None:
        """The explorer's answer (n, ...) for states (n, d), a chunk at a time; None if it has none."""
        shaped = states.astype(self._space.dtype).reshape(-1, *self._space.shape)
        answers = []
        for first in range(0, len(shaped), _CHUNK):
            answer = question(shaped[first : first + _CHUNK])
            if answer is None:
                return None
            answers.append(answer)
        return np.concatenate(answers)


def beliefs(snapshots: Sequence[Snapshot], pair: tuple[int, int], edges: Array) -> State:
    """Q̂'s maps on the final grid; NaN where no state had been seen yet, or before there was a Q̂."""
    centres = (edges[:, 1:] + edges[:, :-1]) / 2
    maps: State = {}
    for name in ("completed", "choice", "uncertainty"):
        if not any(name in each.maps and pair in each.pairs for each in snapshots):
            continue
        cells = np.full((len(snapshots), CELLS, CELLS), np.nan)
        for t, each in enumerate(snapshots):
            if name in each.maps and pair in each.pairs:
                cells[t] = _resampled(each.maps[name][each.pairs.index(pair)], each, pair, centres)
        maps[name] = np.nan_to_num(cells, nan=-1).astype(np.int16) if name == "choice" else cells.astype(np.float32)
    spectra = [each.singular_values for each in snapshots if each.singular_values is not None]
    if spectra:
        table = np.full((len(snapshots), max(map(len, spectra))), np.nan)
        for t, each in enumerate(snapshots):
            if each.singular_values is not None:
                table[t, : len(each.singular_values)] = each.singular_values
        maps["singular_values"] = table
    return maps


def _resampled(cells: Array, each: Snapshot, pair: tuple[int, int], centres: Array) -> Array:
    """`cells` of a snapshot's own range at other centres (2, G); NaN outside that range."""
    low, high, side = each.low[list(pair), None], each.high[list(pair), None], len(cells)
    places = np.floor((centres - low) / (high - low) * side).astype(int)
    outside = (places < 0) | (places >= side)
    i, j = np.clip(places, 0, side - 1)
    return np.where(outside[0][:, None] | outside[1][None, :], np.nan, cells[np.ix_(i, j)])
