"""Tasks to measure on, methods to compare, and how studies of them run. Importing this registers our environments.

Nothing here imports torch until an agent is built: `train` does, `run_study` leaves it to its workers.

What is measured
    deep_sea.py, paper_mountain_car.py   environments of our own
    tasks.py                             a task is a record; the suites
    methods.py, tuned.py                 a method is a name for settings; RL Baselines3 Zoo's, as data
One run
    explore.py                           one explorer alone on one task
    agents.py, train.py, recorder.py     one agent on one task: built, trained, written down
    evaluation.py                        the agent alone, deterministic
    maps.py, trail.py                    visits and Q̂ over two dimensions of the observation
    folder.py, locking.py, results.py    a run's folder: written, guarded, read back
    ours.py                              what may be overwritten: files of ours, whole or not at all
Many runs
    study.py, board.py                   tasks × methods × seeds; what runs next, how long it will take
    runner.py, pool.py, ray_backend.py   runs the cells and survives, on this machine or on Ray
What came out
    statistics.py, survival.py           intervals over few seeds; steps to a threshold that some never reach
    levels.py, summary.py, overall.py    a run's level; headlines of each task; all tasks at once
    wording.py, export.py                the same in words; tables for other tools
    paper.py, paper_tables.py, paper_figures.py, figure_files.py   the paper's study and its figures
    saved.py, normalization.py, watch.py, film.py, captions.py   a saved agent at play
"""

from typing import TYPE_CHECKING, Any

import gymnasium as gym

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

for _name, _entry_point, _limit in (
    ("polaug/DeepSea-v0", "polaug.study.deep_sea:DeepSea", None),  # ends by itself after N rows
    ("polaug/PaperMountainCar-v0", "polaug.study.paper_mountain_car:PaperMountainCar", 200),
):
    if _name not in gym.registry:  # a reload must not warn about overriding
        gym.register(id=_name, entry_point=_entry_point, max_episode_steps=_limit)


def __getattr__(name: str) -> Any:
    """`train` needs torch, and is imported when first asked for."""
    if name == "train":
        import importlib

        return importlib.import_module("polaug.study.train").train
    raise AttributeError(f"module 'polaug.study' has no attribute {name!r}")
