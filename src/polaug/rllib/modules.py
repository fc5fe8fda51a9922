"""RLlib's default modules with standardised inputs, and their `Pupil`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.utils.spaces.space_utils import clip_action, normalize_action, unsquash_action

from polaug.coach.pupil import Pupil
from polaug.coach.standardise import Standardise
from polaug.errors import invalid

Tensor = torch.Tensor

FAMILIES = {"PPO": "policy_gradient", "DQN": "value_based", "SAC": "actor_critic"}
_ENCODERS = ("encoder", "pi_encoder", "qf_encoder", "qf_twin_encoder")
_HEADS = ("pi", "vf", "af")


class Standardised:
    """Mixin before a default module: adds a `Standardise` in front of all its encoders.

    It also stores the latest input, from which an evaluation episode computes the action without exploration noise.
    """

    standardise: Standardise | None
    latest: dict[str, Any] | None = None
    observation_space: Any

    def setup(self) -> None:
        """As the parent's, with hooks on the encoders."""
        super().setup()  # type: ignore[misc]  # the parent is a module
        space = self.observation_space
        flat = isinstance(space, spaces.Box) and len(space.shape) == 1
        self.standardise = module = Standardise(space.shape[0]) if flat else None
        if module is None:
            return

        # A function, not a method: copies of an encoder (target networks) use the same standardisation.
        def standardised(_: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            batch, *others = inputs
            return ({**batch, Columns.OBS: module(batch[Columns.OBS].float())}, *others)

        for name in _ENCODERS:
            if hasattr(self, name):
                encoder = getattr(self, name)
                critic = getattr(encoder, "critic_encoder", None)  # PPO asks it by itself for values
                parts = [encoder.actor_encoder, critic] if hasattr(encoder, "actor_encoder") else [encoder]
                for part in parts:
                    if part is not None:
                        part.register_forward_pre_hook(standardised)

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self.latest = batch
        return super()._forward_exploration(batch, **kwargs)  # type: ignore[misc, no-any-return]


class StandardisedPPO(Standardised, DefaultPPOTorchRLModule):  # type: ignore[misc]  # Ray's types are not used
    """PPO's default module."""


class StandardisedDQN(Standardised, DefaultDQNTorchRLModule):  # type: ignore[misc]
    """DQN's default module."""


class StandardisedSAC(Standardised, DefaultSACTorchRLModule):  # type: ignore[misc]
    """SAC's default module."""


MODULES: dict[str, type[Any]] = {"PPO": StandardisedPPO, "DQN": StandardisedDQN, "SAC": StandardisedSAC}


class Actions:
    """Converts between actions of the environment and actions of the module."""

    def __init__(self, space: Any, config: Any) -> None:
        self.space = space
        self._scaled, self._clipped = bool(config.normalize_actions), bool(config.clip_actions)

    def to_environment(self, action: Any) -> NDArray[Any]:
        """As RLlib's NormalizeAndClipActions does it."""
        if self._scaled:
            action = unsquash_action(action, self.space)
        elif self._clipped:
            action = clip_action(action, self.space)
        return np.asarray(action, dtype=self.space.dtype)

    def to_module(self, action: Any) -> NDArray[Any]:
        """The module's action for which the environment gets `action`."""
        return np.asarray(normalize_action(action, self.space) if self._scaled else action)

    def to_unit(self, rows: Any) -> Any:
        """Actions of the environment (n, d), an array or a tensor, in units where the action space is [−1, 1]."""
        low, width = self.space.low.reshape(-1), (self.space.high - self.space.low).reshape(-1)
        if isinstance(rows, Tensor):
            low, width = (torch.as_tensor(each, device=rows.device) for each in (low, width))
        return 2.0 * (rows - low) / width - 1.0

    def output_in_unit(self, mean: Tensor) -> Tensor:
        """A module's output, in the same units."""
        return mean if self._scaled else self.to_unit(mean)


def pupil_of(algorithm: str, module: Any, gamma: float, actions: Actions, tensor: Callable[[Any], Any]) -> Pupil:
    """The `Pupil` of an RLModule of `algorithm`. `tensor` converts raw observations to its input."""
    discrete = not isinstance(actions.space, spaces.Box)

    def counted(taken: Any) -> Tensor:
        rows = np.asarray(taken).reshape(len(taken), -1)
        return torch.as_tensor(rows if discrete else actions.to_unit(rows).astype(np.float32))

    def act(observations: Any) -> NDArray[Any]:
        with torch.no_grad():
            chosen = best_actions(module, {Columns.OBS: tensor(observations)})
        return np.stack([actions.to_environment(each) for each in chosen])

    def policy(states: Tensor) -> Tensor:
        forward = module._forward if algorithm == "PPO" else module._forward_inference  # with gradients
        return forward({Columns.OBS: states})[Columns.ACTION_DIST_INPUTS]  # type: ignore[no-any-return]

    def log_probs(states: Tensor) -> list[Tensor]:
        logits = policy(states)
        sizes = actions.space.nvec.tolist() if isinstance(actions.space, spaces.MultiDiscrete) else [logits.shape[1]]
        return [torch.log_softmax(part, dim=1) for part in torch.split(logits, sizes, dim=1)]

    def gaussian(states: Tensor) -> tuple[Tensor, Tensor | None]:
        mean, log_std = policy(states).chunk(2, dim=1)
        return (torch.tanh(mean), None) if algorithm == "SAC" else (actions.output_in_unit(mean), log_std)

    def values(states: Tensor) -> Tensor:
        return module.compute_q_values({Columns.OBS: states})["qf_preds"]  # type: ignore[no-any-return]

    def baseline(states: Tensor) -> Tensor:
        return module.compute_values({Columns.OBS: states})  # type: ignore[no-any-return]

    def shift(by: float) -> None:
        head = module.vf if module.uses_dueling else module.af  # a number added to all advantages has no effect
        with torch.no_grad():
            [part for part in head.modules() if isinstance(part, torch.nn.Linear)][-1].bias.add_(by)

    def sync() -> None:
        for network, target in module.get_target_network_pairs():
            target.load_state_dict(network.state_dict())

    def parameters() -> list[torch.nn.Parameter]:
        names = ("pi_encoder", "pi") if algorithm == "SAC" else (*_ENCODERS, *_HEADS)
        parts = [getattr(module, name) for name in names if hasattr(module, name)]
        return [parameter for part in parts for parameter in part.parameters()]

    def first_layers() -> list[torch.nn.Linear]:
        size = module.standardise.mean.shape[0] if module.standardise is not None else 0
        parts = [getattr(module, name) for name in _ENCODERS if hasattr(module, name)]
        linears = [layer for part in parts for layer in _first_linears(part)]
        return [layer for layer in linears if size and layer.in_features >= size]

    common: dict[str, Any] = {
        "family": FAMILIES[algorithm], "gamma": gamma, "parameters": parameters, "tensor": tensor, "actions": counted,
        "act": act, "first_layers": first_layers, "untrained": True,
        "standardised": lambda: [] if module.standardise is None else [module.standardise],
    }  # fmt: skip
    if algorithm == "DQN":
        categorical = module.num_atoms > 1
        return Pupil(values=values, shift=None if categorical else shift, sync=sync, **common)
    output: dict[str, Any] = {"log_probs": log_probs} if discrete else {"gaussian": gaussian}
    return Pupil(baseline=baseline if algorithm == "PPO" else None, **output, **common)


def best_actions(module: Any, batch: dict[str, Any]) -> NDArray[Any]:
    """The module's actions (n, ...) without exploration noise, in its own units."""
    output = module._forward_inference(batch)
    if Columns.ACTIONS not in output:
        distribution = module.get_inference_action_dist_cls().from_logits(output[Columns.ACTION_DIST_INPUTS])
        output = {Columns.ACTIONS: distribution.to_deterministic().sample()}
    return np.asarray(output[Columns.ACTIONS].cpu().numpy())


def log_prob(module: Any, inputs: Any, action: Any) -> float:
    """Log-probability, under the module's exploring distribution with these `inputs`, of an action in its units."""
    distribution = module.get_exploration_action_dist_cls().from_logits(torch.as_tensor(np.asarray(inputs))[None])
    return float(distribution.logp(torch.as_tensor(np.asarray(action))[None])[0])


def _first_linears(encoder: torch.nn.Module) -> list[torch.nn.Linear]:
    """The first linear layer of each stack of an encoder."""
    parts = [getattr(encoder, name, None) for name in ("encoder", "actor_encoder", "critic_encoder")]
    found = []
    for part in [part for part in parts if part is not None] or [encoder]:
        linears = [layer for layer in part.modules() if isinstance(layer, torch.nn.Linear)]
        found += linears[:1]
    return found


def check_actions(space: Any) -> None:
    """Raise an error for action spaces that RLlib's default modules, or teaching, do not support."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        valid = not np.any(space.start)
    else:
        valid = isinstance(space, spaces.Box) and np.issubdtype(space.low.dtype, np.floating) and space.is_bounded()
    if not valid:
        raise invalid("action_space", "must be Discrete or MultiDiscrete from 0, or a bounded Box of floats", space,
                      "Wrap the environment.")  # fmt: skip
