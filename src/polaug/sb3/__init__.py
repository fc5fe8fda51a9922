"""Stable-Baselines3: `augment(PPO)` is PPO that learns from a guide. No training loop is copied.

Hooks: a callback before the user's callbacks (sees every step), the policy's forward pass or `_sample_action` (the
guide acts), a rollout buffer (the steps that the loss uses), `train` of off-policy agents (teaching replaces some
updates), `save` and `load` (one more entry in the zip file).
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from polaug.errors import invalid
from polaug.sb3.agent import DEFAULT, AugmentedAgent
from polaug.sb3.off_policy import AugmentedOffPolicy
from polaug.sb3.on_policy import AugmentedOnPolicy
from polaug.sb3.picklable import Made
from polaug.sb3.sbx import check

__all__ = ["augment"]

Agent = TypeVar("Agent", bound=BaseAlgorithm)


def augment(agent: type[Agent]) -> type[Agent]:
    """A subclass of a Stable-Baselines3 agent whose constructor also takes `augmentation=`.

    Works for PPO, A2C, DQN, SAC, TD3, DDPG, for TRPO, MaskablePPO, QRDQN, TQC and CrossQ of sb3-contrib, and for the
    off-policy agents of SBX.
    `augmentation=` takes an `Augmentation`, a dict of its fields or the name of an explorer. None gives exactly the
    plain agent. Repeated calls return the same class.

    Examples
    --------
    >>> import polaug
    >>> from stable_baselines3 import PPO
    >>> Agent = polaug.augment(PPO)
    >>> issubclass(Agent, PPO), Agent is polaug.augment(PPO)
    (True, True)
    """
    remedy = "Pass for example stable_baselines3.PPO."
    given: Any = agent
    if not (inspect.isclass(given) and issubclass(given, BaseAlgorithm)):
        raise invalid("agent", "must be a Stable-Baselines3 class", agent, remedy)
    if issubclass(agent, AugmentedAgent):
        return agent
    for base in agent.__mro__:
        if base.__name__.startswith("Recurrent"):
            raise invalid("agent", "recurrent agents cannot be augmented", agent.__name__, remedy)
    check(agent)
    if not issubclass(agent, (OnPolicyAlgorithm, OffPolicyAlgorithm)):
        raise invalid("agent", "must collect rollouts or fill a replay buffer", agent.__name__, remedy)
    return _augmented(agent)


@functools.cache
def _augmented(agent: type[BaseAlgorithm]) -> type[Any]:
    mixin = AugmentedOnPolicy if issubclass(agent, OnPolicyAlgorithm) else AugmentedOffPolicy
    content = {"__doc__": agent.__doc__, "__module__": __name__}
    result = Made(f"Augmented{agent.__name__}", (mixin, agent), content)
    result.made_by = (augment, agent)
    signature = inspect.signature(agent)
    extra = inspect.Parameter("augmentation", inspect.Parameter.KEYWORD_ONLY, default=DEFAULT)
    named = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    result.__signature__ = signature.replace(parameters=[*named, extra])  # type: ignore[attr-defined]
    return result
