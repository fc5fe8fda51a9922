"""A saved agent opened for play: which algorithm wrote the file, which task it belongs to, and who is inside it.

Stable-Baselines3's zip holds pickles: open only files that you trust. The augmentation's part of it holds none.
"""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from polaug.errors import PolaugError, StateError, invalid, unknown
from polaug.exploration import Explorer
from polaug.integrations import augment
from polaug.study.agents import agent_class
from polaug.study.methods import ALGORITHMS
from polaug.study.normalization import NORMALIZATION, read_normalization
from polaug.study.tasks import Task, task

# SB3 does not store the class, but what it stores gives the class away; the first that is there decides. A saved DDPG
# cannot be told from a TD3, and plays the same as one.
_SIGNS = (
    ("cg_max_steps", "trpo"), ("top_quantiles_to_drop_per_net", "tqc"), ("n_quantiles", "qrdqn"),
    ("exploration_fraction", "dqn"), ("policy_delay", "td3"), ("target_entropy", "sac"), ("clip_range", "ppo"),
    ("gae_lambda", "a2c"),
)  # fmt: skip

_LISTED = 5  # models that a message names


@dataclass(frozen=True)
class Players:
    """Who can play: the agent without exploration noise, and the explorer if the file has one that steers."""

    algorithm: str
    agent: Callable[[Any], Any]
    """One observation in, one action out."""
    explorer: Explorer | None
    missing: str
    """Why there is no explorer; empty if there is one."""


def find_file(model: str | os.PathLike[str]) -> Path:
    """The zip that `model` means: a file, a file without its ending, or a run folder with model.zip in it."""
    path = Path(model)
    for candidate in (path / "model.zip", path, path.with_name(f"{path.name}.zip")):
        if candidate.is_file():
            return candidate
    if not path.is_dir():
        rule, remedy = "must be a saved agent, but there is no such file", "Check the path, or train one first."
    else:
        rule = "must be a saved agent, but the folder has no model.zip"
        remedy = _below(path) or "`polaug train` saves one, and so does `polaug compare` with --save-models."
    raise invalid("model", rule, str(model), remedy)


def _below(folder: Path) -> str:
    """The models in the folders below, by their run folders; empty if there are none."""
    found = sorted(str(file.parent) for file in folder.rglob("model.zip"))
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"Below it there {'is' if len(found) == 1 else 'are'} {', '.join(found[:_LISTED])}{more}." if found else ""


def find_task(file: Path, env: str | Task | None) -> Task:
    """The task called `env`; by default the one named in the config.json that `polaug train` writes beside the file."""
    if env is not None:
        return task(env)
    config = file.parent / "config.json"
    try:
        settings = json.loads(config.read_text("utf-8"))
        found = Task(
            str(settings["task"]), str(settings["env_id"]), tuple(dict(settings.get("kwargs") or {}).items()),
            settings.get("episode_limit"), settings.get("threshold"), package=str(settings.get("package") or ""),
        )  # fmt: skip
    except FileNotFoundError:
        rule = "must be named, since a saved agent does not say where it was trained"
        raise invalid("env", rule, None, "Pass for example --env MountainCar-v0 (in Python: env=).") from None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise StateError(f"model: {config} is damaged ({fault!r}). Name the environment with --env.") from fault
    scaled = dict(settings.get("settings") or {}).get("normalize") and not file.with_name(NORMALIZATION).is_file()
    if scaled:
        raise StateError(
            f"model: {file} saw scaled observations in training, and {NORMALIZATION} is missing beside it."
        )
    if not found.package and found.env_id not in gym.registry:
        rule = f"{config} names {found.env_id}, which no imported package registers"
        raise invalid("env", rule, found.name, f'Pass --env "package:{found.env_id}" with the package that does.')
    return found


def algorithm_of(file: Path) -> str:
    """The name of the algorithm that saved `file`, from the names of its entries; nothing in it is unpickled."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as fault:
        raise StateError(f"model: {file} is damaged, or no agent saved by model.save() ({fault}).") from fault
    policy = entries.get("policy_class", {})
    module = str(policy.get("__module__", "")) if isinstance(policy, dict) else ""
    for word in ("recurrent", "maskable"):
        if word in module:
            raise invalid("model", f"{word} agents cannot be watched", str(file), "Save another kind of agent.")
    if module.startswith("polaug.baselines"):
        return "atta2c"
    for sign, name in _SIGNS:
        if sign in entries:
            return name
    raise invalid("algo", "must be named, since the file's entries are of no known algorithm", None,
                  f"Pass --algo with one of {', '.join(ALGORITHMS)}.")  # fmt: skip


def open_players(
    file: Path, found: Task, *, algo: str | None = None, vecnormalize: str | os.PathLike[str] | None = None
) -> Players:
    """Load the agent and its explorer; `vecnormalize` is a pickle of SB3's VecNormalize, read only if you name it."""
    name = algorithm_of(file) if algo is None else algo
    if name not in ALGORITHMS:
        raise unknown("algo", name, ALGORITHMS)
    try:
        cls = agent_class(name)
    except ImportError as fault:
        rule = f"{ALGORITHMS[name].cls} needs {ALGORITHMS[name].module}"
        raise invalid("model", rule, str(file), "pip install sb3-contrib.") from fault
    venv: Any = DummyVecEnv([found.make])
    try:
        venv, normalizes = _normalized(file, vecnormalize, venv)
        model, missing = _load(augment(cls), file, venv, found)
    finally:
        venv.close()

    def act(observation: Any) -> Any:
        seen = venv.normalize_obs(np.asarray(observation)) if normalizes else observation
        action, _ = model.predict(seen, deterministic=True)
        return action

    explorer: Explorer | None = model.explorer
    if explorer is not None and not explorer.steers:
        explorer, missing = None, "its explorer pays bonuses and never drives"
    return Players(ALGORITHMS[name].cls, act, explorer, missing)


def _load(cls: Any, file: Path, venv: Any, found: Task) -> tuple[Any, str]:
    """The agent, with its explorer if that is possible, and otherwise the reason why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about devices and versions: nothing is trained here
            try:
                model = cls.load(file, env=venv, device="cpu")
            except StateError as fault:  # an explorer of the user's own, whose code is not in the file
                return cls.load(file, env=venv, device="cpu", augmentation=None), str(fault)
    except StateError as fault:
        raise StateError(f"model: {file} cannot be loaded ({fault})") from fault
    except PolaugError:
        raise
    except ValueError as fault:
        if "spaces do not match" not in str(fault):
            raise StateError(f"model: {file} cannot be loaded ({fault}).") from fault
        remedy = "Name the environment it was trained on; under VecNormalize, pass its statistics as vecnormalize."
        raise invalid("env", f"is another one than the agent's ({fault})", found.name, remedy) from fault
    except (OSError, EOFError, KeyError, AttributeError, ImportError, RuntimeError, AssertionError) as fault:
        raise StateError(f"model: {file} cannot be loaded ({type(fault).__name__}: {fault}).") from fault
    return model, "" if getattr(model, "_polaug", None) is not None else "the agent was saved without one"


def _normalized(file: Path, pickled: str | os.PathLike[str] | None, venv: DummyVecEnv) -> tuple[Any, bool]:
    """The environment, and whether it normalises: by a pickle that was named, or by plain arrays beside the agent."""
    plain = file.with_name(NORMALIZATION)
    if pickled is None:
        return (read_normalization(plain, venv), True) if plain.is_file() else (venv, False)
    try:
        loaded = VecNormalize.load(str(pickled), venv)
    except Exception as fault:  # a pickle of something else can fail in any way
        rule = f"must be a file saved by VecNormalize.save() ({type(fault).__name__}: {fault})"
        raise invalid("vecnormalize", rule, str(pickled), "Pass the one saved with this agent.") from fault
    loaded.training = False
    return loaded, True
