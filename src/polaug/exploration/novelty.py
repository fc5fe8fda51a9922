"""How little is known about a state-action pair: √(ridge · φᵀ Λ⁻¹ φ) with coarse features."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polaug.exploration.base import FloatArray
from polaug.exploration.bilinear import Bilinear, Waves, scaled
from polaug.exploration.store import Store
from polaug.state import State, alike


class Novelty:
    """One Gram matrix of coarse features for each class of actions; 1 where nothing was seen, towards 0 with visits.

    One-hot actions each are a class; others share one by thirds of their first place in [−1, 1].
    """

    def __init__(
        self, store: Store, u: FloatArray, one_hot: bool, rng: np.random.Generator, *, frequencies: int, ridge: float
    ) -> None:
        self._store, self._ridge = store, ridge
        self.waves = Waves(store.states.shape[1], frequencies, rng)
        thirds = np.minimum(((u[:, 0] + 1.0) * 1.5).astype(np.int64), 2)
        self._classes = np.arange(len(u)) if one_hot else thirds
        d, classes = self.waves.size, int(self._classes.max()) + 1
        self._gram = np.zeros((classes, d, d))
        self._root = np.repeat(np.eye(d)[None], classes, axis=0)  # inverse Cholesky factors
        self._there = np.zeros((store.capacity, d), dtype=np.float32)
        self.stored = np.zeros((store.capacity, len(u)), dtype=np.float32)
        self._seen = 0

    def update(self, model: Bilinear, rescaled: bool) -> None:
        """Count what the store got since the last call (everything, if rescaled) and refresh the stored bonuses."""
        store = self._store
        live = max(1, int(np.count_nonzero(model.inverse)))
        self.waves.stretch(self.waves.directions, 0.65 * math.sqrt(live))
        slots = np.arange(store.size) if rescaled else store.written_since(self._seen)
        self._seen = store.steps
        here = self.waves(scaled(store.states[slots], model.centre, model.inverse))
        self._there[slots] = self.waves(scaled(store.next_states[slots], model.centre, model.inverse))
        classes = self._classes[store.actions[slots]]
        if rescaled:
            self._gram[:] = 0.0
        for k in range(len(self._gram)):  # replaced pairs stay counted: visited is visited
            mine = here[classes == k]
            self._gram[k] += mine.T @ mine
            system = self._gram[k] + self._ridge * np.eye(self.waves.size)
            self._root[k] = np.linalg.inv(np.linalg.cholesky(system))
            far = self._there[: store.size] @ self._root[k].T.astype(np.float32)
            bonus = np.sqrt(np.float32(self._ridge) * np.einsum("ij,ij->i", far, far))
            self.stored[: store.size, self._classes == k] = bonus[:, None]

    def __call__(self, z: FloatArray) -> FloatArray:
        """Bonus (n, N) of scaled states z (n, d)."""
        x = self._root @ self.waves(z).T
        bonus: NDArray[np.float64] = np.sqrt(self._ridge * (x * x).sum(axis=1)).T[:, self._classes]
        return bonus

    def state_dict(self) -> State:
        """Counts and features."""
        n = self._store.size
        return {
            "directions": self.waves.directions.copy(), "length": np.array(self.waves.length),
            "gram": self._gram.copy(), "root": self._root.copy(), "there": self._there[:n].copy(),
            "stored": self.stored[:n].copy(), "seen": np.array(self._seen),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Go on from `state_dict`, after the store was loaded; on an error nothing has changed."""
        n, state = self._store.size, alike("novelty", state, self.state_dict())
        self.waves.stretch(state["directions"], float(state["length"]))
        self._gram, self._root = state["gram"], state["root"]
        self._there[:n], self.stored[:n] = state["there"], state["stored"]
        self._seen = int(state["seen"])
