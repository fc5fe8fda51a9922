"""Tasks to measure on, methods to compare, and how studies of them run. Importing this registers polaug's environments.

Nothing here imports torch until an agent is built: `train` does, `run_study` leaves it to its workers.

What is measured
    tasks.py                       a task is a record; the suites; environments that polaug brings
    methods.py                     a method is a name for settings; hyperparameters.yml has RL Baselines3 Zoo's
One run
    explore.py                     one explorer alone on one task
    agents.py                      an agent: built, evaluated, its files
    train.py                       one agent on one task, trained and written down
    maps.py                        visits and Q̂ over two dimensions of the observation
    folder.py, results.py          a run's folder: written, guarded, read back
Many runs
    study.py                       tasks × methods × seeds
    runner.py, pool.py             runs the cells and survives; worker processes
    ray_backend.py, ray_reaper.py  the same on Ray
What came out
    levels.py, statistics.py       solved, kept and final; intervals over few seeds, steps that some runs never reach
    summary.py, wording.py         headlines of each task and of all; the same in words
"""

from typing import TYPE_CHECKING, Any

from polaug.study.explore import Episode, Exploration, explore
from polaug.study.folder import RunFolder
from polaug.study.methods import METHODS, Method, method
from polaug.study.results import Run, find_runs, read_run
from polaug.study.runner import StudyOutcome, run_study
from polaug.study.study import Study
from polaug.study.tasks import CLASSIC, PAPER, TASKS, Task, task

if TYPE_CHECKING:
    from polaug.study.train import train

__all__ = [
    "CLASSIC",
    "METHODS",
    "PAPER",
    "TASKS",
    "Episode",
    "Exploration",
    "Method",
    "Run",
    "RunFolder",
    "Study",
    "StudyOutcome",
    "Task",
    "explore",
    "find_runs",
    "method",
    "read_run",
    "run_study",
    "task",
    "train",
]


def __getattr__(name: str) -> Any:
    """`train` needs torch, and is imported when first asked for."""
    if name == "train":
        import importlib

        return importlib.import_module("polaug.study.train").train
    raise AttributeError(f"module 'polaug.study' has no attribute {name!r}")
