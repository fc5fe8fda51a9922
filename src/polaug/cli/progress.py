"""Progress on stderr: a bar on a terminal of any width, lines in a log."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from polaug.study.pool import Event, Progress
from polaug.study.runner import Board
from polaug.study.wording import number

_LOG_EVERY = 30.0  # seconds between two lines of a log
_KNOWN = 0.1  # share of the work after which its pace tells the time left


class ProgressDisplay:
    """A progress bar on a terminal, lines now and then elsewhere; use it in a `with` block."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, transient=True, refresh_per_second=2)
        self._began = self._said = time.monotonic()

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def say(self, line: str) -> None:
        """One line, which stays."""
        self._said = time.monotonic()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def update(self, title: str, share: float, lines: Sequence[str] = ()) -> None:
        """Which `share` of the work is done, and a line for each part of it that is under way."""
        now = time.monotonic()
        left = (now - self._began) * (1.0 - share) / share if _KNOWN < share < 1.0 else math.nan
        head = title if math.isnan(left) else f"{title}, {duration(left)} left"
        if self._console.is_terminal:
            bar = Table.grid()  # a bar alone would not end its line
            bar.add_row(ProgressBar(1.0, share, max(8, min(self._console.width - 2, 60))))
            self._live.update(Group(Text(head), bar, *map(Text, lines)))
        elif (lines and share >= 1.0) or now - self._said >= _LOG_EVERY:
            self.say("; ".join([head, *lines]))


def progress_words(step: Progress) -> str:
    """The progress of a run in words."""
    facts = [f"{step.step:,} of {step.steps:,} steps"]
    if not math.isnan(step.return_):
        facts.append(f"last return {number(step.return_)}, by the {step.actor}")
    if not math.isnan(step.evaluation):
        facts.append(f"agent alone {number(step.evaluation)}")
    if step.solved_at is not None:
        facts.append(f"solved after {step.solved_at:,}")
    return ", ".join(facts)


def show_study(shown: ProgressDisplay, board: Board, event: Event | None) -> None:
    """Say what started and ended, and draw the rest."""
    over = board.reused + len(board.done) + len(board.failed)
    count = f"[{over}/{board.total}]"
    if event is not None and event.kind != "progress":
        shown.say(f"{count} {event.cell.name}: {_news(board, event)}")
    lines = [f"{run.cell.name}: {progress_words(run.progress)}" for run in board.running.values() if run.progress]
    share = 1.0 - (len(board.waiting) + sum(1.0 - run.share for run in board.running.values())) / board.work
    if lines:
        shown.update(f"{count} running", min(share, 0.999), lines)


def _news(board: Board, event: Event) -> str:
    if event.kind == "started":
        return "started"
    if event.kind == "done":
        run = board.done[-1]
        return f"done in {duration(run.seconds)}{f', {progress_words(run.progress)}' if run.progress else ''}"
    again = event.cell.key in {cell.key for cell in board.waiting}
    return f"{'tried again' if again else 'failed'}: {' '.join(event.error.split())}"


def duration(seconds: float) -> str:
    """A duration as hours, minutes and seconds."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
