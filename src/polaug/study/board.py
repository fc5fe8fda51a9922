"""Who runs what, how far it is, and how long it will take by the pace measured so far. Decides what runs next."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polaug.study.pool import Event
from polaug.study.progress import Pace
from polaug.study.study import Cell

if TYPE_CHECKING:
    from polaug.study.progress import Progress

Pair = tuple[str, str]


@dataclass
class Running:
    """A cell under way."""

    cell: Cell
    since: float = field(default_factory=time.monotonic)
    progress: Progress | None = None
    seconds: float = 0.0
    """How long it took, once it is done."""
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.pace = Pace(self.since)

    @property
    def share(self) -> float:
        """How much of it is done, 0 to 1."""
        return 0.0 if self.progress is None else min(1.0, self.progress.step / max(self.progress.steps, 1))


class Board:
    """The state of a study that is running."""

    def __init__(self, cells: Sequence[Cell], finished: Sequence[Cell], workers: int) -> None:
        gone = {cell.key for cell in finished}
        self.total, self.reused, self.workers = len(cells), len(finished), workers
        self.waiting = [cell for cell in cells if cell.key not in gone]
        self.running: dict[tuple[str, str, int], Running] = {}
        self.done: list[Running] = []
        self.failed: list[tuple[Cell, str]] = []
        self._seconds: dict[Pair, list[float]] = {}

    def start_next(self) -> Cell:
        """Of the lowest seed that is left the cell that will take longest; pairs never measured come first.

        The order decides only when things are known, not what comes out. Rounds of seeds keep a study that is cut short
        balanced, and the long cells first keep workers from waiting for each other at the end.
        """
        lowest = min(cell.seed for cell in self.waiting)
        cell = max((cell for cell in self.waiting if cell.seed == lowest), key=lambda cell: self._expected(cell.pair))
        self.waiting.remove(cell)
        self.running[cell.key] = Running(cell)
        return cell

    def take(self, event: Event, again: bool = False) -> None:
        """Note an event; `again`: its cell goes back to the waiting ones."""
        key = event.cell.key
        if event.kind in ("started", "progress"):
            run, now = self.running[key], time.monotonic()
            run.progress = event.progress
            if event.progress is not None:
                run.pace.add(now, event.progress)
            elif event.kind == "started":  # loading torch is not the pace
                run.since, run.pace = now, Pace(now)
            return
        run = self.running.pop(key)
        if event.kind == "done":
            run.seconds = time.monotonic() - run.since
            self.done.append(run)
            self._seconds.setdefault(event.cell.pair, []).append(run.seconds)
        elif again:
            self.waiting.insert(0, event.cell)
        else:
            self.failed.append((event.cell, event.error))

    def _expected(self, pair: Pair) -> float:
        """Seconds that a cell of this pair takes; infinity if nobody knows."""
        known = self._seconds.get(pair)
        return sum(known) / len(known) if known else math.inf

    @property
    def seconds_left(self) -> float:
        """By the measured pace; NaN while that of a run under way is not known well enough to tell."""
        now = time.monotonic()
        under_way = [(run, run.pace.left(now)) for run in self.running.values()]
        paces = {run.cell.pair: now - run.since + left for run, left in under_way if not math.isnan(left)}
        paces |= {pair: self._expected(pair) for pair in self._seconds}
        if not paces or any(run.cell.pair not in paces for run, _ in under_way):
            return math.nan
        usual = sum(paces.values()) / len(paces)
        lefts = [paces[run.cell.pair] * (1.0 - run.share) if math.isnan(left) else left for run, left in under_way]
        ahead = [paces.get(cell.pair, usual) for cell in self.waiting]
        return max((sum(lefts) + sum(ahead)) / self.workers, max(lefts, default=0.0), max(ahead, default=0.0))
