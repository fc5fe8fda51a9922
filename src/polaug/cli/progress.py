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
from polaug.study.progress import Pace

if TYPE_CHECKING:
    from polaug.study.progress import Progress as Step

_NARROW = 90
_LOG_EVERY = 10.0  # seconds between lines of a single run in a log,
_STUDY_LOG_EVERY = 30.0  # and the most between two lines of a study


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
    """For one agent: steps of how many, the last return and who drove it, what the agent does alone, the time left."""
    console = Console(stderr=True)
    due = time.monotonic()
    pace = Pace(due)
    if not console.is_terminal:
        print(f"{label}: starting", file=sys.stderr, flush=True)

        def report(step: Step) -> None:
            nonlocal due
            now = time.monotonic()
            pace.add(now, step)
            if now >= due or step.step >= step.steps:
                due = now + _LOG_EVERY
                print(f"{label}: {', '.join(_spoken(step, pace.left(now)))}", file=sys.stderr, flush=True)

        yield report
        return
    with Live(under_way(label, None, math.nan, console.width), console=console, transient=True) as live:

        def advance(step: Step) -> None:
            now = time.monotonic()
            pace.add(now, step)
            live.update(under_way(label, step, pace.left(now), console.width))

        yield advance


def under_way(label: str, step: Step | None, left: float, width: int) -> Group:
    """A run on a terminal: its name, a bar, and below it as many facts to a line as fit; `left` in seconds."""
    share = 0.0 if step is None else min(1.0, step.step / max(step.steps, 1))
    bar = Table.grid()  # a bar alone would not end its line
    bar.add_row(ProgressBar(1.0, share, max(8, min(width - 2, 60))))
    lines: list[str] = []
    for fact in ["starting"] if step is None else _spoken(step, left):
        if lines and len(lines[-1]) + len(fact) + 3 <= width:
            lines[-1] += f" · {fact}"
        else:
            lines.append(fact)
    name, *facts = (Text(line, no_wrap=True, overflow="ellipsis") for line in (label, *lines))
    return Group(name, bar, *facts)


def _spoken(step: Step, left: float) -> list[str]:
    """Where a run is, each fact with its name; no time `left` while nobody can tell."""
    facts = [f"{step.step:,} of {step.steps:,} steps"]
    if not math.isnan(left):
        facts.append(f"{clock(left)} left")
    if not math.isnan(step.return_):
        facts.append(f"last return {number(step.return_)}, {step.actor} drove")
    if not math.isnan(step.evaluation):
        facts.append(f"agent alone {number(step.evaluation)}")
    return facts


def _bar(console: Console, count: ProgressColumn) -> Progress:
    width = max(4, min(30, console.width // 4))
    words = TextColumn("{task.description}", markup=False)
    return Progress(words, BarColumn(width), count, TimeRemainingColumn(compact=True), console=console, transient=True)


class StudyTable:
    """Called by the runner: a table on a terminal; in a log a line when a run starts or ends, and now and then between.

    `plan` is said first. Use it in a `with` block.
    """

    def __init__(self, plan: str = "") -> None:
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._drawn = 0.0
        self._plan, self._said = plan, time.monotonic()

    def __enter__(self) -> StudyTable:
        if self._console.is_terminal:
            self._live.__enter__()
        return self

    def __exit__(self, *fault: object) -> None:
        if self._console.is_terminal:
            self._live.__exit__(None, None, None)

    def __call__(self, board: Board, event: Event | None) -> None:
        """Draw, at most twice a second; in a log, say what started and ended, and after a while how far it is."""
        if self._plan:
            before = f"; {board.reused} finished before" if board.reused else ""
            self._say(self._plan + before)
            self._plan = ""
        terminal = self._console.is_terminal
        if event is not None and event.kind in ("done", "failed", "died"):
            self._say(ended(board, event))
        elif not terminal and event is not None and event.kind == "started":
            self._say(f"[{_over(board)}/{board.total}] {event.cell.name}: started")
        elif not terminal and time.monotonic() - self._said >= _STUDY_LOG_EVERY:
            self._say(f"[{_over(board)}/{board.total}] {between(board)}")
        if terminal and (event is None or time.monotonic() - self._drawn > 0.5):
            self._drawn = time.monotonic()
            self._live.update(drawn(board, self._console.width), refresh=True)

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _over(board: Board) -> int:
    return board.reused + len(board.done) + len(board.failed)


def between(board: Board) -> str:
    """One line on the runs under way."""
    runs = (f"{run.cell.name} {run.share:.0%}" for run in board.running.values())
    left = board.seconds_left
    return f"running: {', '.join(runs)}; {'time left not known yet' if math.isnan(left) else f'{clock(left)} left'}"


def ended(board: Board, event: Event) -> str:
    """One line for a run that is over."""
    over = _over(board)
    if event.kind == "done":
        run = board.done[-1]
        last = "" if run.progress is None else f", agent alone {number(run.progress.evaluation)}"
        what = f"done in {clock(run.seconds)}{last}"
    else:
        again = event.cell.key in {cell.key for cell in board.waiting}
        error = " ".join(event.error.split()).rstrip(".")
        what = f"{'tried again' if again else 'failed'}: {error}"
    left = board.seconds_left
    return f"[{over}/{board.total}] {event.cell.name}: {what}{'' if math.isnan(left) else f'; {clock(left)} left'}"


def drawn(board: Board, width: int) -> Group:
    """The state of the study: a bar, the counts, and a row for each run under way."""
    over = _over(board)
    counts = (
        f"{over - len(board.failed)} of {board.total} done, {len(board.running)} running, {len(board.failed)} failed"
    )
    if not math.isnan(left := board.seconds_left):
        counts += f", {clock(left)} left"
    bar = Table.grid()  # a bar alone would not end its line
    bar.add_row(ProgressBar(board.total, over + sum(run.share for run in board.running.values()), min(width, 60)))
    return Group(bar, Text(counts), _running(board, width))


def _running(board: Board, width: int) -> Table | Text:
    """A row for each run under way; on a narrow screen without who drove and what the agent does alone."""
    heads = ("task", "method", "seed", "steps", "return", "drove", "agent alone")
    rows = []
    for run in board.running.values():
        cell, step = run.cell, run.progress
        numbers = ("", "", "", "") if step is None else (
            f"{step.step:,}", number(step.return_), step.actor, number(step.evaluation)
        )  # fmt: skip
        rows.append((cell.task.name, cell.method.name, str(cell.seed), *numbers))
    if width < _NARROW:
        return Text("\n".join(_squeezed([row[:5] for row in (heads, *rows)], width)), no_wrap=True, overflow="crop")
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for k, name in enumerate(heads):
        table.add_column(name, no_wrap=True, justify="right" if k > 2 else "left", min_width=7 if k > 2 else None)
    for row in rows:
        table.add_row(*(Text(word, overflow="ellipsis") for word in row))
    return table


def _squeezed(rows: list[tuple[str, ...]], width: int) -> Iterator[str]:
    """Lines of `width` columns: tasks, which many rows share, are cut short first, then methods, never numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for column, least in ((0, 4), (1, 6)):
        widths[column] = max(min(least, widths[column]), widths[column] - max(0, sum(widths) + 4 - width))
    for row in rows:
        task, method = (
            word if len(word) <= many else f"{word[: many - 1]}…" for word, many in zip(row, widths[:2], strict=False)
        )
        numbers = (f"{word:>{many}}" for word, many in zip(row[2:], widths[2:], strict=True))
        yield " ".join((f"{task:{widths[0]}}", f"{method:{widths[1]}}", *numbers))


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
