"""PPO, A2C and TRPO: the explorer acts through the policy's forward pass, and the loss sees selected steps only."""

from __future__ import annotations

import functools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor

from polaug.integrations.sb3.agent import AugmentedAgent
from polaug.integrations.sb3.made import Made
from polaug.transfer import Rollout

if TYPE_CHECKING:
    _Buffer = RolloutBuffer
else:
    _Buffer = object


class SelectiveBuffer(_Buffer):
    """Mixed in before a rollout buffer: knows who drove each step, and gives only selected ones."""

    driven: NDArray[np.bool_]  # (T, n)
    drivers: NDArray[np.bool_]  # (n,) of the step to be added
    selected: NDArray[np.int64] | None
    champion_returns = 0  # how often the agent had been brought back when the last step was chosen

    def reset(self) -> None:
        """Empty, and nobody has driven."""
        super().reset()
        self.driven = np.zeros((self.buffer_size, self.n_envs), np.bool_)
        self.drivers = np.zeros(self.n_envs, np.bool_)
        self.selected = None

    def add(self, *args: Any, **kwargs: Any) -> None:
        """As the parent's; remembers who drove."""
        self.driven[self.pos] = self.drivers
        super().add(*args, **kwargs)

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
                return  # a handful of left-over steps would be a noisy minibatch with normalised advantages
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

    _action_variable = "clipped_actions"

    @property
    def _selective(self) -> SelectiveBuffer:
        return cast(SelectiveBuffer, self.rollout_buffer)

    def _setup_model(self) -> None:
        if self._polaug is None:
            return super()._setup_model()
        plain = self.rollout_buffer_class
        if plain is None:
            plain = DictRolloutBuffer if isinstance(self.observation_space, spaces.Dict) else RolloutBuffer
        self.rollout_buffer_class = selective(plain)
        try:
            super()._setup_model()
        finally:
            self.rollout_buffer_class = plain  # files then hold nothing of ours
        return None

    def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
        """As SB3's, with the explorer's actions where it drives."""
        if self._polaug is None:
            return bool(super().collect_rollouts(*args, **kwargs))
        policy, lessons = self.policy, self._polaug.lessons
        policy.forward = functools.partial(self._forward, policy.forward)  # type: ignore[method-assign]  # and undone
        try:
            go_on = bool(super().collect_rollouts(*args, **kwargs))
        finally:
            del policy.forward
        if go_on:
            buffer = self._selective
            if buffer.champion_returns != self._polaug.champion.returns_to_it:  # on the rollout's last step
                buffer.champion_returns = self._polaug.champion.returns_to_it
                buffer.driven[:] = True
            if self._polaug.lessons != lessons:
                self._value_anew()
            rollout = Rollout(buffer.driven, buffer.episode_starts.astype(np.bool_), buffer.rewards)
            buffer.selected = self._polaug.transfer.select(rollout)
        return go_on

    def _value_anew(self) -> None:
        """Lessons inside a rollout change V; advantages between the old one and the new one would be of neither."""
        buffer, policy = self.rollout_buffer, self.policy
        assert self._last_obs is not None  # SB3 has collected
        seen = buffer.observations.reshape(-1, *buffer.observations.shape[2:])
        with torch.no_grad():
            values = policy.predict_values(torch.as_tensor(seen, device=self.device))
            last = policy.predict_values(obs_as_tensor(self._last_obs, self.device))
        buffer.values = values.cpu().numpy().reshape(buffer.values.shape)
        buffer.compute_returns_and_advantage(last_values=last, dones=self._last_episode_starts)  # type: ignore[arg-type]

    def _forward(self, forward: Any, observations: torch.Tensor, deterministic: bool = False) -> Any:
        companion = self._polaug
        assert companion is not None
        drivers, exams = companion.look(self)
        special, buffer = drivers | exams, self._selective
        buffer.drivers = special  # neither is for the loss
        if buffer.champion_returns != companion.champion.returns_to_it:
            buffer.champion_returns = companion.champion.returns_to_it
            buffer.driven[: buffer.pos] = True  # by parameters that are gone
        if not special.any():
            return forward(observations, deterministic)
        policy = self.policy
        actions: torch.Tensor | None = None
        if not special.all():
            actions = forward(observations, deterministic)[0]
        distribution, values = _outputs(policy, observations)
        if exams.any():
            actions = _replaced(actions, exams, distribution.mode())
        if drivers.any():
            taken = companion.act()
            if isinstance(self.action_space, spaces.Box) and policy.squash_output:
                taken = policy.scale_action(taken)
            # The types that the policies' own samples have: whole numbers to choose from, floats otherwise.
            kind = torch.float32 if isinstance(self.action_space, (spaces.Box, spaces.MultiBinary)) else torch.int64
            actions = _replaced(actions, drivers, torch.as_tensor(taken, device=observations.device).to(kind))
        assert actions is not None  # somebody drives
        # Value and log-probability belong to the action that is taken, whoever chose it; SB3's Gaussians are flat.
        if not isinstance(self.action_space, spaces.Box):
            return actions, values, distribution.log_prob(actions)
        log_probs = distribution.log_prob(actions.reshape(len(actions), -1))
        return actions.reshape(-1, *self.action_space.shape), values, log_probs

    def train(self) -> None:
        """As SB3's, on the selected steps; not at all where they are too few for a gradient."""
        if self._polaug is not None:
            selected = self._selective.selected
            # Of a whole rollout as one minibatch some steps may be missing; an eighth of one is noise.
            least = min(getattr(self, "batch_size", 2), self._selective.driven.size // 8)
            if selected is not None and len(selected) < max(2, least):
                return
            self._polaug.champion.changed(wholly=True)
        super().train()


def _outputs(policy: Any, observations: torch.Tensor) -> tuple[Distribution, torch.Tensor]:
    """The policy's distribution of actions and its value, by one pass, as in its own forward."""
    features = policy.extract_features(observations)
    pi, vf = (features, features) if policy.share_features_extractor else features
    distribution = policy._get_action_dist_from_latent(policy.mlp_extractor.forward_actor(pi))
    return distribution, policy.value_net(policy.mlp_extractor.forward_critic(vf))


def _replaced(actions: torch.Tensor | None, rows: NDArray[np.bool_], others: torch.Tensor) -> torch.Tensor:
    """`actions` with the rows of `others` where `rows` says so."""
    if actions is None:
        return others
    mask = torch.as_tensor(rows, device=actions.device).reshape(-1, *[1] * (actions.dim() - 1))
    return torch.where(mask, others.to(actions.dtype).reshape(actions.shape), actions)
