"""What is compared: a method is an algorithm, its hyperparameters and its augmentation, under one short name.

ALGO[-tuned][+WHO[:TRANSFER]]: `ppo` has Stable-Baselines3's defaults, `-tuned` takes RL Baselines3 Zoo's settings, WHO
is `pa` (our default), `pa-paper` (as printed) or any explorer. METHODS holds those with a line in `polaug list`. No
agent is imported here; agents.py builds them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gymnasium import spaces

from polaug.config import Augmentation
from polaug.errors import InvalidInputError, PolaugError, UnsupportedSpaceError, invalid, unknown
from polaug.exploration import METHODS as EXPLORERS
from polaug.exploration import make_explorer
from polaug.study.tasks import Task
from polaug.study.tuned import SOURCE, TUNED, tuned

_ANY = (spaces.Discrete, spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)


@dataclass(frozen=True)
class Algorithm:
    """Where a training algorithm's class is, what it is called, and which actions it can take."""

    module: str
    cls: str
    actions: tuple[type[Any], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it is always built with, in the vocabulary of tuned.py."""


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
    "atta2c": Algorithm("polaug.baselines.atta2c", "AttA2C", _ANY, {"n_envs": 4, "curiosity": False}),
    "atta2c-curious": Algorithm("polaug.baselines.atta2c", "AttA2C", _ANY, {"n_envs": 4, "curiosity": True}),
}
_BASELINES = ("atta2c", "atta2c-curious")  # whole agents: they are not augmented


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

    def settings(self, task: Task) -> dict[str, Any]:
        """Hyperparameters on `task`, as plain data; what is not named has the algorithm's default."""
        found = tuned(self.algo, task.env_id) if self.tuned else {}
        if found is None:
            raise invalid(
                "method", f"the Zoo has no tuned {self.algo} for {task.env_id}", self.name, f"Compare with {self.algo}."
            )
        return dict(ALGORITHMS[self.algo].settings) | found

    def with_augmentation(self, **changes: Any) -> Method:
        """The same with other settings of its augmentation, which become part of its name."""
        if self.augmentation is None:
            return _augmented(self.algo, self.tuned, "pa", "").with_augmentation(**changes)
        base = self.augmentation
        given = {name: value for name, value in changes.items() if value != getattr(base, name)}
        if not given:
            return self
        words = ",".join(f"{key}={value}" for key, value in sorted(given.items()))
        return dataclasses.replace(self, name=f"{self.name}[{words}]", augmentation=dataclasses.replace(base, **given))

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
_WHO = {
    "pa": ("augmented by the committee, polaug's default", {}),
    "pa-paper": ("augmented as printed in the paper", {"explorer": "paper", "transfer": "as_published"}),
}  # fmt: skip
_PAID = {
    "counting": "paid for rarely seen states (SimHash counts)",
    "rnd": "paid for what a fixed random network finds new (RND)",
    "icm": "paid for what it cannot predict (ICM)",
}


def _listed() -> Iterable[Method]:
    for algo, algorithm in ALGORITHMS.items():
        if algo in _BASELINES:
            how = "intrinsic reward as their paper has it" if algo.endswith("curious") else "as their public code is"
            yield Method(algo, algo, f"attention A2C of Reizinger and Szemenyei (2020), {how}",
                         source="Reizinger and Szemenyei, ICASSP 2020")  # fmt: skip
            continue
        yield Method(algo, algo, f"{algorithm.cls} at Stable-Baselines3's defaults", source=_SB3)
        if any(known == algo for known, _ in TUNED):
            yield Method(f"{algo}-tuned", algo, f"{algorithm.cls} with RL Baselines3 Zoo's settings", tuned=True,
                         source=SOURCE.format(algo=algo))  # fmt: skip
        yield _augmented(algo, False, "pa", "")
        if algo in ("ppo", "dqn"):
            yield _augmented(algo, False, "pa-paper", "")
        if algo == "ppo":
            yield from (_augmented(algo, False, who, "") for who in _PAID)


def _augmented(algo: str, is_tuned: bool, who: str, transfer: str) -> Method:
    how, options = _WHO.get(who, (_PAID.get(who, f"augmented by the explorer {who!r}"), {"explorer": who}))
    name = f"{algo}{'-tuned' if is_tuned else ''}+{who}{f':{transfer}' if transfer else ''}"
    given: dict[str, Any] = options | ({"transfer": transfer} if transfer else {})
    taught = f", taught by {transfer!r}" if transfer else ""
    source = SOURCE.format(algo=algo) if is_tuned else _PAPER if who == "pa-paper" else _OURS
    return Method(name, algo, f"{ALGORITHMS[algo].cls} {how}{taught}", is_tuned, Augmentation(**given), source)


_ALL = "`polaug list`"
METHODS: dict[str, Method] = {each.name: each for each in _listed()}


def method(name: str | Method) -> Method:
    """The method called `name`; a typo gets the nearest one."""
    if isinstance(name, Method):
        return name
    if name in METHODS:
        return METHODS[name]
    parts = re.fullmatch(r"(?P<algo>[a-z0-9]+)(?P<tuned>-tuned)?\+(?P<who>[\w\-]+)(:(?P<transfer>\w+))?", str(name))
    plain = [algo for algo in ALGORITHMS if algo not in _BASELINES]
    if parts is None or parts["algo"] not in plain:
        raise unknown("method", name, METHODS, _ALL)
    if parts["who"] not in (*_WHO, *_PAID, *EXPLORERS):
        names = dict.fromkeys([*METHODS, *(f"{parts['algo']}+{who}" for who in (*_WHO, *EXPLORERS))])
        raise unknown("method", name, names, _ALL)
    if parts["transfer"]:
        from polaug.transfer import METHODS as TRANSFERS  # torch comes with it: only for who asks

        if parts["transfer"] not in TRANSFERS:
            raise unknown("transfer", parts["transfer"], (*TRANSFERS, "auto"))
    return _augmented(parts["algo"], bool(parts["tuned"]), parts["who"], parts["transfer"] or "")


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
        explorer, options = found.augmentation.explorer, dict(found.augmentation.explorer_options)
        if isinstance(explorer, str):
            make_explorer(explorer, env.observation_space, env.action_space, seed=0, **options)
        if found.augmentation.transfer not in ("auto", "as_published"):
            _check_transfer(found)
    except UnsupportedSpaceError as fault:
        raise unseen(f"method: {found.name}", task, fault) from fault
    except InvalidInputError:
        raise
    except PolaugError as fault:
        raise invalid("method", f"it does not fit {task.name} ({fault})", found.name, "Choose another.") from fault
    finally:
        env.close()


def _check_sight(found: Method, task: Task, space: spaces.Space[Any]) -> None:
    """Agents see numbers and categories; plain ones of Stable-Baselines3 also a Dict of them."""
    parts: list[spaces.Space[Any]] = [space]
    if isinstance(space, spaces.Dict) and found.augmentation is None and found.algo not in _BASELINES:
        parts = list(space.spaces.values())
    hidden = next((part for part in parts if not isinstance(part, _ANY)), None)
    if hidden is not None:
        raise UnsupportedSpaceError(
            f"method: {found.name} cannot see the {type(hidden).__name__} observations of {task.name}. "
            f"Wrap it in gymnasium.wrappers.FlattenObservation; see {OWN_FEATURES}."
        )


def unseen(who: str, task: Task, fault: UnsupportedSpaceError) -> UnsupportedSpaceError:
    """The same for those who name a method and a task, and cannot pass a function: which task, and where to read on."""
    rule, other, _ = str(fault).partition(". Instead, ")
    if not (other and rule.startswith("observation_space: ")):
        return fault if task.name in rule else UnsupportedSpaceError(f"{who} does not fit {task.name} ({fault})")
    remedy = f"Wrap the environment so that it shows a few numbers, or pass a function in Python: {OWN_FEATURES}."
    rule = rule.removeprefix("observation_space: ")
    return UnsupportedSpaceError(f"{who} cannot see the observations of {task.name}: they {rule}. {remedy}")


def _check_transfer(found: Method) -> None:
    """The way of teaching must be one for this kind of agent."""
    from polaug.integrations.sb3.students import family_of
    from polaug.study.agents import agent_class
    from polaug.transfer import transfer_class

    assert found.augmentation is not None  # only augmented methods are taught
    transfer_class(found.augmentation.transfer, family_of(agent_class(found.algo)))
