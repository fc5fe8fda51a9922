"""The `Pupil` of a Stable-Baselines3 agent."""

from __future__ import annotations

from functools import partial
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


def pupil_of(model: Any) -> Pupil:
    """The `Pupil` of `model`. The optimizer of teaching keeps the parameters, so change them in place.

    The callables are partial functions of `model`, so that a copy of the model has its own.
    """
    family = family_of(type(model))
    common: dict[str, Any] = {
        "family": family, "gamma": float(model.gamma), "tensor": partial(_tensor, model),
        "actions": partial(_actions, model), "act": partial(_act, model), "reward_scale": partial(_reward_scale, model),
        "standardised": partial(_standardised, model), "columns": partial(_columns, model),
        "first_layers": partial(_first_layers, model),
        "untrained": model.num_timesteps == 0,
    }  # fmt: skip
    if family == "value_based":
        return Pupil(parameters=partial(value_parameters, model), values=partial(_values, model),
                     shift=partial(_shift, model), sync=partial(_sync, model), **common)  # fmt: skip
    if family == "policy_gradient":
        output: dict[str, Any] = (
            {"gaussian": partial(_gaussian, model)}
            if isinstance(model.action_space, spaces.Box)
            else {"log_probs": partial(_log_probs, model)}
        )
        return Pupil(parameters=partial(_policy_parameters, model), baseline=partial(_baseline, model),
                     **output, **common)  # fmt: skip
    return Pupil(parameters=partial(_actor_parameters, model), gaussian=partial(_actor_gaussian, model),
                 critic=partial(_critics, model), sync=partial(_sync_actor, model), **common)  # fmt: skip


def _act(model: Any, observations: Any) -> NDArray[Any]:
    """Actions for raw observations, without exploration noise."""
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None:
        observations = normalizer.normalize_obs(observations)
    return np.asarray(model.predict(observations, deterministic=True)[0])


def _tensor(model: Any, observations: Any) -> Inputs:
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None:
        observations = normalizer.normalize_obs(observations)
    return model.policy.obs_to_tensor(observations)[0]


def _actions(model: Any, actions: Any) -> Tensor:
    """Actions of the environment as tensors: whole numbers counted from 0 (n, factors), or numbers in [−1, 1]."""
    if not isinstance(model.action_space, spaces.Box):
        return torch.as_tensor(np.asarray(actions).reshape(len(actions), -1), device=model.device)
    low, width = _extent(model.action_space)
    flat = np.asarray(actions, dtype=np.float32).reshape(len(actions), -1)
    return torch.as_tensor(2.0 * (flat - low) / width - 1.0, device=model.device)


def value_parameters(model: Any) -> list[torch.nn.Parameter]:
    """The parameters of the Q network."""
    return list(_value_net(model).parameters())


def _policy_parameters(model: Any) -> list[torch.nn.Parameter]:
    return list(model.policy.parameters())


def _actor_parameters(model: Any) -> list[torch.nn.Parameter]:
    return list(model.actor.parameters())


def _extent(space: spaces.Box) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lower bounds and widths of the action axes; an axis with one value has the width 2."""
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    return low, np.where(high > low, high - low, np.ones_like(low) * 2)


def _standardised(model: Any) -> list[Standardise]:
    """The `Standardise` modules; empty for one-hot inputs."""
    if not isinstance(model.observation_space, (spaces.Box, spaces.Dict)):
        return []
    return [module for module in model.policy.modules() if isinstance(module, Standardise)]


def _columns(model: Any, inputs: Inputs) -> Tensor:
    """The inputs of the features extractor's `Standardise`, after SB3's preprocessing."""
    policy = model.policy
    seen = preprocess_obs(inputs, policy.observation_space, normalize_images=policy.normalize_images)
    extractor = next(part for part in policy.modules() if isinstance(part, Standardising))
    return extractor.columns(seen)


def _first_layers(model: Any) -> list[torch.nn.Linear]:
    """The first linear layers of the networks, which take the standardised observation."""
    modules = _standardised(model)
    if not modules:
        return []
    size = len(modules[0].mean)
    stacks = [part for part in model.policy.modules() if isinstance(part, torch.nn.Sequential) and len(part)]
    first = [stack[0] for stack in stacks if isinstance(stack[0], torch.nn.Linear)]
    return [layer for layer in first if layer.in_features >= size]


def _reward_scale(model: Any) -> float:
    normalizer = model.get_vec_normalize_env()
    if normalizer is None or not normalizer.norm_reward:
        return 1.0
    return float(1.0 / np.sqrt(normalizer.ret_rms.var + normalizer.epsilon))


def _value_net(model: Any) -> torch.nn.Module:
    net = getattr(model, "q_net", None)
    return net if net is not None else model.quantile_net  # type: ignore[no-any-return]


def _sync(model: Any) -> None:
    target = getattr(model, "q_net_target", None)
    target = target if target is not None else model.quantile_net_target
    target.load_state_dict(_value_net(model).state_dict())


def _sync_actor(model: Any) -> None:
    target = getattr(model, "actor_target", None)  # TD3 and DDPG have one
    if target is not None:
        target.load_state_dict(model.actor.state_dict())


def _shift(model: Any, by: float) -> None:
    last = [part for part in _value_net(model).modules() if isinstance(part, torch.nn.Linear)][-1]
    with torch.no_grad():
        last.bias.add_(by)


def _values(model: Any, states: Tensor) -> Tensor:
    values: Tensor = _value_net(model)(states)
    return values if values.dim() == 2 else values.mean(dim=1)  # quantiles (n, quantiles, N)


def _baseline(model: Any, states: Tensor) -> Tensor:
    return model.policy.predict_values(states).flatten()  # type: ignore[no-any-return]


def _log_probs(model: Any, states: Tensor) -> list[Tensor]:
    distribution = model.policy.get_distribution(states)
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


def _gaussian(model: Any, states: Tensor) -> tuple[Tensor, Tensor | None]:
    distribution = model.policy.get_distribution(states)
    mean = distribution.mode().flatten(1)
    if model.policy.squash_output:
        return mean, None
    low, width = (torch.as_tensor(numbers, device=mean.device) for numbers in _extent(model.action_space))
    half = width / 2.0
    scaled = (mean - low) / half - 1.0
    if isinstance(distribution, DiagGaussianDistribution):
        return scaled, torch.log(distribution.distribution.stddev / half)
    return scaled, None


def _actor_mean(model: Any, states: Tensor) -> Tensor:
    # deterministic=True: the actors of SAC and TQC sample by default.
    return model.actor._predict(states, deterministic=True).flatten(1)  # type: ignore[no-any-return]


def _actor_gaussian(model: Any, states: Tensor) -> tuple[Tensor, None]:
    return _actor_mean(model, states), None


def _critics(model: Any, states: Tensor, actions: Tensor) -> Tensor:
    """(n, critics); TQC's quantiles are averaged."""
    critics = model.critic(states, actions.float())
    return torch.cat(critics, dim=1) if isinstance(critics, tuple) else critics.mean(dim=2)
