"""Train one agent, augmented unless told otherwise, and keep its model, its run and a report.

--algo takes an algorithm (ppo, dqn, sac …), which is then augmented, or any method of `polaug list`. Each setting of
polaug.Augmentation is a flag; --explorer none trains the plain agent.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

from polaug.cli.arguments import (
    add_budget,
    add_envs,
    add_out,
    add_seed,
    any_whole_number,
    budget,
    check_out,
    described,
    envs,
)
from polaug.cli.ending import failed
from polaug.cli.progress import clock, number, training
from polaug.config import Augmentation
from polaug.errors import InvalidInputError, PolaugError, invalid
from polaug.study.folder import finished, run_path
from polaug.study.methods import ALGORITHMS, Method, check_fit, method
from polaug.study.study import run_settings
from polaug.study.tasks import task
from polaug.study.wording import counted

_EXAMPLE = """examples:
  polaug train MountainCar-v0
  polaug train CartPole-v1 --algo dqn --explorer optimistic --steps 20000 --seed 3
  polaug train Pendulum-v1 --algo sac --explorer none"""

FLAGS = {field.name: f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Augmentation)}
FLAGS["seed"] = "--explorer-seed"  # --seed is the run's
"""One field of Augmentation, one flag."""


def add_parser(commands: Any) -> None:
    """`polaug train`."""
    parser = commands.add_parser("train", **described(f"{__doc__}\n{_EXAMPLE}"))
    add_envs(parser, many=False)
    parser.add_argument("--algo", default="ppo", metavar="NAME", help="algorithm or method (%(default)s)")
    add_seed(parser)
    add_budget(parser, steps=20_000)
    add_out(parser, "runs/train")
    settings = parser.add_argument_group("augmentation (every default is meant to be left alone)")
    texts, hints = _texts(), typing.get_type_hints(Augmentation)
    for field in dataclasses.fields(Augmentation):
        kind = _reader(hints[field.name])
        settings.add_argument(
            FLAGS[field.name], dest=f"augmentation_{field.name}", type=kind, default=None, metavar=_word(kind),
            help=_with_default(texts[field.name], field).replace("%", "%%"),
        )  # fmt: skip
    parser.set_defaults(command=run, interrupted="the run is not finished, and the same command starts it anew")


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
    """The sentence, and what it means to leave the flag out; a function cannot be typed."""
    text = re.sub(r", or a callable .*\.$", ".", text)
    if field.default is None:
        return text.replace("None: ", "Default: ")
    return f"{text} Default: {'none' if field.default is dataclasses.MISSING else field.default}."


def _reader(hint: Any) -> Any:
    """How a flag's text becomes the field's value."""
    options = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    for kind, read in ((int, any_whole_number), (float, float), (str, str)):
        if kind in options:
            return read
    return _options


def _word(kind: Any) -> str:
    return {any_whole_number: "N", float: "X", str: "NAME"}.get(kind, "JSON")


def _options(text: str) -> dict[str, Any]:
    """A dict written as JSON."""
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as fault:
        example = """'{"gamma": 0.98}'"""
        raise argparse.ArgumentTypeError(f"must be a JSON object like {example}, got {text!r} ({fault})") from fault


def chosen_method(args: argparse.Namespace) -> Method:
    """The method that --algo and the flags mean."""
    given = {name: value for name in FLAGS if (value := getattr(args, f"augmentation_{name}")) is not None}
    found = method(args.algo)
    if given.get("explorer") == "none":
        if len(given) > 1 or found.augmentation is not None:
            raise invalid("--explorer", "none leaves nothing to set", args.algo, "Name a plain algorithm, and no more.")
        return found
    if found.augmentation is None and found.name in ALGORITHMS and ALGORITHMS[found.name].module.startswith("polaug"):
        if given:
            raise invalid("--algo", "this one is not augmented", args.algo, "Leave out the flags of the augmentation.")
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


def run(args: argparse.Namespace) -> int:
    """Train, and say where everything is; gives the exit code."""
    found = task(envs(args)[0])
    if len(envs(args)) > 1:
        raise invalid("ENV", "one at a time", envs(args), "`polaug compare` takes several.")
    chosen = chosen_method(args)
    check_fit(chosen, found)
    path = run_path(args.out, found.name, chosen.name, args.seed)
    before = finished(path, run_settings(found, chosen, args.seed, **budget(args)))  # refuses a folder of others
    check_out(args.out)
    label = f"{found.name} · {chosen.name} · seed {args.seed}"
    try:
        with training(label) as progress:
            from polaug.study.train import train

            result = train(
                found, chosen, seed=args.seed, out=args.out, save_model=True, progress=progress,
                **budget(args),
            )  # fmt: skip
    except PolaugError:
        raise
    except Exception as fault:  # whatever an environment raises; `train` has written it down, unless it could not
        if not (path / "failed.json").exists():
            raise
        print(failed(label, f"{type(fault).__name__}: {fault}", path), file=sys.stderr)
        return 1
    from polaug.report import write_report

    try:
        report = f"report: {write_report(path)}"
    except PolaugError as fault:  # the run is safe, whatever can be drawn of it
        report = f"No report: {fault}"
    evaluations, done = result.evaluations, result.done
    assert evaluations is not None  # training always evaluates
    steps, episodes = counted(done["steps"], "step"), counted(done["episodes"], "episode")
    print(f"{found.name}, {chosen.name}, seed {args.seed}: {steps} in {clock(done['seconds'])}, "
          f"{episodes}, the explorer drove {done['explorer_share']:.0%} of the steps")  # fmt: skip
    if before:
        print("this run was finished before and is not repeated; --seed or --out for another")
    print(f"agent alone: {number(float(evaluations.means[-1]))} in the end{_solved(result)}")
    print(_model(path / "model.zip"))
    print(f"run: {path}")
    print(report)
    return 0


def _model(file: Path) -> str:
    if file.exists():
        return f"model: {file}"
    return "no model: this run was finished by something that kept none; --seed or --out trains another"


def _solved(result: Any) -> str:
    """When the threshold was first reached, and whether the level was kept."""
    from polaug.study.survival import kept, watched
    from polaug.study.wording import tolerance

    steps, means = result.evaluations.steps, result.evaluations.means
    if result.threshold is None:
        return f", {number(float(means.max()))} at best"
    good, goal = steps[means >= result.threshold], number(result.threshold)
    if not len(good):
        return f", never solved ({goal})"
    still, seen = kept(steps, means, result.threshold), watched(steps, means, result.threshold)
    rule = "" if still is None else tolerance(result.threshold, (seen, seen), still)
    after = rule and f" {'and kept' if still else 'but lost again'}, {rule}"
    return f", first solved ({goal}) after {int(good[0]):,} steps{after}"
