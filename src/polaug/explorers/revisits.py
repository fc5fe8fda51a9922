"""The revisit penalty: V of a state that was revisited is at most the value of the loop that led back to it.

An error in V can trap a greedy policy in a loop around a state whose V is too high. A loop of k steps with the mean
reward r̄ has the value r̄ / (1 − γ). If V is higher at the state where the loop closes, one Bellman backup around the
loop lowers it there,

    V(s) ← V(s) − (1 − γᵏ) (V(s) − r̄ / (1 − γ)),

so that the policy leaves the loop, as in real-time search (LRTA*, Korf, 1990; RTDP, Barto et al., 1995). Penalties end
with the episode and with the next plan. `ModelExplorer` does not use them where rewards differ but no episode has ever
terminated: staying in a good state may be the task.
"""

from __future__ import annotations

import math

import numpy as np

from polaug.compiled import compiled
from polaug.explorers.base import FloatArray
from polaug.snapshot import saved

_KEPT = 128  # places of an episode


@saved("_places", "_visits", "_count", "_total", "_steps")
class Revisits:
    """The penalties of each environment's episode.

    Parameters
    ----------
    dimensions
        Of a place.
    length
        Of a penalty, in units of the range seen; places that are nearer than half of it are one.
    """

    def __init__(self, dimensions: int, length: float) -> None:
        self.length = length
        self._nowhere = np.zeros((0, dimensions)), np.zeros(0)
        self._places: dict[int, FloatArray] = {}  # (128, d)
        self._visits: dict[int, FloatArray] = {}  # (3, 128) depth of the penalty; reward and steps until the last visit
        self._count: dict[int, int] = {}
        self._total: dict[int, float] = {}  # reward of the episode so far
        self._steps: dict[int, int] = {}

    def begin(self, environment: int) -> None:
        """An episode starts."""
        for each in (self._places, self._visits, self._count, self._total, self._steps):
            each.pop(environment, None)

    def forget(self) -> None:
        """Drop all penalties, because the units have changed."""
        for each in (self._places, self._visits, self._count, self._total, self._steps):
            each.clear()

    def of(self, environment: int) -> tuple[FloatArray, FloatArray]:
        """Places (n, d) and the depths (n,) of their penalties."""
        n = min(self._count.get(environment, 0), _KEPT)
        return (self._places[environment][:n], self._visits[environment][0, :n]) if n else self._nowhere

    def visit(self, environment: int, place: FloatArray, value: float, reward: float, gamma: float) -> None:
        """Record that the episode is at `place` (d,), where V is `value`, and gets `reward` for its next step."""
        if environment not in self._count:
            self._places[environment], self._visits[environment] = np.zeros((_KEPT, len(place))), np.zeros((3, _KEPT))
            self._count[environment], self._steps[environment], self._total[environment] = 0, 0, 0.0
        self._count[environment] = penalise(
            self._places[environment], self._visits[environment], self._count[environment], place, value,
            self._total[environment], self._steps[environment], gamma, self.length / 2,
        )  # fmt: skip
        self._total[environment] += reward
        self._steps[environment] += 1


@compiled
def penalise(
    places: FloatArray, visits: FloatArray, count: int, place: FloatArray, value: float, total: float, steps: int,
    gamma: float, near: float,
) -> int:  # fmt: skip
    """Back up a loop to a place that was met before, else note the place instead of the oldest; gives the new count."""
    kept, d = places.shape
    nearest, at = np.inf, 0
    for j in range(min(count, kept)):
        square = 0.0
        for k in range(d):
            square += (places[j, k] - place[k]) ** 2
        if square < nearest:
            nearest, at = square, j
    depth, before, then = visits
    if nearest < near**2:
        taken = steps - then[at]
        forever = (total - before[at]) / taken / (1.0 - gamma)
        depth[at] += (1.0 - gamma**taken) * max(value - depth[at] - forever, 0.0)
    else:
        at = count % kept
        depth[at] = 0.0
        for k in range(d):
            places[at, k] = place[k]
        count += 1
    before[at], then[at] = total, steps
    return count


@compiled
def penalty_at(places: FloatArray, depths: FloatArray, length: float, place: FloatArray) -> float:
    """The revisit penalty at a place (d,): Gaussians of `depths` (n,) around `places` (n, d)."""
    total = 0.0
    for j in range(places.shape[0]):
        square = 0.0
        for k in range(place.shape[0]):
            square += (places[j, k] - place[k]) ** 2
        total += depths[j] * math.exp(-0.5 * square / length**2)
    return total
