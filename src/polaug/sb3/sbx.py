"""SBX: agents with Stable-Baselines3's interface and networks in JAX. A copy of the network in PyTorch is taught.

Before a teaching phase the copy takes the agent's weights, and after it the agent takes those of the copy. Between
them the agent's own training is SBX's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from polaug.coach.pupil import Pupil, Tensor
from polaug.coach.standardise import Standardise
from polaug.errors import invalid
from polaug.sb3.pupils import AgentCallables, family_of
from polaug.state import State

_ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "elu": torch.nn.ELU, "silu": torch.nn.SiLU}
_EPSILON = 1e-3  # of SBX's BatchRenorm


def is_sbx(agent: type) -> bool:
    """Whether an agent class, or one of its bases, is SBX's."""
    return any(base.__module__.split(".")[0] == "sbx" for base in agent.__mro__)


def check(agent: type) -> None:
    """Raise an error for SBX's on-policy agents, whose rollouts do not pass through the policy's forward pass."""
    if is_sbx(agent) and not issubclass(agent, OffPolicyAlgorithm):
        name = agent.__name__
        raise invalid("agent", "of SBX, DQN, SAC, TQC, CrossQ, TD3 and DDPG can be augmented", f"sbx.{name}",
                      f"Pass stable_baselines3.{name}.")  # fmt: skip


class Twin:
    """A PyTorch copy of the actor, or of DQN's Q network: dense layers, in CrossQ each after batch normalisation."""

    def __init__(self, model: Any) -> None:
        self._model, self._agent = model, AgentCallables(model)
        self._state = "qf_state" if family_of(type(model)) == "value_based" else "actor_state"
        policy, layers = model.policy, self._layers()
        hidden = len(getattr(policy, "net_arch_pi", (0, 0)))  # DQN's network has two hidden layers
        activation = _ACTIVATIONS.get(policy.activation_fn.__name__)
        plain = {f"Dense_{k}" for k in range(hidden + 2)} | {f"BatchRenorm_{k}" for k in range(hidden + 1)}
        if activation is None or not layers.keys() <= plain:
            rule = f"of SBX, MlpPolicy with one of the activations {', '.join(_ACTIVATIONS)} can be augmented"
            raise invalid("policy", rule, f"{type(policy).__name__}, {policy.activation_fn.__name__}",
                          'Pass policy="MlpPolicy", or augmentation=None for the plain agent.')  # fmt: skip
        normed = f"BatchRenorm_{hidden}" in layers
        sizes = [tuple(layers[f"Dense_{k}"]["kernel"].shape) for k in range(hidden + 1)]  # without log σ
        self._linears = [torch.nn.Linear(*size) for size in sizes]
        self._norms = [torch.nn.BatchNorm1d(size[0], eps=_EPSILON) for size in sizes] if normed else []
        self._standardise = Standardise(sizes[0][0])  # folded into the agent's first layer
        parts: list[torch.nn.Module] = [self._standardise]
        for k, linear in enumerate(self._linears):
            parts += [*self._norms[k : k + 1], linear, *([activation()] if k < hidden else [])]
        self._network = torch.nn.Sequential(*parts).eval()

    def pupil(self) -> Pupil:
        """The agent as the coach sees it."""
        model, agent, normed = self._model, self._agent, bool(self._norms)
        common: dict[str, Any] = {
            "family": family_of(type(model)), "gamma": float(model.gamma), "tensor": self._tensor,
            "parameters": lambda: list(self._network.parameters()), "actions": agent.actions,
            "act": agent.act, "reward_scale": agent.reward_scale,
            "standardised": lambda: [] if normed else [self._standardise],
            "first_layers": lambda: [] if normed else self._linears[:1],
            "sync": self.push, "untrained": model.num_timesteps == 0,
        }  # fmt: skip
        if self._state == "qf_state":
            return Pupil(values=self._network, shift=self._shift, **common)
        return Pupil(gaussian=lambda states: (torch.tanh(self._network(states)), None), **common)

    # -- weights ----------------------------------------------------------------------------------------------------

    def _layers(self) -> dict[str, Any]:
        params = getattr(self._model.policy, self._state).params
        return dict(params.get("params", params))

    @torch.no_grad()
    def pull(self) -> None:
        """Take the agent's weights."""
        layers, mean, width = self._layers(), self._standardise.mean, self._standardise.width
        for k, linear in enumerate(self._linears):
            _fill(linear.weight, layers[f"Dense_{k}"]["kernel"].T)
            _fill(linear.bias, layers[f"Dense_{k}"]["bias"])
        self._linears[0].bias.add_(self._linears[0].weight @ mean)
        self._linears[0].weight.mul_(width)
        for k, norm in enumerate(self._norms):
            own = layers[f"BatchRenorm_{k}"]
            seen = getattr(self._model.policy, self._state).batch_stats[f"BatchRenorm_{k}"]
            for target, given in ((norm.weight, own["scale"]), (norm.bias, own["bias"]),
                                  (norm.running_mean, seen["mean"]), (norm.running_var, seen["var"])):  # fmt: skip
                _fill(target, given)

    @torch.no_grad()
    def push(self) -> None:
        """Give the agent, and its target network, the weights."""
        layers, mean, width = self._layers(), self._standardise.mean, self._standardise.width
        for k, linear in enumerate(self._linears):
            weight = linear.weight / width if k == 0 else linear.weight
            bias = linear.bias - weight @ mean if k == 0 else linear.bias
            layers[f"Dense_{k}"] = {"kernel": np.array(weight.T), "bias": np.array(bias)}
        for k, norm in enumerate(self._norms):
            layers[f"BatchRenorm_{k}"] = {"scale": np.array(norm.weight), "bias": np.array(norm.bias)}
        state = getattr(self._model.policy, self._state)
        params = {"params": layers} if "params" in state.params else layers
        targets = {"target_params": params} if hasattr(state, "target_params") else {}
        setattr(self._model.policy, self._state, state.replace(params=params, **targets))

    def state_dict(self) -> State:
        """The standardisation, which the agent's weights do not tell."""
        return {name: np.array(getattr(self._standardise, name)) for name in ("mean", "width")}

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        for name in ("mean", "width"):
            _fill(getattr(self._standardise, name), state[name])

    # -- the pupil's callables ----------------------------------------------------------------------------------------

    def _tensor(self, observations: Any) -> Tensor:
        rows = self._model.policy.prepare_obs(self._agent.normalised(observations))[0]
        return torch.as_tensor(rows.reshape(len(rows), -1), dtype=torch.float32)

    def _shift(self, by: float) -> None:
        with torch.no_grad():
            self._linears[-1].bias.add_(by)


@torch.no_grad()
def _fill(target: Any, given: Any) -> None:
    target.copy_(torch.from_numpy(np.array(given)))
