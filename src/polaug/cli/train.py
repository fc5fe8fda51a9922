"""`polaug train`."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import types
import typing
from pathlib import Path
from typing import Annotated, Any

import typer

from polaug.cli import options
from polaug.cli.progress import ProgressDisplay, duration, progress_words
from polaug.cli.study_output import failed, followed
from polaug.config import Augmentation
from polaug.errors import InvalidInputError, PolaugError, invalid
from polaug.study.folder import finished, run_path
from polaug.study.methods import ALGORITHMS, Method, check_fit, method
from polaug.study.pool import Progress
from polaug.study.results import Run
from polaug.study.study import check_budget, check_logs, run_settings
from polaug.study.tasks import task
from polaug.study.wording import counted, number

FLAGS = {field.name: f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Augmentation)}
FLAGS["seed"] = "--explorer-seed"  # --seed is the run's
"""One field of Augmentation, one flag."""
_PANEL = "Augmentation"


def _texts() -> dict[str, str]:
    """The sentence below each field of Augmentation: it is written once, there."""
    body = ast.parse(inspect.getsource(Augmentation)).body[0]
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for node, following in zip(body.body, body.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(following, ast.Expr):
            texts[node.target.id] = str(getattr(following.value, "value", ""))
    return texts


def _with_default(text: str, field: dataclasses.Field[Any]) -> str:
    """The help of a flag: the field's text and its default, without what only Python can pass."""
    text = re.sub(r", or a callable .*\.$", ".", " ".join(text.split()))
    text = text.replace("Anything that acts: the name of an explorer, or", "The name of an explorer, or module:name of")
    if field.default is None:
        return text.replace("None: ", "Default: ")
    return f"{text} Default: {'none' if field.default is dataclasses.MISSING else field.default}."


def _reader(hint: Any) -> tuple[Any, str]:
    """How a flag's text becomes the field's value, and the word for it in `--help`."""
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    known: tuple[tuple[Any, Any, str], ...] = (
        (int, options.whole_number, "N"), (float, float, "X"), (str, str, "NAME"), (Any, _named, "NAME"),
    )  # fmt: skip
    return next(((read, word) for kind, read, word in known if kind in kinds), (options.json_object, "JSON"))


def chosen_method(algo: str, given: dict[str, Any]) -> Method:
    """The method that --algo and the flags of the augmentation mean."""
    found = method(algo)
    if given.get("explorer") == "none":
        if len(given) > 1 or found.augmentation is not None:
            rule = "none takes a plain algorithm and no other setting of the augmentation"
            raise invalid("--explorer", rule, algo, "Pass for example --algo ppo --explorer none.")
        return found
    if found.augmentation is None and found.name in ALGORITHMS and ALGORITHMS[found.name].module.startswith("polaug"):
        if given:
            raise invalid("--algo", "this one is not augmented", algo, "Leave out the flags of the augmentation.")
        return found
    try:
        return found.with_augmentation(**given)
    except InvalidInputError as fault:
        raise _as_flag(fault, given) from fault


def _as_flag(fault: InvalidInputError, given: dict[str, Any]) -> InvalidInputError:
    """The same message with the flag in place of the field, which is what was typed."""
    text = str(fault)
    name = next((name for name in given if text.startswith(f"{name}: ")), None)
    if name is None:
        return fault
    return type(fault)(text.replace(f"{name}: ", f"{FLAGS[name]}: ", 1).replace(f" {name}=", f" {FLAGS[name]} "))


def _named(text: str) -> Any:
    """A name, or an object of the user's own as `module:name`."""
    module, _, name = text.partition(":")
    if not name:
        return text
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as fault:
        raise typer.BadParameter(f"must be a name or module:name, got {text!r} ({fault})") from fault


def _flags() -> type[Any]:
    """A group of options: a flag for each field of Augmentation."""
    texts, hints, made = _texts(), typing.get_type_hints(Augmentation), []
    for field in dataclasses.fields(Augmentation):
        parser, word = _reader(hints[field.name])
        option = options.flag(_with_default(texts[field.name], field), word, FLAGS[field.name], parser=parser,
                              show_default=False, rich_help_panel=_PANEL)  # fmt: skip
        made.append((f"augmentation_{field.name}", Annotated[Any, option], dataclasses.field(default=None)))
    return dataclasses.make_dataclass("Flags", made)


Flags: Any = _flags()


@options.grouped
def train(
    env: options.Env = None,
    more_envs: options.MoreEnvs = None,
    algo: options.Algo = "ppo",
    seed: options.Seed = 0,
    *,
    budget: options.Budget,
    settings: options.Settings,
    logs: options.Logs,
    augmentation: Flags,
    out: options.Out = Path("runs/train"),
) -> int:
    """Train one agent and save its model, its run and a report.

    --algo takes an algorithm, such as ppo, dqn or sac, which is then augmented, or a method of `polaug list`.
    --explorer none trains the plain agent. Each setting of polaug.Augmentation is a flag; the defaults suit most tasks.

    Examples:
      polaug train MountainCar-v0
      polaug train CartPole-v1 --algo dqn --explorer optimistic --steps 20000 --seed 3
      polaug train Pendulum-v1 --algo sac --explorer none -p learning_rate:1e-3 --n-envs 2
    """
    check_logs(logs.tensorboard, logs.track)
    (name,) = options.envs(env, more_envs, many=False)
    found, given = settings.task(task(name)), dataclasses.asdict(augmentation)
    given = {key.removeprefix("augmentation_"): value for key, value in given.items() if value is not None}
    chosen = settings.method(chosen_method(algo, given), found)
    check_fit(chosen, found)
    length = budget.settings()
    check_budget(**length, seed=seed)
    wanted = run_settings(found, chosen, seed, **length)
    path = run_path(out, found.name, chosen.name, seed)
    before = finished(path, wanted)  # raises an error for files that polaug did not write
    label = f"{found.name} · {chosen.name} · seed {seed}"
    try:
        with followed(out, logs.live), ProgressDisplay() as shown:
            shown.say(f"{label}: starting")
            from polaug.study.train import train

            def progress(step: Progress) -> None:
                shown.update(label, step.step / max(step.steps, 1), [progress_words(step)])

            result = train(
                found, chosen, seed=seed, out=out, save_model=True, progress=progress, tensorboard=logs.tensorboard,
                track=logs.track, **length,
            )  # fmt: skip
    except PolaugError:
        raise
    except Exception as fault:  # of the environment; `train` has written failed.json if it could
        if not (path / "failed.json").exists():
            raise
        print(failed(label, f"{type(fault).__name__}: {fault}", path), file=sys.stderr)
        return 1
    _print_summary(result, before)
    return 0


def _print_summary(result: Run, before: bool) -> None:
    from polaug.report import write_report

    path, done = result.path, result.done
    try:
        report = f"report: {write_report(path)}"
    except PolaugError as fault:  # the run itself is complete
        report = f"No report: {fault}"
    steps, episodes = counted(done["steps"], "step"), counted(done["episodes"], "episode")
    guided = f", {done['explorer_share']:.0%} of the steps by the guide" if done["explorer_share"] else ""
    compiled = done["compile_seconds"]
    took = duration(done["seconds"]) + (f" and {duration(compiled)} to compile, once" if compiled >= 1.0 else "")
    print(f"{result.task}, {result.method}, seed {result.seed}: {steps} in {took}, {episodes}{guided}")
    if before:
        print("this run was already finished and is not repeated. Use another --seed or --out for a new run.")
    print(f"agent alone: {_level(result)}")
    if (path / "model.zip").exists():
        print(f"model: {path / 'model.zip'}")
    else:
        print("no model: this finished run was not started by `polaug train`. Use another --seed or --out.")
    print(f"run: {path}")
    print(report)


def _level(result: Run) -> str:
    """The final level, when the task was solved, and whether the level was kept."""
    from polaug.study.levels import reached

    found, goal = reached(result), result.threshold
    episodes = result.config["confirm_episodes"]
    level = f"mean return {number(found.final)} over {counted(episodes, 'episode')} at the end"
    if goal is None:
        return level
    if not found.solved:
        return f"{level}; not solved (threshold {number(goal)})"
    kept = f"{'' if found.kept else 'not '}kept over the next {number(found.watched)} steps"
    after = "" if found.kept is None else f"; {kept}"
    return f"{level}; solved (threshold {number(goal)}) after {found.steps:,} steps{after}"
