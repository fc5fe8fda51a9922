"""On-policy agents: the guide acts through the policy's forward pass, and the loss uses selected steps."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor

from polaug.coach.teaching import Rollout
from polaug.sb3.agent import AugmentedAgent
from polaug.sb3.picklable import Made

if TYPE_CHECKING:
    _Buffer = RolloutBuffer
else:
    _Buffer = object


class SelectiveBuffer(_Buffer):
    """Mixin before a rollout buffer: stores what drove each step, and returns only selected steps."""

    driven: NDArray[np.bool_]  # (T, n)
    drivers: NDArray[np.bool_]  # (n,) of the step to be added
    selected: NDArray[np.int64] | None

    def reset(self) -> None:
        """Empty the buffer."""
        super().reset()
        self.driven = np.zeros((self.buffer_size, self.n_envs), np.bool_)
        self.drivers = np.zeros(self.n_envs, np.bool_)
        self.selected = None

    def add(self, *args: Any, **kwargs: Any) -> None:
        """As the parent's; also stores what drove."""
        self.driven[self.pos] = self.drivers
        super().add(*args, **kwargs)

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: NDArray[Any]) -> None:
        """As the parent's. Where the driver changes within an episode, V stands for the steps of the next driver."""
        changes = np.zeros_like(self.driven)
        changes[1:] = (self.driven[1:] != self.driven[:-1]) & (self.episode_starts[1:] == 0)
        starts, rewards = self.episode_starts, self.rewards
        before = np.roll(changes, -1, axis=0)
        self.episode_starts = np.where(changes, np.ones_like(starts), starts)
        self.rewards = np.where(before, rewards + self.gamma * np.roll(self.values, -1, axis=0), rewards)
        super().compute_returns_and_advantage(last_values, dones)
        self.episode_starts, self.rewards = starts, rewards

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """As the parent's, over the selected steps."""
        if self.selected is None:
            yield from super().get(batch_size)
            return
        if not self.generator_ready:
            next(super().get(1))  # flattens the arrays as the parent does
        order = self.selected[np.random.permutation(len(self.selected))]  # noqa: NPY002 (SB3's own generator)
        size = len(order) if batch_size is None else batch_size
        for first in range(0, len(order), size):
            if first and len(order) - first < size // 2:
                return  # a small last minibatch would be noisy
            yield self._get_samples(order[first : first + size])


@functools.cache
def selective(buffer: type[RolloutBuffer]) -> type[RolloutBuffer]:
    """`buffer` with `SelectiveBuffer` before it."""
    result: Any = Made(f"Selective{buffer.__name__}", (SelectiveBuffer, buffer), {})
    result.made_by = (selective, buffer)
    return cast(type[RolloutBuffer], result)


if TYPE_CHECKING:
    _Host = OnPolicyAlgorithm
else:
    _Host = object


class AugmentedOnPolicy(AugmentedAgent, _Host):
    """Hooks for agents that collect rollouts with their policy's forward pass."""

    @property
    def _selective(self) -> SelectiveBuffer:
        return cast(SelectiveBuffer, self.rollout_buffer)

    def _setup_model(self) -> None:
        super()._setup_model()
        if self._polaug is not None:
            plain = self.rollout_buffer
            self.rollout_buffer = object.__new__(selective(type(plain)))
            vars(self.rollout_buffer).update(vars(plain))
            self.rollout_buffer.reset()

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
        """As SB3's, with the guide's actions where the guide drives."""
        if self._polaug is None:
            return bool(super().collect_rollouts(*args, **kwargs))
        policy, taught = self.policy, self._polaug.taught
        policy.forward = functools.partial(self._forward, policy.forward)  # type: ignore[method-assign]  # and undone
        try:
            go_on = bool(super().collect_rollouts(*args, **kwargs))
        finally:
            del policy.forward
        if go_on:
            buffer = self._selective
            if self._polaug.taught != taught:
                self._value_anew()
            rollout = Rollout(buffer.driven, buffer.episode_starts.astype(np.bool_), buffer.rewards)
            buffer.selected = self._polaug.coach.transfer.select(rollout)
        return go_on

    def _value_anew(self) -> None:
        """Recompute values and advantages, because teaching inside a rollout changed V."""
        buffer, policy = self.rollout_buffer, self.policy
        assert self._last_obs is not None  # SB3 has collected
        stored: Any = buffer.observations
        seen: Any = (
            {key: part.reshape(-1, *part.shape[2:]) for key, part in stored.items()}
            if isinstance(stored, dict)
            else stored.reshape(-1, *stored.shape[2:])
        )
        with torch.no_grad():
            values = policy.predict_values(obs_as_tensor(seen, self.device))
            last = policy.predict_values(obs_as_tensor(self._last_obs, self.device))
        buffer.values = values.cpu().numpy().reshape(buffer.values.shape)
        buffer.compute_returns_and_advantage(last_values=last, dones=self._last_episode_starts)  # type: ignore[arg-type]

    def _forward(self, forward: Any, observations: torch.Tensor, deterministic: bool = False, **masks: Any) -> Any:
        bridge = self._polaug
        assert bridge is not None
        drivers, evaluating = bridge.look(self)
        special = drivers | evaluating
        self._selective.drivers = special  # the loss uses neither
        if not special.any():
            return forward(observations, deterministic, **masks)
        policy = self.policy
        actions: torch.Tensor | None = None
        if not special.all():
            actions = forward(observations, deterministic, **masks)[0]
        distribution, values = _outputs(policy, observations)
        if masks.get("action_masks") is not None:
            distribution.apply_masking(masks["action_masks"])  # type: ignore[attr-defined]  # sb3-contrib's
        if evaluating.any():
            actions = _replaced(actions, evaluating, distribution.mode())
        if drivers.any():
            taken = bridge.guide_actions(masks.get("action_masks"))
            if isinstance(self.action_space, spaces.Box) and policy.squash_output:
                taken = policy.scale_action(taken)
            # The types that the policies' own samples have: whole numbers to choose from, floats otherwise.
            kind = torch.float32 if isinstance(self.action_space, (spaces.Box, spaces.MultiBinary)) else torch.int64
            actions = _replaced(actions, drivers, torch.as_tensor(taken, device=self.device).to(kind))
        assert actions is not None  # guide or agent drives
        # Value and log-probability belong to the executed action; SB3's Gaussians are flat.
        if not isinstance(self.action_space, spaces.Box):
            return actions, values, distribution.log_prob(actions)
        log_probs = distribution.log_prob(actions.reshape(len(actions), -1))
        return actions.reshape(-1, *self.action_space.shape), values, log_probs

    def train(self) -> None:
        """As SB3's, on the selected steps. Skipped if they are too few for a gradient."""
        if self._polaug is not None:
            selected = self._selective.selected
            # The gradient of fewer steps than an eighth of the rollout is too noisy.
            least = min(getattr(self, "batch_size", 2), self._selective.driven.size // 8)
            if selected is not None and len(selected) < max(2, least):
                return
        super().train()


def _outputs(policy: Any, observations: torch.Tensor) -> tuple[Distribution, torch.Tensor]:
    """The policy's action distribution and value, from one forward pass."""
    features = policy.extract_features(observations)
    pi, vf = (features, features) if policy.share_features_extractor else features
    distribution = policy._get_action_dist_from_latent(policy.mlp_extractor.forward_actor(pi))
    return distribution, policy.value_net(policy.mlp_extractor.forward_critic(vf))


def _replaced(actions: torch.Tensor | None, rows: NDArray[np.bool_], others: torch.Tensor) -> torch.Tensor:
    """`actions` with the rows of `others` where `rows` is True."""
    if actions is None:
        return others
    mask = torch.as_tensor(rows, device=actions.device).reshape(-1, *[1] * (actions.dim() - 1))
    return torch.where(mask, others.to(actions.dtype).reshape(actions.shape), actions)
