"""Options that several commands share, how their values are read, and what the Tab key offers for them."""

from __future__ import annotations

import difflib
import inspect
import json
import os
import typing
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from decimal import Decimal
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import gymnasium as gym
import typer

from polaug import checks
from polaug.cli.hyperparams import read_file, read_pairs
from polaug.errors import InvalidInputError, UnknownNameError, invalid
from polaug.explorers import METHODS as EXPLORERS
from polaug.study import CLASSIC, PAPER, TASKS, Task
from polaug.study.levels import CONFIRM_EPISODES, EARLY_EVERY, EARLY_STEPS
from polaug.study.methods import METHODS, Method

SUITES = {"classic": [each.name for each in CLASSIC], "paper": [each.name for each in PAPER]}
DEVICES = ("auto", "cpu", "cuda", "mps")
_CORES = os.cpu_count() or 1


# -- values -----------------------------------------------------------------------------------------------------------


def whole_number(text: str | int) -> int:
    """`10000`, `10_000` or `1e4`. The function that uses the value checks its minimum."""
    with suppress(ArithmeticError):
        value = Decimal(text)
        if value % 1 == 0 and abs(value) < 2**53:
            return int(value)
    raise typer.BadParameter(f"must be a whole number, got {text!r}")


def json_object(text: str) -> dict[str, Any]:
    """A dict written as JSON."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as fault:
        example = """'{"gamma": 0.98}'"""
        raise typer.BadParameter(f"must be a JSON object like {example}, got {text!r} ({fault})") from fault


def names(given: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in given.split(",") if name.strip()]


def _offer(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completion: names that begin like the last one of a comma-separated list."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known() if name.startswith(last)]

    return complete


# -- options ----------------------------------------------------------------------------------------------------------


def flag(text: str, metavar: str, *names: str, **more: Any) -> Any:
    """An option with its help, the word that stands for its value there, and its names."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


def whole(text: str, *names: str) -> Any:
    """A flag that takes a whole number."""
    return flag(text, "N", *names, parser=whole_number)


def _env(text: str, known: Callable[[], Iterable[str]]) -> Any:
    help_ = f'Task or Gymnasium id; "package:Id-v0" imports package first. {text}'
    return typer.Argument(metavar="ENV", help=help_, autocompletion=_offer(known))


def _every_task() -> list[str]:
    return [*SUITES, *TASKS]


_METHODS = _offer(lambda: METHODS)
Env: TypeAlias = Annotated[list[str] | None, _env("`polaug list` shows the tasks.", lambda: TASKS)]
Envs: TypeAlias = Annotated[list[str] | None, _env("classic and paper are suites of tasks.", _every_task)]
MoreEnvs: TypeAlias = Annotated[
    list[str] | None, flag("Same as the argument ENV.", "ENV", "--env", autocompletion=_offer(_every_task))
]
Algo: TypeAlias = Annotated[
    str, flag("Algorithm or method. `polaug list` shows them.", "NAME", autocompletion=_METHODS)
]
Methods: TypeAlias = Annotated[
    str, flag("Methods, separated by commas. `polaug list` shows them.", "NAME[,NAME]", autocompletion=_METHODS)
]
Explorers: TypeAlias = Annotated[
    str, flag("Explorers, separated by commas.", "NAME[,NAME]", "--explorer", autocompletion=_offer(lambda: EXPLORERS))
]
Seeds: TypeAlias = Annotated[int, whole("Number of seeds.")]
Seed: TypeAlias = Annotated[int, whole("Seed; where there are several runs, that of the first.")]
Out: TypeAlias = Annotated[Path, flag("Folder for the results.", "DIR")]


@dataclass(frozen=True)
class Budget:
    """How long a run is, and how often its agent is evaluated."""

    steps: Annotated[int | None, whole("Minimum number of steps of a run; 20,000 unless --episodes is given.")] = None
    episodes: Annotated[int | None, whole("Minimum number of episodes of a run.")] = None
    every: Annotated[int, whole("Steps between evaluations.", "--every", "--eval-freq")] = 1_000
    early_every: Annotated[
        int, whole(f"Steps between evaluations in the first {EARLY_STEPS:,} steps; 0: as --every.")
    ] = EARLY_EVERY
    eval_episodes: Annotated[int, whole("Episodes per evaluation.")] = 10
    confirm_episodes: Annotated[int, whole("Episodes from fresh starts to confirm that a task is solved.")] = (
        CONFIRM_EPISODES
    )

    def settings(self, steps: int | None = None, episodes: int | None = None) -> dict[str, Any]:
        """As `train` and `Study.of` take them; by default `steps` and `episodes`, or 20,000 steps."""
        given = asdict(self)
        given["episodes"] = episodes if self.episodes is None else self.episodes
        given["steps"] = steps if self.steps is None else self.steps
        return given if (given["steps"], given["episodes"]) != (None, None) else given | {"steps": 20_000}


@dataclass(frozen=True)
class Settings:
    """Changed settings of environments and agents. They become part of their names."""

    n_envs: Annotated[int | None, whole("Number of parallel environments.")] = None
    env_kwargs: Annotated[Any, flag("Keyword arguments for gymnasium.make.", "JSON", parser=json_object)] = None
    hyperparams: Annotated[Path | None, flag("YAML file: a flat table, or RL Zoo's format.", "FILE")] = None
    param: Annotated[list[str] | None, flag("One hyperparameter. Can be repeated.", "NAME:VALUE", "-p", "--param")] = (
        None
    )
    device: Annotated[str | None, flag("cpu (default), cuda, mps or auto.", "NAME")] = None

    def task(self, found: Task) -> Task:
        """The task with other arguments of its environment."""
        if not self.env_kwargs:
            return found
        words = ",".join(f"{key}={value}" for key, value in sorted(self.env_kwargs.items()))
        kwargs = tuple((dict(found.kwargs) | self.env_kwargs).items())
        return replace(found, name=f"{found.name}[{words}]", kwargs=kwargs)

    def method(self, found: Method, task: Task) -> Method:
        """The method with the hyperparameters that were given."""
        if self.device is not None:
            checks.choice("device", self.device.partition(":")[0], DEVICES)
        given = {} if self.hyperparams is None else read_file(self.hyperparams, task.env_id)
        given |= read_pairs(self.param or ())
        if self.n_envs is not None:
            checks.whole("--n-envs", self.n_envs, 1)
        one = {"n_envs": self.n_envs, "device": self.device}
        return found.with_settings(**given | {name: value for name, value in one.items() if value is not None})


@dataclass(frozen=True)
class Logs:
    """Other places to log to."""

    tensorboard: Annotated[Path | None, flag("Folder for TensorBoard logs.", "DIR")] = None
    track: Annotated[bool, typer.Option("--track", help="Log to Weights & Biases (needs wandb).")] = False
    live: Annotated[bool, typer.Option("--live", help="Show the runs on a local page while they train.")] = False


@dataclass(frozen=True)
class Machines:
    """Where the runs of a study run."""

    workers: Annotated[int, whole("Number of runs at a time.")] = _CORES
    backend: Annotated[str, flag("local (this machine) or ray (a Ray cluster).", "NAME")] = "local"
    address: Annotated[
        str | None, flag("Address of the Ray cluster. Without it Ray starts on this machine.", "ADDR")
    ] = None


def grouped(function: Callable[..., int]) -> Callable[..., int]:
    """The command with the fields of its option groups, which are dataclasses, as options of its own."""
    hints = typing.get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    for kind in groups.values():
        hints |= typing.get_type_hints(kind, include_extras=True)
    own = [
        part.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[part.name])
        for name, parameter in inspect.signature(function).parameters.items()
        for part in (inspect.signature(groups[name]).parameters.values() if name in groups else [parameter])
    ]

    @wraps(function)
    def command(**given: Any) -> int:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return function(**given)

    command.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in own}
    return command


# -- names that were given --------------------------------------------------------------------------------------------


def envs(given: list[str] | None, more: list[str] | None, *, many: bool = True) -> list[str]:
    """The environments that were given; a suite becomes the list of its tasks."""
    found = [name for word in [*(given or []), *(more or [])] for name in (_suite(word) if many else [word])]
    if not found:
        raise InvalidInputError("ENV: none was given. For example MountainCar-v0; `polaug list` shows more.")
    if not many and len(found) > 1:
        raise invalid("ENV", "one at a time", found, "`polaug compare` takes several.")
    return found


def _suite(word: str) -> list[str]:
    """The tasks of a suite, or the one task; a misspelt task is found when it is looked up."""
    near = difflib.get_close_matches(word.casefold(), SUITES, n=1, cutoff=0.75)
    if near and word not in (*SUITES, *TASKS, *gym.registry):
        raise UnknownNameError(f"ENV: no suite and no task is called {word!r}. Did you mean the suite {near[0]!r}? "
                               "`polaug list` shows the tasks.")  # fmt: skip
    return SUITES.get(word, [word])
