"""Stable-Baselines3 agents as students: what a teacher may ask of their networks."""

from __future__ import annotations

from collections.abc import Mapping
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
from stable_baselines3.common.torch_layers import FlattenExtractor

from polaug.errors import invalid
from polaug.transfer import Student

Tensor = torch.Tensor


def family_of(agent: type[BaseAlgorithm]) -> str:
    """The kind of agent that transfers distinguish, from what the class trains."""
    if issubclass(agent, OnPolicyAlgorithm):
        return "policy_gradient"
    # Agents of the DQN kind are the ones with an exploration schedule and no actor.
    return "value_based" if "exploration_schedule" in _annotations(agent) else "actor_critic"


def _annotations(agent: type) -> set[str]:
    return {name for base in agent.__mro__ for name in getattr(base, "__annotations__", {})}


def student_of(model: Any) -> Student:
    """The agent of `model` as a student. Its networks are looked up at every call; the lessons' optimizer looks up
    their parameters once, so other numbers must be put into these, not others in their place.

    Its callables are partial functions of `model`, not closures: in a copy of the model they are of the copy.
    """
    family = family_of(type(model))
    common: dict[str, Any] = {
        "family": family, "gamma": float(model.gamma), "tensor": partial(_tensor, model),
        "actions": partial(_actions, model), "first_layers": partial(_first_layers, model),
        "reward_scale": partial(_reward_scale, model), "untrained": model.num_timesteps == 0,
    }  # fmt: skip
    if family == "value_based":
        return Student(parameters=partial(value_parameters, model), values=partial(_values, model),
                       evaluate=partial(_evaluate_values, model), shift=partial(_shift, model),
                       sync=partial(_sync, model), **common)  # fmt: skip
    if family == "policy_gradient":
        spoken: dict[str, Any] = (
            {"gaussian": partial(_gaussian, model)}
            if isinstance(model.action_space, spaces.Box)
            else {"log_probs": partial(_log_probs, model)}
        )
        return Student(parameters=partial(_policy_parameters, model), baseline=partial(_baseline, model),
                       evaluate=partial(_evaluate_policy, model), **spoken, **common)  # fmt: skip
    return Student(parameters=partial(_actor_parameters, model), gaussian=partial(_actor_gaussian, model),
                   critic=partial(_critics, model), sync=partial(_sync_actor, model),
                   evaluate=partial(_evaluate_actor, model), **common)  # fmt: skip


def parameters_of(model: Any) -> dict[str, Tensor]:
    """All that the agent learns: the networks with their targets, and SAC's entropy coefficient."""
    return dict(model.policy.state_dict()) | _entropy(model)


def put_parameters(model: Any, parameters: Mapping[str, Tensor]) -> None:
    """Give the agent other parameters; the momentum of its optimizers belongs to those that it had."""
    coefficient = _entropy(model)
    model.policy.load_state_dict({name: tensor for name, tensor in parameters.items() if name not in coefficient})
    with torch.no_grad():
        for name, tensor in coefficient.items():
            tensor.copy_(parameters[name])
    if family_of(type(model)) == "policy_gradient":
        return  # its updates are few and large
    owners = [getattr(model, name, None) for name in ("policy", "actor", "critic")]
    optimizers = [getattr(owner, "optimizer", None) for owner in owners] + [getattr(model, "ent_coef_optimizer", None)]
    for optimizer in optimizers:
        if optimizer is not None:
            optimizer.state.clear()


def _entropy(model: Any) -> dict[str, Tensor]:
    coefficient = getattr(model, "log_ent_coef", None)
    return {} if coefficient is None else {"log_ent_coef": coefficient}


def _tensor(model: Any, observations: Any) -> Tensor:
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None:
        observations = normalizer.normalize_obs(observations)
    return model.policy.obs_to_tensor(observations)[0]  # type: ignore[no-any-return]


def _actions(model: Any, actions: Any) -> Tensor:
    """Actions of the environment as tensors: whole numbers counted from 0 (n, factors), or numbers in [−1, 1]."""
    if not isinstance(model.action_space, spaces.Box):
        return torch.as_tensor(np.asarray(actions).reshape(len(actions), -1), device=model.device)
    low, width = _extent(model.action_space)
    flat = np.asarray(actions, dtype=np.float32).reshape(len(actions), -1)
    return torch.as_tensor(2.0 * (flat - low) / width - 1.0, device=model.device)


def value_parameters(model: Any) -> list[torch.nn.Parameter]:
    """Of the network that chooses the actions of an agent of the DQN kind."""
    return list(_value_net(model).parameters())


def _policy_parameters(model: Any) -> list[torch.nn.Parameter]:
    return list(model.policy.parameters())


def _actor_parameters(model: Any) -> list[torch.nn.Parameter]:
    return list(model.actor.parameters())


def _extent(space: spaces.Box) -> tuple[NDArray[Any], NDArray[Any]]:
    """Low ends and widths of the axes of actions; an axis without a choice has its value at −1 of a width of 2."""
    low, high = space.low.reshape(-1), space.high.reshape(-1)
    return low, np.where(high > low, high - low, np.ones_like(low) * 2)


def _first_layers(model: Any) -> list[torch.nn.Linear]:
    """Layers that multiply the observation itself: the first ones behind an extractor that only flattens."""
    space = model.observation_space
    if not isinstance(space, spaces.Box) or model.policy.features_extractor_class is not FlattenExtractor:
        return []
    size = int(np.prod(space.shape))
    stacks = [part for part in model.policy.modules() if isinstance(part, torch.nn.Sequential) and len(part)]
    first = [stack[0] for stack in stacks if isinstance(stack[0], torch.nn.Linear)]
    return [layer for layer in first if layer.in_features == size]


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


def _evaluate_values(model: Any, states: Tensor, actions: Tensor) -> tuple[None, Tensor]:
    return None, _values(model, states).gather(1, actions[:, :1].long())[:, 0]


def _baseline(model: Any, states: Tensor) -> Tensor:
    return model.policy.predict_values(states).flatten()  # type: ignore[no-any-return]


def _log_probs(model: Any, states: Tensor) -> list[Tensor]:
    distribution = model.policy.get_distribution(states)
    if isinstance(distribution, CategoricalDistribution):
        return [distribution.distribution.logits]
    if isinstance(distribution, MultiCategoricalDistribution):
        return [part.logits for part in distribution.distribution]
    if isinstance(distribution, BernoulliDistribution):
        logits = distribution.distribution.logits
        both = torch.stack([torch.nn.functional.logsigmoid(-logits), torch.nn.functional.logsigmoid(logits)], dim=2)
        return list(both.unbind(dim=1))
    raise invalid("policy", "must have a categorical or Bernoulli distribution", type(distribution).__name__,
                  'Pass transfer="as_published" or "imitate", which need no other.')  # fmt: skip


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
    # SAC's and TQC's actors sample unless told otherwise; TD3's and DDPG's have nothing to sample.
    return model.actor._predict(states, deterministic=True).flatten(1)  # type: ignore[no-any-return]


def _actor_gaussian(model: Any, states: Tensor) -> tuple[Tensor, None]:
    return _actor_mean(model, states), None


def _critics(model: Any, states: Tensor, actions: Tensor) -> Tensor:
    """(n, critics); TQC's quantiles are averaged."""
    critics = model.critic(states, actions.float())
    return torch.cat(critics, dim=1) if isinstance(critics, tuple) else critics.mean(dim=2)


def _evaluate_policy(model: Any, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    space = model.action_space
    if isinstance(space, spaces.Box):
        if not model.policy.squash_output:
            low, width = (torch.as_tensor(numbers, device=actions.device) for numbers in _extent(space))
            actions = low + (actions + 1.0) / 2.0 * width
    elif isinstance(space, spaces.Discrete):
        actions = actions[:, 0]
    values, log_probs, _ = model.policy.evaluate_actions(states, actions)
    return log_probs, values.flatten()


def _evaluate_actor(model: Any, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Closeness of the actor to the action in place of log π, and the critic's value of the actor's own choice."""
    mean = _actor_mean(model, states)
    with torch.no_grad():
        critics = model.critic(states, mean)
        joined = torch.cat(critics, dim=1) if isinstance(critics, tuple) else critics.flatten(1)
        values = joined.min(dim=1).values if isinstance(critics, tuple) else joined.mean(dim=1)
    return -(mean - actions).square().mean(dim=1), values
