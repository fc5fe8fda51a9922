"""The progress bar of `learn(progress_bar=True)`, in a terminal or a notebook."""

from __future__ import annotations

import time
from collections import deque
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from stable_baselines3.common.callbacks import BaseCallback

RECENT = 20
"""Episodes that the bar counts: few enough that it follows the coach, many enough that it does not flicker."""
_REFRESH = 0.25  # seconds between two updates of the display


class DriverBar(BaseCallback):
    """A progress bar with the number of recent episodes that the guide drove."""

    def _on_training_start(self) -> None:
        self._guided: deque[bool] = deque(maxlen=RECENT)
        self._first, self._shown = self.model.num_timesteps, 0.0
        total = self.locals["total_timesteps"] - self._first
        self._bar: Any = _NotebookBar(total) if Console().is_jupyter else _TerminalBar(total)
        self._draw()

    def _on_step(self) -> bool:
        self._guided.extend(info["actor"] != "agent" for info in self.locals["infos"] if "actor" in info)
        if time.monotonic() - self._shown >= _REFRESH:
            self._draw()
        return True

    def _on_training_end(self) -> None:
        self._draw()
        self._bar.close()

    def _draw(self) -> None:
        self._shown = time.monotonic()
        words = f"guide drove {sum(self._guided)} of {len(self._guided)}"
        self._bar.draw(self.model.num_timesteps - self._first, words)


class _TerminalBar:
    def __init__(self, total: int) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        words = TextColumn("{task.description}")
        self._progress = Progress(words, *columns, console=Console(stderr=True), auto_refresh=False)
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def draw(self, steps: int, words: str) -> None:
        self._progress.update(self._task, completed=steps, description=words, refresh=True)

    def close(self) -> None:
        self._progress.stop()


class _NotebookBar:
    """An HTML element in the cell's output. Rich's own needs ipywidgets."""

    def __init__(self, total: int) -> None:
        shown: Any = import_module("IPython.display")  # its functions have no types
        self._total, self._html = total, shown.HTML
        self._handle = shown.display(shown.HTML(""), display_id=True)

    def draw(self, steps: int, words: str) -> None:
        bar = f'<progress value="{steps}" max="{self._total}"></progress>'
        self._handle.update(self._html(f"{bar} {steps:,} of {self._total:,} steps, {words}"))

    def close(self) -> None:
        """The element stays in the output."""
