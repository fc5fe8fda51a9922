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

    def complete(self) -> None:
        """Fill in values and log-probabilities that were left out. The agent replaces this method while it collects."""

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: NDArray[Any]) -> None:
        """As the parent's. Where the driver changes within an episode, V stands for the steps of the next driver."""
        self.complete()
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
        policy, buffer = self.policy, self._selective
        policy.forward = functools.partial(self._forward, policy.forward)  # type: ignore[method-assign]  # and undone
        buffer.complete = functools.partial(self._evaluate, self._polaug.taught)  # type: ignore[method-assign]
        try:
            go_on = bool(super().collect_rollouts(*args, **kwargs))
        finally:
            del policy.forward, buffer.complete
        if go_on:
            rollout = Rollout(buffer.driven, buffer.episode_starts.astype(np.bool_), buffer.rewards)
            buffer.selected = self._polaug.coach.transfer.select(rollout)
        return go_on

    def _evaluate(self, taught_before: int) -> None:
        """Values and log-probabilities of the steps that the agent did not drive, in one pass through the networks.

        All values, if teaching inside the rollout has changed V.
        """
        assert self._polaug is not None
        buffer: Any = self._selective
        driven = buffer.driven.reshape(-1)
        rows = driven | (self._polaug.taught != taught_before)
        if not rows.any():
            return
        actions = torch.as_tensor(_rows(buffer.actions, rows).astype(np.float32), device=self.device)
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.long().flatten()
        masks = {"action_masks": _rows(buffer.action_masks, rows)} if hasattr(buffer, "action_masks") else {}
        seen = obs_as_tensor(_rows(buffer.observations, rows), self.device)
        with torch.no_grad():
            values, log_probs, _ = self.policy.evaluate_actions(seen, actions, **masks)
        buffer.values.reshape(-1)[rows] = values.cpu().numpy().reshape(-1)
        buffer.log_probs.reshape(-1)[driven] = log_probs.cpu().numpy().reshape(-1)[driven[rows]]

    def _forward(self, forward: Any, observations: torch.Tensor, deterministic: bool = False, **masks: Any) -> Any:
        bridge = self._polaug
        assert bridge is not None
        drivers, evaluating = bridge.look(self)
        special = drivers | evaluating
        self._selective.drivers = special  # the loss uses neither
        if not special.any():
            return forward(observations, deterministic, **masks)
        policy, n = self.policy, len(special)
        actions: torch.Tensor | None = None
        values = log_probs = torch.zeros(n, device=self.device)  # `_evaluate` computes those of these steps
        if not special.all():
            actions, values, log_probs = forward(observations, deterministic, **masks)
        if evaluating.any():
            mode = policy.get_distribution(observations, **masks).mode()
            actions = _replaced(actions, evaluating, mode.reshape(-1, *(self.action_space.shape or ())))
        if drivers.any():
            taken = bridge.guide_actions(masks.get("action_masks"))
            if isinstance(self.action_space, spaces.Box) and policy.squash_output:
                taken = policy.scale_action(taken)
            # The types that the policies' own samples have: whole numbers to choose from, floats otherwise.
            kind = torch.float32 if isinstance(self.action_space, (spaces.Box, spaces.MultiBinary)) else torch.int64
            actions = _replaced(actions, drivers, torch.as_tensor(taken, device=self.device).to(kind))
        return actions, values, log_probs

    def train(self) -> None:
        """As SB3's, on the selected steps. Skipped if they are too few for a gradient."""
        if self._polaug is not None:
            selected = self._selective.selected
            # The gradient of fewer steps than an eighth of the rollout is too noisy.
            least = min(getattr(self, "batch_size", 2), self._selective.driven.size // 8)
            if selected is not None and len(selected) < max(2, least):
                return
        super().train()


def _rows(stored: Any, which: NDArray[np.bool_]) -> Any:
    """Some of the T · n rows of (T, n, ...)."""
    if isinstance(stored, dict):
        return {key: _rows(part, which) for key, part in stored.items()}
    return stored.reshape(-1, *stored.shape[2:])[which]


def _replaced(actions: torch.Tensor | None, rows: NDArray[np.bool_], others: torch.Tensor) -> torch.Tensor:
    """`actions` with the rows of `others` where `rows` is True."""
    if actions is None:
        return others
    mask = torch.as_tensor(rows, device=actions.device).reshape(-1, *[1] * (actions.dim() - 1))
    return torch.where(mask, others.to(actions.dtype).reshape(actions.shape), actions)
