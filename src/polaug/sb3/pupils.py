"""The `Pupil` of a Stable-Baselines3 agent."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.preprocessing import preprocess_obs

from polaug.coach.pupil import Inputs, Pupil
from polaug.coach.standardise import Standardise
from polaug.errors import invalid
from polaug.sb3.extractor import Standardising

Tensor = torch.Tensor


def family_of(agent: type[BaseAlgorithm]) -> str:
    """The kind of an agent class: policy_gradient, value_based or actor_critic."""
    if issubclass(agent, OnPolicyAlgorithm):
        return "policy_gradient"
    # Value-based agents have an exploration schedule and no actor.
    return "value_based" if "exploration_schedule" in _annotations(agent) else "actor_critic"


def _annotations(agent: type) -> set[str]:
    return {name for base in agent.__mro__ for name in getattr(base, "__annotations__", {})}


class AgentCallables:
    """What a `Pupil` asks of an SB3 agent. Bound methods, so that a copy of the model has its own."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def pupil(self) -> Pupil:
        """The `Pupil`. The optimizer of teaching keeps the parameters, so change them in place."""
        family = family_of(type(self._model))
        common: dict[str, Any] = {
            "family": family, "gamma": float(self._model.gamma), "tensor": self._tensor, "actions": self.actions,
            "act": self.act, "reward_scale": self.reward_scale, "standardised": self._standardised,
            "columns": self._columns, "first_layers": self._first_layers, "untrained": self._model.num_timesteps == 0,
        }  # fmt: skip
        if family == "value_based":
            return Pupil(
                parameters=self.value_parameters, values=self._values, shift=self._shift, sync=self._sync, **common
            )
        if family == "policy_gradient":
            box = isinstance(self._model.action_space, spaces.Box)
            output: dict[str, Any] = {"gaussian": self._gaussian} if box else {"log_probs": self._log_probs}
            return Pupil(parameters=self._policy_parameters, baseline=self._baseline, **output, **common)
        return Pupil(parameters=self._actor_parameters, gaussian=self._actor_gaussian,
                     sync=self._sync_actor, **common)  # fmt: skip

    def act(self, observations: Any) -> NDArray[Any]:
        """Actions for raw observations, without exploration noise."""
        return np.asarray(self._model.predict(self.normalised(observations), deterministic=True)[0])

    def normalised(self, observations: Any) -> Any:
        """Raw observations as the policy takes them."""
        normalizer = self._model.get_vec_normalize_env()
        return observations if normalizer is None else normalizer.normalize_obs(observations)

    def _tensor(self, observations: Any) -> Inputs:
        return self._model.policy.obs_to_tensor(self.normalised(observations))[0]

    def actions(self, actions: Any) -> Tensor:
        """Actions of the environment as tensors: whole numbers counted from 0 (n, factors), or numbers in [−1, 1]."""
        if not isinstance(self._model.action_space, spaces.Box):
            return torch.as_tensor(np.asarray(actions).reshape(len(actions), -1), device=self._model.device)
        low, width = _extent(self._model.action_space)
        flat = np.asarray(actions, dtype=np.float32).reshape(len(actions), -1)
        return torch.as_tensor(2.0 * (flat - low) / width - 1.0, device=self._model.device)

    def value_parameters(self) -> list[torch.nn.Parameter]:
        """The parameters of the Q network."""
        return list(self._value_net().parameters())

    def _policy_parameters(self) -> list[torch.nn.Parameter]:
        return list(self._model.policy.parameters())

    def _actor_parameters(self) -> list[torch.nn.Parameter]:
        return list(self._model.actor.parameters())

    def _standardised(self) -> list[Standardise]:
        """The `Standardise` modules; empty for one-hot inputs."""
        if not isinstance(self._model.observation_space, (spaces.Box, spaces.Dict)):
            return []
        return [module for module in self._model.policy.modules() if isinstance(module, Standardise)]

    def _columns(self, inputs: Inputs) -> Tensor:
        """The inputs of the features extractor's `Standardise`, after SB3's preprocessing."""
        policy = self._model.policy
        seen = preprocess_obs(inputs, policy.observation_space, normalize_images=policy.normalize_images)
        extractor = next(part for part in policy.modules() if isinstance(part, Standardising))
        return extractor.columns(seen)

    def _first_layers(self) -> list[torch.nn.Linear]:
        """The first linear layers of the networks, which take the standardised observation."""
        modules = self._standardised()
        if not modules:
            return []
        size = len(modules[0].mean)
        stacks = [part for part in self._model.policy.modules() if isinstance(part, torch.nn.Sequential) and len(part)]
        first = [stack[0] for stack in stacks if isinstance(stack[0], torch.nn.Linear)]
        return [layer for layer in first if layer.in_features >= size]

    def reward_scale(self) -> float:
        """What VecNormalize multiplies rewards by."""
        normalizer = self._model.get_vec_normalize_env()
        if normalizer is None or not normalizer.norm_reward:
            return 1.0
        return float(1.0 / np.sqrt(normalizer.ret_rms.var + normalizer.epsilon))

    def _value_net(self) -> torch.nn.Module:
        net = getattr(self._model, "q_net", None)
        return net if net is not None else self._model.quantile_net  # type: ignore[no-any-return]

    def _sync(self) -> None:
        target = getattr(self._model, "q_net_target", None)
        target = target if target is not None else self._model.quantile_net_target
        target.load_state_dict(self._value_net().state_dict())

    def _sync_actor(self) -> None:
        target = getattr(self._model, "actor_target", None)  # TD3 and DDPG have one
        if target is not None:
            target.load_state_dict(self._model.actor.state_dict())

    def _shift(self, by: float) -> None:
        last = [part for part in self._value_net().modules() if isinstance(part, torch.nn.Linear)][-1]
        with torch.no_grad():
            last.bias.add_(by)

    def _values(self, states: Tensor) -> Tensor:
        values: Tensor = self._value_net()(states)
        return values if values.dim() == 2 else values.mean(dim=1)  # quantiles (n, quantiles, N)

    def _baseline(self, states: Tensor) -> Tensor:
        return self._model.policy.predict_values(states).flatten()  # type: ignore[no-any-return]

    def _log_probs(self, states: Tensor) -> list[Tensor]:
        distribution = self._model.policy.get_distribution(states)
        if hasattr(distribution, "apply_masking"):  # sb3-contrib's, without a mask
            parts = getattr(distribution, "distributions", None) or [distribution.distribution]
            return [part.logits for part in parts]
        if isinstance(distribution, CategoricalDistribution):
            return [distribution.distribution.logits]
        if isinstance(distribution, MultiCategoricalDistribution):
            return [part.logits for part in distribution.distribution]
        if isinstance(distribution, BernoulliDistribution):
            logits = distribution.distribution.logits
            both = torch.stack([torch.nn.functional.logsigmoid(-logits), torch.nn.functional.logsigmoid(logits)], dim=2)
            return list(both.unbind(dim=1))
        raise invalid("policy", "must have a categorical or Bernoulli distribution", type(distribution).__name__,
                      'Pass transfer="as_published", which supports all.')  # fmt: skip

    def _gaussian(self, states: Tensor) -> tuple[Tensor, Tensor | None]:
        distribution = self._model.policy.get_distribution(states)
        mean = distribution.mode().flatten(1)
        if self._model.policy.squash_output:
            return mean, None
        low, width = (torch.as_tensor(numbers, device=mean.device) for numbers in _extent(self._model.action_space))
        half = width / 2.0
        scaled = (mean - low) / half - 1.0
        if isinstance(distribution, DiagGaussianDistribution):
            return scaled, torch.log(distribution.distribution.stddev / half)
        return scaled, None

    def _actor_mean(self, states: Tensor) -> Tensor:
        # deterministic=True: the actors of SAC and TQC sample by default.
        return self._model.actor._predict(states, deterministic=True).flatten(1)  # type: ignore[no-any-return]

    def _actor_gaussian(self, states: Tensor) -> tuple[Tensor, None]:
        return self._actor_mean(states), None


def _extent(space: spaces.Box) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lower bounds and widths of the action axes; an axis with one value has the width 2."""
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    return low, np.where(high > low, high - low, np.ones_like(low) * 2)
