"""The visions that have played best so far, to fall back on when newer ones play worse: a refit is a lottery."""

from __future__ import annotations

from typing import Any

import numpy as np

from polaug.exploration.dynamics import Laws, restored_laws
from polaug.exploration.look_ahead import Vision, restored_vision
from polaug.state import State, fitting, part, prefixed

Visions = list[tuple[Laws, Vision]]

_PROVEN = 3  # episodes that prove visions
_RECORD = 8  # of its last episodes speak for it
_CLEARLY = 0.1  # of the range of returns below the worst of those episodes


class Proven:
    """Keeps one list of visions with its returns, and judges the list in use against it."""

    def __init__(self) -> None:
        self.visions: Visions = []
        self._record: list[float] = []
        self._tally: list[float] = []  # of the visions in use, if others
        self._span = np.array([np.inf, -np.inf])  # of all returns

    @property
    def exists(self) -> bool:
        """Whether any have been."""
        return len(self._record) >= _PROVEN

    def renewed(self) -> None:
        """Other visions are in use from now on."""
        self._tally = []

    def played(self, visions: Visions, total: float) -> None:
        """An episode by these visions is over; they are kept if their mean return is no worse."""
        self._span = np.array([min(self._span[0], total), max(self._span[1], total)])
        if visions is self.visions:
            self._record = [*self._record, total][-_RECORD:]
            return
        self._tally = [*self._tally, total][-_RECORD:]
        if len(self._tally) >= _PROVEN and (not self.exists or np.mean(self._tally) >= np.mean(self._record)):
            self.visions, self._record = visions, self._tally

    def beats(self, visions: Visions, total: float) -> bool:
        """Whether `total` is clearly below anything that the proven ones did of late."""
        if not self.exists or visions is self.visions:
            return False
        return bool(total < min(self._record) - _CLEARLY * float(self._span[1] - self._span[0]))

    def state_dict(self, visions: Visions) -> State:
        """The visions, and whether they are in use."""
        state: State = {
            "record": np.array(self._record), "tally": np.array(self._tally), "span": self._span.copy(),
            "in_use": np.array(visions is self.visions),
        }  # fmt: skip
        return state | visions_state(self.visions)

    def load_state_dict(self, state: State, visions: Visions, dimensions: int, n_actions: int) -> None:
        """Go on from `state_dict`; `visions` are those in use."""
        own = fitting("proven", state, {"record": ("f", "n"), "tally": ("f", "m"), "span": ("f", 2), "in_use": ("b",)})
        kept = restored_visions(state, dimensions, n_actions)
        self.visions = visions if bool(own["in_use"]) else kept
        self._record, self._tally, self._span = own["record"].tolist(), own["tally"].tolist(), own["span"]


def visions_state(visions: Visions) -> State:
    """Visions as plain arrays."""
    state: State = {"visions": np.array(len(visions))}
    for k, (laws, vision) in enumerate(visions):
        state |= prefixed(f"laws{k}", _arrays(laws)) | prefixed(f"vision{k}", _arrays(vision))
    return state


def restored_visions(state: State, dimensions: int, n_actions: int) -> Visions:
    """What `visions_state` wrote, once it fits spaces of so many dimensions and actions."""
    return [
        (
            restored_laws(part(f"laws{k}", state), dimensions, n_actions),
            restored_vision(part(f"vision{k}", state), dimensions),
        )
        for k in range(int(state["visions"]))
    ]


def _arrays(record: Any) -> State:
    return {name: np.array(value) for name, value in record._asdict().items()}
