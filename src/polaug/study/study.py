"""A study: tasks × methods × seeds with one budget, checked before anything runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from polaug.checks import package, whole
from polaug.errors import InvalidInputError, invalid
from polaug.study.folder import run_path
from polaug.study.levels import CONFIRM_EPISODES, EARLY_EVERY
from polaug.study.methods import Method, check_fit
from polaug.study.methods import method as find_method
from polaug.study.tasks import Task
from polaug.study.tasks import task as find_task


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    task: Task
    method: Method
    seed: int

    @property
    def name(self) -> str:
        """As progress lines show it."""
        return f"{self.task.name} · {self.method.name} · seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int]:
        """Task, method and seed."""
        return self.task.name, self.method.name, self.seed

    def path(self, out: Path) -> Path:
        """Its run folder."""
        return run_path(out, self.task.name, self.method.name, self.seed)


@dataclass(frozen=True)
class Study:
    """Tasks × methods × seeds. Build it with `Study.of`, which takes names and refuses what cannot work."""

    tasks: tuple[Task, ...]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    steps: int | None = None
    """Least environment steps of a run."""
    episodes: int | None = None
    """Least episodes of a run."""
    every: int = 1_000
    """Steps between evaluations."""
    eval_episodes: int = 10
    early_every: int | None = EARLY_EVERY
    """Steps between evaluations in the first EARLY_STEPS, if that is less than `every`; None or 0: `every`."""
    confirm_episodes: int = CONFIRM_EPISODES
    """Episodes from fresh starts that confirm a solved step, and give the final level."""
    save_models: bool = False
    tensorboard: str | None = None
    """Folder for TensorBoard's logs."""
    track: bool = False
    """Whether runs are logged to Weights & Biases."""
    skipped: tuple[tuple[str, str, str], ...] = ()
    """Pairs that cannot work: task, method and why."""

    @classmethod
    def of(
        cls, tasks: Iterable[str | Task], methods: Iterable[str | Method], seeds: int | Iterable[int], **settings: Any
    ) -> Study:
        """From names. `seeds` is a number of seeds from 0 on, or the seeds themselves.

        A method is skipped on the tasks that it does not fit (`skipped` says why); if none is left, that is an error.
        """
        found = tuple({each.name: each for each in map(find_task, tasks)}.values())
        chosen = tuple({each.name: each for each in map(find_method, methods)}.values())
        if isinstance(seeds, int):
            seeds = range(whole("seeds", seeds, 1))
        numbers = tuple(dict.fromkeys(whole("seed", seed, 0) for seed in seeds))
        for name, given in (("tasks", found), ("methods", chosen), ("seeds", numbers)):
            if not given:
                raise invalid(name, "at least one must be given", [], "See `polaug list`.")
        study = cls(found, chosen, numbers, **settings)
        skipped = []
        for method, task in product(chosen, found):
            try:
                check_fit(method, task)
            except InvalidInputError as fault:
                skipped.append((task.name, method.name, str(fault)))
                if len(skipped) == len(chosen) * len(found):
                    raise
        return dataclasses.replace(study, skipped=tuple(skipped))

    def __post_init__(self) -> None:
        check_budget(**self.budget)

    def cells(self) -> list[Cell]:
        """All runs: a whole round of methods and tasks for each seed, so that a study cut short is a smaller study."""
        skipped = {(task, method) for task, method, _ in self.skipped}
        return [
            Cell(task, method, seed)
            for seed in self.seeds
            for task in self.tasks
            for method in self.methods
            if (task.name, method.name) not in skipped
        ]

    @property
    def budget(self) -> dict[str, Any]:
        """What every run of it must have in common."""
        return {"steps": self.steps, "episodes": self.episodes, "every": self.every,
                "eval_episodes": self.eval_episodes, "early_every": self.early_every,
                "confirm_episodes": self.confirm_episodes}  # fmt: skip


def check_budget(
    steps: int | None, episodes: int | None, every: int, eval_episodes: int, early_every: int | None,
    confirm_episodes: int, seed: int = 0,
) -> None:  # fmt: skip
    """Refuse lengths, evaluations and seeds that cannot be."""
    whole("seed", seed, 0)
    if steps is None and episodes is None:
        raise invalid("steps", "steps or episodes must be given", None, "Pass for example steps=20000.")
    for name, value, example in (("steps", steps, 20_000), ("episodes", episodes, 100)):
        if value is not None:
            whole(name, value, 1, example=example)
    whole("every", every, 1, example=1_000)
    whole("eval_episodes", eval_episodes, 1, example=10)
    whole("early_every", early_every or 0, 0, example=EARLY_EVERY)
    whole("confirm_episodes", confirm_episodes, 1, example=CONFIRM_EPISODES)


@contextmanager
def logged(
    run: Path, settings: Mapping[str, Any], folder: str | os.PathLike[str] | None, track: bool
) -> Iterator[Path | None]:
    """The folder for TensorBoard's logs of one run, None if nothing is logged; W&B copies what is written there."""
    if folder is None and not track:
        yield None
        return
    package("tensorboard", "--tensorboard")
    logs = (run if folder is None else Path(folder)) / run.parent.parent.name / run.parent.name
    if not track:
        yield logs
        return
    wandb = package("wandb", "--track")
    name = "/".join(run.parts[-3:])
    config = dict(settings)
    tracked = wandb.init(project="polaug", name=name, config=config, dir=str(logs.parent), sync_tensorboard=True)
    try:
        yield logs
    finally:
        tracked.finish()


def check_logs(folder: object, track: bool) -> None:
    """Refuse what cannot be logged before anything runs."""
    if folder is not None or track:
        package("tensorboard", "--tensorboard")
    if track:
        package("wandb", "--track")


def run_settings(task: Task, method: Method, seed: int, **budgets: Any) -> dict[str, Any]:
    """The content of config.json, as plain data."""
    augmentation = method.augmentation
    settings = method.settings(task)
    explorer = None
    if augmentation is not None:
        given = augmentation.explorer
        explorer = given if isinstance(given, str) else getattr(given, "__qualname__", type(given).__name__)
        settings["augmentation"] = dataclasses.asdict(augmentation) | {"explorer": explorer}
    return task_settings(task) | {
        "kind": "train", "method": method.name, "explorer": explorer,
        "options": {} if augmentation is None else dict(augmentation.explorer_options),
        "settings": settings, "source": method.source, "seed": seed, **budgets,
    }  # fmt: skip


def task_settings(task: Task) -> dict[str, Any]:
    """What config.json says of the task."""
    return {
        "task": task.name, "env_id": task.env_id, "package": task.package or None, "kwargs": dict(task.kwargs),
        "episode_limit": task.episode_limit, "threshold": task.threshold, "success": task.success,
    }  # fmt: skip
