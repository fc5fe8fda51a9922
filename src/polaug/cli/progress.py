"""What is going on, on stderr so that stdout stays clean: moving on a terminal of any width, line by line in a log."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from polaug.study.board import Board
from polaug.study.pool import Event

if TYPE_CHECKING:
    from polaug.study.recorder import Progress as Step

_NARROW = 90
_LOG_EVERY = 10.0  # seconds between lines of a single run in a log


@contextmanager
def episode_bar(total: int) -> Iterator[Callable[[str, int], None]]:
    """For runs counted in episodes: call it with a label and how many are done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        last = ""

        def report(label: str, episodes: int) -> None:
            nonlocal last
            if label != last:
                print(label, file=sys.stderr, flush=True)
            last = label

        yield report
        return
    with _bar(console, MofNCompleteColumn()) as bar:
        number = bar.add_task("starting", total=total)

        def advance(label: str, episodes: int) -> None:
            bar.update(number, advance=episodes, description=label)

        yield advance


@contextmanager
def training(label: str) -> Iterator[Callable[[Step], None]]:
    """For one agent: steps, the last return, who drove, what the agent does alone, the time left."""
    console = Console(stderr=True)
    started = time.monotonic()
    if not console.is_terminal:
        due = started

        def report(step: Step) -> None:
            nonlocal due
            if time.monotonic() >= due or step.step >= step.steps:
                due = time.monotonic() + _LOG_EVERY
                left = (time.monotonic() - started) * (step.steps / step.step - 1.0)
                print(f"{label}: {step.step:,} of {step.steps:,} steps, {_spoken(step)}, {clock(left)} left",
                      file=sys.stderr, flush=True)  # fmt: skip

        yield report
        return
    with _bar(console, TextColumn("{task.fields[count]}", markup=False)) as bar:
        number = bar.add_task(label, total=None, count="")

        def advance(step: Step) -> None:
            words = _short(step) if console.width < _NARROW else f"{label} · {_spoken(step)}"
            count = f"{step.step:,}" if console.width < _NARROW else f"{step.step:,}/{step.steps:,}"
            bar.update(number, total=step.steps, completed=min(step.step, step.steps), description=words, count=count)

        yield advance


def _bar(console: Console, count: ProgressColumn) -> Progress:
    width = max(4, min(30, console.width // 4))
    words = TextColumn("{task.description}", markup=False)
    return Progress(words, BarColumn(width), count, TimeRemainingColumn(compact=True), console=console, transient=True)


def _spoken(step: Step) -> str:
    alone = "" if math.isnan(step.evaluation) else f", agent alone {number(step.evaluation)}"
    return f"return {number(step.return_)} ({step.actor} drove){alone}"


def _short(step: Step) -> str:
    return f"{number(step.return_)} {step.actor}"


class StudyTable:
    """Called by the runner: a table on a terminal, a line per finished run in a log. Use it in a `with` block."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._drawn = 0.0

    def __enter__(self) -> StudyTable:
        if self._console.is_terminal:
            self._live.__enter__()
        return self

    def __exit__(self, *fault: object) -> None:
        if self._console.is_terminal:
            self._live.__exit__(None, None, None)

    def __call__(self, board: Board, event: Event | None) -> None:
        """Draw, at most twice a second; in a log, say what ended."""
        if event is not None and event.kind in ("done", "failed", "died"):
            self._console.print(ended(board, event), markup=False, highlight=False, soft_wrap=True)
        if self._console.is_terminal and (event is None or time.monotonic() - self._drawn > 0.5):
            self._drawn = time.monotonic()
            self._live.update(drawn(board, self._console.width), refresh=True)


def ended(board: Board, event: Event) -> str:
    """One line for a run that is over."""
    over = board.reused + len(board.done) + len(board.failed)
    if event.kind == "done":
        run = board.done[-1]
        last = "" if run.progress is None else f", agent alone {number(run.progress.evaluation)}"
        what = f"done in {clock(run.seconds)}{last}"
    else:
        what = (
            f"failed: {event.error}"
            if event.cell.key not in {c.key for c in board.waiting}
            else "tried again: " + event.error
        )
    return f"[{over}/{board.total}] {event.cell.name}: {what}, {clock(board.seconds_left)} left"


def drawn(board: Board, width: int) -> Group:
    """The state of the study: a bar, the counts, and a row for each run under way."""
    over = board.reused + len(board.done) + len(board.failed)
    counts = (
        f"{over - len(board.failed)} of {board.total} done, {len(board.running)} running, "
        f"{len(board.failed)} failed, {clock(board.seconds_left)} left"
    )
    bar = Table.grid()  # a bar alone would not end its line
    bar.add_row(ProgressBar(board.total, over + sum(run.share for run in board.running.values()), min(width, 60)))
    return Group(bar, Text(counts), _running(board, width >= _NARROW))


def _running(board: Board, wide: bool) -> Table:
    """On a narrow screen the names are cut short, never the numbers."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim", expand=not wide)
    for name in ("task", "method", "seed") if wide else ("run",):
        table.add_column(name, no_wrap=True, ratio=None if wide else 1)
    for name in ("steps", "return", *(("drove", "agent alone") if wide else ())):
        table.add_column(name, no_wrap=True, justify="right", min_width=7)
    for run in board.running.values():
        cell, step = run.cell, run.progress
        numbers = ("", "", "", "") if step is None else (
            f"{step.step:,}", number(step.return_), step.actor, number(step.evaluation)
        )  # fmt: skip
        names = (cell.task.name, cell.method.name, str(cell.seed)) if wide else (cell.name.replace("seed ", ""),)
        shown = (*names, *(numbers if wide else numbers[:2]))
        table.add_row(*(Text(word, overflow="ellipsis") for word in shown))
    return table


def number(value: float) -> str:
    """A return for people."""
    return "–" if math.isnan(value) else f"{value:,.1f}".replace("-", "−")


def clock(seconds: float) -> str:
    """A duration for people."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
