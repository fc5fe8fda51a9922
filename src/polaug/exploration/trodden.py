"""Where an episode has just been: where every step costs until the task is done, no good way comes by a place twice.

V has faults: now and then a place looks better from all around than it is, and who follows V stays there for good. So
whoever comes back to a place leaves a dent in V, as deep as a step costs, and goes elsewhere in the end (as in
real-time search, Korf 1990). Dents vanish with the episode and with the next fit.
"""

from __future__ import annotations

import math

import numpy as np

from polaug.completion.compiled import compiled
from polaug.errors import StateError
from polaug.exploration.base import FloatArray
from polaug.state import State

LENGTH = 0.15  # of a dent, in units of the range seen
_SAME = 0.5  # of it: places so near are one
_KEPT = 128  # places of an episode


class Trodden:
    """The dents of each environment's episode."""

    def __init__(self, dimensions: int) -> None:
        self._nowhere = np.zeros((0, dimensions)), np.zeros(0)
        self._places: dict[int, FloatArray] = {}
        self._depths: dict[int, FloatArray] = {}
        self._count: dict[int, int] = {}

    def begin(self, environment: int) -> None:
        """An episode starts."""
        for each in (self._places, self._depths, self._count):
            each.pop(environment, None)

    def forget(self) -> None:
        """Units have changed."""
        for each in (self._places, self._depths, self._count):
            each.clear()

    def of(self, environment: int) -> tuple[FloatArray, FloatArray]:
        """Places (n, d) and the depths (n,) of their dents."""
        n = min(self._count.get(environment, 0), _KEPT)
        return (self._places[environment][:n], self._depths[environment][:n]) if n else self._nowhere

    def tread(self, environment: int, place: FloatArray, cost: float) -> None:
        """The episode is at `place` (d,); to have come back costs."""
        if environment not in self._count:
            self._places[environment], self._depths[environment] = np.zeros((_KEPT, len(place))), np.zeros(_KEPT)
            self._count[environment] = 0
        places, depths = self._places[environment], self._depths[environment]
        self._count[environment] = dent(places, depths, self._count[environment], place, cost)

    def state_dict(self) -> State:
        """Arrays of all environments, one after the other."""
        names = list(self._count)
        return {
            "environments": np.array([[name, self._count[name]] for name in names], dtype=np.int64).reshape(-1, 2),
            "places": np.array([self._places[name] for name in names]).reshape(-1, _KEPT, self._nowhere[0].shape[1]),
            "depths": np.array([self._depths[name] for name in names]).reshape(-1, _KEPT),
        }

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`; on an error nothing has changed."""
        rows, places, depths = (state[name] for name in ("environments", "places", "depths"))
        wanted = (len(rows), _KEPT, self._nowhere[0].shape[1])
        if rows.shape != (len(rows), 2) or places.shape != wanted or depths.shape != wanted[:2] or (rows < 0).any():
            raise StateError(f"trodden: places must have shape {wanted}, got {places.shape}. The state is damaged.")
        names = [int(name) for name in rows[:, 0]]
        self._count = dict(zip(names, (int(count) for count in rows[:, 1]), strict=True))
        self._places = dict(zip(names, places.astype(float), strict=True))
        self._depths = dict(zip(names, depths.astype(float), strict=True))


@compiled
def dent(places: FloatArray, depths: FloatArray, count: int, place: FloatArray, cost: float) -> int:
    """Deepen the dent of a place that was met before, else note it instead of the oldest; gives the new count."""
    kept, d = places.shape
    nearest, at = np.inf, 0
    for j in range(min(count, kept)):
        square = 0.0
        for k in range(d):
            square += (places[j, k] - place[k]) ** 2
        if square < nearest:
            nearest, at = square, j
    if nearest < (_SAME * LENGTH) ** 2:
        depths[at] += cost
        return count
    at = count % kept
    depths[at] = 0.0  # it is coming back that is wrong
    for k in range(d):
        places[at, k] = place[k]
    return count + 1


@compiled
def depth_at(places: FloatArray, depths: FloatArray, place: FloatArray) -> float:
    """How deep all dents (n, d) together are at a place (d,)."""
    total = 0.0
    for j in range(places.shape[0]):
        square = 0.0
        for k in range(place.shape[0]):
            square += (places[j, k] - place[k]) ** 2
        total += depths[j] * math.exp(-0.5 * square / LENGTH**2)
    return total
