"""What is compared: a method is an algorithm, its hyperparameters and its augmentation, under one short name.

ALGO[-tuned|-strong][+EXPLORER[:TRANSFER]]: `ppo` has Stable-Baselines3's defaults, `-tuned` takes RL Baselines3 Zoo's
settings of the task, `-strong` one setting for all tasks that learns faster than the defaults. EXPLORER is
`pa` (polaug's default), `pa-paper` (as printed) or the name of an explorer. METHODS holds those with a line in
`polaug list`. No agent is imported here; agents.py builds them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from gymnasium import spaces

from polaug.config import Augmentation
from polaug.errors import InvalidInputError, PolaugError, UnsupportedSpaceError, invalid, unknown
from polaug.explorers import ALIASES, Explorer, make_explorer
from polaug.explorers import METHODS as EXPLORERS
from polaug.study.tasks import Task

_ANY = (spaces.Discrete, spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass(frozen=True)
class Algorithm:
    """Where a training algorithm's class is, what it is called, and which actions it can take."""

    module: str
    cls: str
    actions: tuple[type[Any], ...]
    bounded: int = 0
    """Observations must be a vector with bounds of at most so many numbers; 0: of any kind."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it is always built with, in the vocabulary of hyperparameters.py."""


ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm("stable_baselines3", "PPO", _ANY),
    "a2c": Algorithm("stable_baselines3", "A2C", _ANY),
    "dqn": Algorithm("stable_baselines3", "DQN", (spaces.Discrete,)),
    "sac": Algorithm("stable_baselines3", "SAC", (spaces.Box,)),
    "td3": Algorithm("stable_baselines3", "TD3", (spaces.Box,)),
    "ddpg": Algorithm("stable_baselines3", "DDPG", (spaces.Box,)),
    "qrdqn": Algorithm("sb3_contrib", "QRDQN", (spaces.Discrete,)),
    "trpo": Algorithm("sb3_contrib", "TRPO", _ANY),
    "tqc": Algorithm("sb3_contrib", "TQC", (spaces.Box,)),
    "crossq": Algorithm("sb3_contrib", "CrossQ", (spaces.Box,)),
    "sarsa-tiles": Algorithm("polaug.baselines.tiles", "TileSarsa", (spaces.Discrete,), bounded=4),
    "atta2c": Algorithm("polaug.baselines.atta2c", "AttA2C", _ANY, settings={"n_envs": 4, "curiosity": False}),
    "atta2c-curious": Algorithm("polaug.baselines.atta2c", "AttA2C", _ANY, settings={"n_envs": 4, "curiosity": True}),
}
_REFERENCES = {
    "atta2c": ("attention A2C of Reizinger and Szemenyei (2020), as in their public code",
               "Reizinger and Szemenyei, ICASSP 2020"),
    "atta2c-curious": ("attention A2C of Reizinger and Szemenyei (2020), with the intrinsic reward of their paper",
                       "Reizinger and Szemenyei, ICASSP 2020"),
    "crossq": ("CrossQ at sb3-contrib's defaults: batch normalisation in place of target networks",
               "Bhatt et al., ICLR 2024; sb3-contrib's defaults"),
    "sarsa-tiles": ("Sarsa(λ) with 16 tilings of 8 tiles per dimension, for small bounded observations",
                    "Sutton and Barto, Reinforcement Learning, 2018, sections 10.1 and 12.7; tuned on MountainCar"),
}  # fmt: skip
"""Agents that are not augmented, for comparison: description and source of the settings."""


SOURCE = "RL Baselines3 Zoo, hyperparams/{algo}.yml at 22e3ff2"
TUNED: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("hyperparameters.yml").read_text("utf-8")
)
"""RL Baselines3 Zoo's settings, by algorithm and Gymnasium id."""

STRONG: dict[str, dict[str, Any]] = {
    "dqn": {
        "n_steps": 3, "train_freq": 1, "gradient_steps": 1, "tau": 0.005, "target_update_interval": 1,
        "learning_rate": 5e-4, "policy_kwargs": {"net_arch": [256, 256]},
    },
}  # fmt: skip
"""One setting for all tasks. DQN: n-step returns of Rainbow (Hessel et al., 2018), soft target updates and an update at
every step of DDPG (Lillicrap et al., 2016), the Zoo's network; the rate is the middle of those that the Zoo uses."""

_LIKE = {"polaug/PaperMountainCar-v0": "MountainCar-v0"}  # the same car, another reward at the flag
OTHER_SETTINGS = ("n_envs", "normalize", "noise", "device")
"""Settings that are no parameters of an agent's class; hyperparameters.yml explains them."""


def tuned(algo: str, env_id: str) -> dict[str, Any] | None:
    """The Zoo's settings of an algorithm on an environment; None where it has none."""
    found = TUNED.get(algo, {}).get(_LIKE.get(env_id, env_id))
    return None if found is None else dict(found)


def check_names(cls: type[Any], settings: Mapping[str, Any]) -> None:
    """Refuse a hyperparameter that the class of the agent does not have; a typo gets the nearest one."""
    known = [name for name in inspect.signature(cls).parameters if name not in ("policy", "env", "_init_setup_model")]
    for name in settings:
        if name not in (*known, *OTHER_SETTINGS):
            raise unknown(f"hyperparameter of {cls.__name__}", name, {*known, *OTHER_SETTINGS})


@dataclass(frozen=True)
class Method:
    """One row of a comparison."""

    name: str
    algo: str
    description: str
    tuned: bool = False
    augmentation: Augmentation | None = None
    """None is the plain agent."""
    source: str = ""
    """Where its settings come from."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters that hold on every task, in place of the algorithm's and the Zoo's."""

    def settings(self, task: Task) -> dict[str, Any]:
        """Hyperparameters on `task`, as plain data; all others have the algorithm's defaults."""
        found = tuned(self.algo, task.env_id) if self.tuned else {}
        if found is None:
            rule = f"the Zoo has no tuned {self.algo} for {task.env_id}"
            raise invalid("method", rule, self.name, f"Compare with {self.algo}.")
        return dict(ALGORITHMS[self.algo].settings) | found | dict(self.overrides)

    def with_augmentation(self, **changes: Any) -> Method:
        """The same with other settings of its augmentation, which become part of its name."""
        if self.augmentation is None:
            return _made(self.algo, self.variant, "pa").with_augmentation(**changes)
        base = self.augmentation
        given = {name: value for name, value in changes.items() if value != getattr(base, name)}
        if not given:
            return self
        words = ",".join(f"{key}={getattr(value, '__qualname__', value)}" for key, value in sorted(given.items()))
        return dataclasses.replace(self, name=f"{self.name}[{words}]", augmentation=dataclasses.replace(base, **given))

    def with_settings(self, **given: Any) -> Method:
        """The same with other hyperparameters on every task, which become part of its name."""
        if not given:
            return self
        from polaug.study.agents import agent_class  # torch comes with it: only where hyperparameters are given

        check_names(agent_class(self.algo), given)
        words = ",".join(f"{key}={value}" for key, value in sorted(given.items()))
        return dataclasses.replace(self, name=f"{self.name}[{words}]", overrides={**self.overrides, **given})

    @property
    def variant(self) -> str:
        """`-tuned`, `-strong` or nothing."""
        strong = self.algo in STRONG and self.overrides == STRONG[self.algo]
        return "-tuned" if self.tuned else "-strong" if strong else ""

    @property
    def pays(self) -> bool:
        """Whether the agent sees a bonus on top of the rewards."""
        explorer = None if self.augmentation is None else self.augmentation.explorer
        cls = EXPLORERS.get(explorer) if isinstance(explorer, str) else None
        return self.algo == "atta2c-curious" or (cls is not None and cls.pays)


OWN_FEATURES = "docs/how-to/own-features.md"
_OURS = "polaug"
_PAPER = "Mahyari, Policy Augmentation, ICASSP 2021"
_SB3 = "Stable-Baselines3's defaults"
_STRONG = "polaug.study.methods.STRONG: Rainbow's n-step returns, DDPG's soft target updates, RL Zoo's network"
_WHO = {
    "pa": ("guided by polaug's default explorer", {}),
    "pa-paper": ("augmented as printed in the paper", {"explorer": "paper", "transfer": "as_published"}),
}  # fmt: skip
_PAID = {
    "counting": "with a bonus for rarely seen states (SimHash counts)",
    "rnd": "with a bonus from random network distillation (RND)",
    "icm": "with a bonus for prediction errors (ICM)",
}


_VARIANTS = {
    "": ("at Stable-Baselines3's defaults", _SB3, ""),
    "-tuned": ("with RL Baselines3 Zoo's settings", SOURCE, "the Zoo's "),
    "-strong": ("with one setting for all tasks: n-step returns, an update every step, soft target updates, a wider "
                "network", _STRONG, "strong "),
}  # fmt: skip
"""What a variant is described by, the source of its settings, and the words before the name of its agent."""


def _made(algo: str, variant: str = "", who: str = "", transfer: str = "") -> Method:
    """The method called ALGO VARIANT +WHO :TRANSFER."""
    words, source, kind = _VARIANTS[variant]
    cls, source, augmentation = ALGORITHMS[algo].cls, source.format(algo=algo), None
    name, description = f"{algo}{variant}", f"{cls} {words}"
    if who:
        how, options = _WHO.get(who, (_PAID.get(who, f"augmented by the explorer {who!r}"), {"explorer": who}))
        description = f"{kind}{cls} {how}{f', taught by {transfer!r}' if transfer else ''}"
        source = source if variant else _PAPER if who == "pa-paper" else _OURS
        name = f"{name}+{who}{f':{transfer}' if transfer else ''}"
        given: dict[str, Any] = options | ({"transfer": transfer} if transfer else {})
        augmentation = Augmentation(**given)
    elif algo in _REFERENCES:
        description, source = _REFERENCES[algo]
    overrides = STRONG[algo] if variant == "-strong" else {}
    return Method(name, algo, description, variant == "-tuned", augmentation, source, overrides)


def _listed() -> Iterable[Method]:
    for algo in ALGORITHMS:
        yield _made(algo)
        if algo in _REFERENCES:
            continue
        for variant, known in (("-tuned", TUNED), ("-strong", STRONG)):
            if algo in known:
                yield _made(algo, variant)
        yield _made(algo, "", "pa")
        if algo in ("ppo", "dqn"):
            yield _made(algo, "", "pa-paper")
        if algo == "ppo":
            yield from (_made(algo, "", who) for who in _PAID)
            yield from (_made(algo, "-tuned", who) for who in ("rnd", "icm"))


_ALL = "`polaug list`"
METHODS: dict[str, Method] = {each.name: each for each in _listed()}


def method(name: str | Method) -> Method:
    """The method called `name`; a typo gets the nearest one."""
    if isinstance(name, Method):
        return name
    if name in METHODS:
        return METHODS[name]
    words = r"(?P<algo>[a-z0-9]+)(?P<variant>-tuned|-strong)?\+(?P<who>[\w\-]+)(:(?P<transfer>\w+))?"
    parts = re.fullmatch(words, str(name))
    plain = [algo for algo in ALGORITHMS if algo not in _REFERENCES]
    if parts is None or parts["algo"] not in plain or (parts["variant"] == "-strong" and parts["algo"] not in STRONG):
        raise unknown("method", name, METHODS, _ALL)
    if parts["who"] not in (*_WHO, *_PAID, *EXPLORERS, *ALIASES):
        names = dict.fromkeys([*METHODS, *(f"{parts['algo']}+{who}" for who in (*_WHO, *EXPLORERS))])
        raise unknown("method", name, names, _ALL)
    if parts["transfer"]:
        from polaug.coach.teaching import METHODS as TRANSFERS  # it imports torch

        if parts["transfer"] not in TRANSFERS:
            raise unknown("transfer", parts["transfer"], (*TRANSFERS, "auto"))
    return _made(parts["algo"], parts["variant"] or "", parts["who"], parts["transfer"] or "")


def trained(config: Mapping[str, Any]) -> Method:
    """The agent of a run, without its augmentation, by the run's config.json."""
    settings = {name: value for name, value in config["settings"].items() if name != "augmentation"}
    base = method(str(config["method"]).partition("[")[0])
    return dataclasses.replace(base, overrides=settings, tuned=False, augmentation=None)


def check_fit(found: Method, task: Task) -> None:
    """Refuse a pair that cannot work, before hours are spent on others. The explorer is built once to see."""
    algorithm = ALGORITHMS[found.algo]
    if importlib.util.find_spec(algorithm.module.split(".")[0]) is None:
        package = algorithm.module.replace("_", "-")
        raise invalid("method", f"{algorithm.cls} needs {package}", found.name, f"pip install {package}.")
    found.settings(task)
    env = task.make()
    try:
        if not isinstance(env.action_space, algorithm.actions):
            kinds = " or ".join(kind.__name__ for kind in algorithm.actions)
            raise invalid("method", f"{algorithm.cls} needs {kinds} actions; {task.name} has {env.action_space}",
                          found.name, "Choose another method for it.")  # fmt: skip
        _check_sight(found, task, env.observation_space)
        if found.augmentation is None:
            return
        explorer, options = found.augmentation.guide, {}
        if explorer is None:
            explorer, options = found.augmentation.explorer, dict(found.augmentation.explorer_options)
        if isinstance(explorer, str):
            built(f"method: {found.name}", explorer, task, env, **options)
        if found.augmentation.transfer not in ("auto", "as_published"):
            from polaug.coach.teaching import transfer_class  # torch comes with these
            from polaug.sb3.pupils import family_of
            from polaug.study.agents import agent_class

            transfer_class(found.augmentation.transfer, family_of(agent_class(found.algo)))
    except InvalidInputError:
        raise
    except PolaugError as fault:
        raise invalid("method", f"it does not fit {task.name} ({fault})", found.name, "Choose another.") from fault
    finally:
        env.close()


def _check_sight(found: Method, task: Task, space: spaces.Space[Any]) -> None:
    """Agents see numbers and categories, those of Stable-Baselines3 also a Dict of them."""
    parts: list[spaces.Space[Any]] = [space]
    if isinstance(space, spaces.Dict) and found.algo not in _REFERENCES:
        parts = list(space.spaces.values())
    most = ALGORITHMS[found.algo].bounded
    if most and not (isinstance(space, spaces.Box) and space.is_bounded() and np.prod(space.shape) <= most):
        raise UnsupportedSpaceError(
            f"method: {found.name} needs a vector of at most {most} numbers with bounds, and {task.name} has {space}. "
            "Choose dqn."
        )
    hidden = next((part for part in parts if not isinstance(part, _ANY)), None)
    if hidden is not None:
        flat = hidden.is_np_flattenable  # graphs and sequences have no fixed length
        how = "in gymnasium.wrappers.FlattenObservation" if flat else "so that it shows a few numbers"
        raise UnsupportedSpaceError(
            f"method: {found.name} cannot see the {type(hidden).__name__} observations of {task.name}. "
            f"Wrap it {how}; see {OWN_FEATURES}."
        )


def built(who: str, explorer: str, task: Task, env: Any, **options: Any) -> Explorer:
    """The explorer on `env`. The error of a space that it cannot see names `who`, the task and a page of the docs."""
    try:
        return make_explorer(explorer, env.observation_space, env.action_space, seed=0, **options)
    except UnsupportedSpaceError as fault:
        rule, other, _ = str(fault).partition(". Instead, ")
        if not (other and rule.startswith("observation_space: ")):
            raise UnsupportedSpaceError(f"{who} does not fit {task.name} ({fault})") from fault
        remedy = f"Wrap the environment so that it shows a few numbers, or pass a function in Python: {OWN_FEATURES}."
        rule = rule.removeprefix("observation_space: ")
        told = f"{who} cannot see the observations of {task.name}: they {rule}. {remedy}"
        raise UnsupportedSpaceError(told) from fault
