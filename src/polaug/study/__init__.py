"""Tasks to measure on, and how to run explorers on them. Importing this registers our environments with Gymnasium.

deep_sea.py             the DeepSea chain, where undirected exploration needs 2^N episodes
paper_mountain_car.py   the paper's MountainCar, +10 at the flag
tasks.py                a task is a record; the suites
maps.py                 visits and max Q̂ over two-dimensional observations
explore.py              one explorer alone on one task
folder.py               a run's folder on disk
"""

import gymnasium as gym

from polaug.study.explore import Episode, Exploration, explore
from polaug.study.folder import RunFolder
from polaug.study.tasks import CLASSIC, PAPER, TASKS, Task, task

__all__ = ["CLASSIC", "PAPER", "TASKS", "Episode", "Exploration", "RunFolder", "Task", "explore", "task"]

for _name, _entry_point, _limit in (
    ("polaug/DeepSea-v0", "polaug.study.deep_sea:DeepSea", None),  # ends by itself after N rows
    ("polaug/PaperMountainCar-v0", "polaug.study.paper_mountain_car:PaperMountainCar", 200),
):
    if _name not in gym.registry:  # a reload must not warn about overriding
        gym.register(id=_name, entry_point=_entry_point, max_episode_steps=_limit)
