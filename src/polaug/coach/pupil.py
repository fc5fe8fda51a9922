"""`Pupil`: the interface between the coach and an agent.

Your own loop builds it from PyTorch modules with `Pupil.of_values` (DQN) or `Pupil.of_policy` (PPO). `polaug.sb3`
builds it from Stable-Baselines3 models.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.coach.standardise import Standardise
from polaug.errors import invalid

Tensor = torch.Tensor

Inputs = Any
"""Inputs of a network: a tensor (n, ...), or a dict of such tensors for Dict observations."""


def _nothing() -> None:
    pass


def _one() -> float:
    return 1.0


def _flat(inputs: Inputs) -> Tensor:
    return inputs.float().flatten(1)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Pupil:
    """The callables that the coach needs from an agent. Observations are raw arrays with one row per environment.

    Parameters
    ----------
    family : str
        "policy_gradient" (PPO, A2C), "value_based" (DQN) or "actor_critic" (SAC, TD3).
    gamma : float
        Discount factor of the agent.
    parameters : callable
        The parameters that teaching updates change.
    tensor : callable
        Converts raw observations to the network's input.
    actions : callable
        Converts actions of the environment to tensors: choices from 0 (n, factors), or numbers in [−1, 1].
    act : callable
        Returns actions of the environment for raw observations, without exploration noise.
    log_probs : callable, optional
        One tensor (n, choices) for each factor of a discrete action.
    gaussian : callable, optional
        Mean (n, d), in units where the action space is [−1, 1], and log standard deviation or None.
    values : callable, optional
        Q (n, N) of all discrete actions.
    baseline : callable, optional
        V(s) of agents with a baseline.
    shift : callable, optional
        Adds a number to all `values`.
    sync : callable
        Copies the networks to their target networks after teaching.
    reward_scale : callable
        Factor between raw rewards and the rewards that the agent learns from.
    standardised : callable
        The `Standardise` modules of the networks.
    columns : callable
        The inputs (n, size) of these modules, before they are standardised.
    first_layers : callable
        The linear layers that follow these modules.
    untrained : bool
        Whether the networks have their initial weights. Their first layers may then be re-initialised.
    """

    family: str
    gamma: float
    parameters: Callable[[], Sequence[torch.nn.Parameter]]
    tensor: Callable[[Any], Inputs]
    actions: Callable[[Any], Tensor]
    act: Callable[[Any], NDArray[Any]]
    log_probs: Callable[[Inputs], list[Tensor]] | None = None
    gaussian: Callable[[Inputs], tuple[Tensor, Tensor | None]] | None = None
    values: Callable[[Inputs], Tensor] | None = None
    baseline: Callable[[Inputs], Tensor] | None = None
    shift: Callable[[float], None] | None = None
    sync: Callable[[], None] = _nothing
    reward_scale: Callable[[], float] = _one
    standardised: Callable[[], Sequence[Standardise]] = tuple
    columns: Callable[[Inputs], Tensor] = _flat
    first_layers: Callable[[], Sequence[torch.nn.Linear]] = tuple
    untrained: bool = False

    @staticmethod
    def of_values(network: torch.nn.Module, *, gamma: float, target: torch.nn.Module | None = None) -> Pupil:
        """A DQN-like agent: `network` returns Q (n, N), and `target` is its target network.

        Start the network with `polaug.coach.Standardise(d)` to standardise its inputs.
        """

        def values(states: Tensor) -> Tensor:
            return network(states)  # type: ignore[no-any-return]

        def act(observations: Any) -> NDArray[Any]:
            with torch.no_grad():
                return values(tensor(observations)).argmax(dim=1).cpu().numpy()

        def shift(by: float) -> None:
            last = [module for module in network.modules() if isinstance(module, torch.nn.Linear)][-1]
            with torch.no_grad():
                last.bias.add_(by)

        def sync() -> None:
            if target is not None:
                target.load_state_dict(network.state_dict())

        tensor = _tensor_of(network)
        return Pupil(
            "value_based", gamma, lambda: list(network.parameters()), tensor, _choices_of(network), act, values=values,
            shift=shift, sync=sync, standardised=lambda: _standardised([network]),
            first_layers=lambda: first_layers([network]), untrained=True,
        )  # fmt: skip

    @staticmethod
    def of_policy(
        policy: torch.nn.Module, *, gamma: float, critic: torch.nn.Module | None = None, continuous: bool = False
    ) -> Pupil:
        """A PPO-like agent: `policy` returns logits (n, N), or the mean action in [−1, 1] if `continuous`.

        `critic` returns V(s). Start both networks with `polaug.coach.Standardise(d)` to standardise their inputs.
        """
        networks = [policy, *([] if critic is None else [critic])]

        def act(observations: Any) -> NDArray[Any]:
            with torch.no_grad():
                output = policy(tensor(observations))
            return (output if continuous else output.argmax(dim=1)).cpu().numpy()  # type: ignore[no-any-return]

        def log_probs(states: Tensor) -> list[Tensor]:
            return [torch.log_softmax(policy(states), dim=1)]

        def gaussian(states: Tensor) -> tuple[Tensor, None]:
            return policy(states), None

        def baseline(states: Tensor) -> Tensor:
            assert critic is not None  # not offered without one
            return critic(states).flatten()  # type: ignore[no-any-return]

        tensor = _tensor_of(policy)
        return Pupil(
            "policy_gradient", gamma, lambda: [p for network in networks for p in network.parameters()], tensor,
            _numbers_of(policy) if continuous else _choices_of(policy), act,
            log_probs=None if continuous else log_probs, gaussian=gaussian if continuous else None,
            baseline=None if critic is None else baseline, standardised=lambda: _standardised(networks),
            first_layers=lambda: first_layers(networks), untrained=True,
        )  # fmt: skip


def take(inputs: Inputs, rows: Any) -> Inputs:
    """Some rows of a network's inputs."""
    return {key: part[rows] for key, part in inputs.items()} if isinstance(inputs, dict) else inputs[rows]


def joined(first: Inputs, second: Inputs) -> Inputs:
    """The rows of both."""
    if isinstance(first, dict):
        return {key: torch.cat([part, second[key]]) for key, part in first.items()}
    return torch.cat([first, second])


def count(inputs: Inputs) -> int:
    """Number of rows."""
    return len(next(iter(inputs.values()))) if isinstance(inputs, dict) else len(inputs)


def _device(network: torch.nn.Module) -> torch.device:
    for parameter in network.parameters():
        return parameter.device
    raise invalid("network", "must have parameters to teach", network, "Pass a torch.nn.Module with layers.")


def _tensor_of(network: torch.nn.Module) -> Callable[[Any], Tensor]:
    return lambda observations: torch.as_tensor(np.asarray(observations), dtype=torch.float32, device=_device(network))


def _choices_of(network: torch.nn.Module) -> Callable[[Any], Tensor]:
    return lambda actions: torch.as_tensor(np.asarray(actions).reshape(len(actions), -1), device=_device(network))


def _numbers_of(network: torch.nn.Module) -> Callable[[Any], Tensor]:
    return lambda actions: _tensor_of(network)(np.asarray(actions).reshape(len(actions), -1))


def _standardised(networks: Iterable[torch.nn.Module]) -> list[Standardise]:
    return [module for network in networks for module in network.modules() if isinstance(module, Standardise)]


def first_layers(networks: Iterable[torch.nn.Module]) -> list[torch.nn.Linear]:
    """The linear layers that directly follow a `Standardise` module in a `torch.nn.Sequential`."""
    found = []
    for network in networks:
        for stack in network.modules():
            if isinstance(stack, torch.nn.Sequential):
                found += [b for a, b in itertools.pairwise(stack)
                          if isinstance(a, Standardise) and isinstance(b, torch.nn.Linear)]  # fmt: skip
    return found
