"""Stable-Baselines3: `augment(PPO)` is PPO that learns from an explorer. No training loop is copied.

Hooks: a callback before the user's own (sees every step), the policy's forward pass or `_sample_action` (who acts), a
rollout buffer (what the loss sees), `train` of off-policy agents (left out at times after falls), `save` and `load`
(one more entry in the zip).
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from polaug.errors import invalid
from polaug.integrations.sb3.agent import DEFAULT, AugmentedAgent
from polaug.integrations.sb3.made import Made
from polaug.integrations.sb3.off_policy import AugmentedOffPolicy
from polaug.integrations.sb3.on_policy import AugmentedOnPolicy

__all__ = ["augment"]

Agent = TypeVar("Agent", bound=BaseAlgorithm)


def augment(agent: type[Agent]) -> type[Agent]:
    """A subclass of an SB3 agent whose constructor also takes `augmentation=`; the same one at every call.

    For PPO, A2C, DQN, SAC, TD3, DDPG, and sb3-contrib's TRPO, QRDQN, TQC. `augmentation=None` is the plain agent to
    the bit.

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
        for word in ("Recurrent", "Maskable"):
            if base.__name__.startswith(word):
                raise invalid("agent", f"{word.lower()} agents cannot be augmented", agent.__name__, remedy)
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
