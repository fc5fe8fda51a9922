"""The intrinsic-curiosity module of AttA2C: an encoder, a forward and an inverse model, and their losses."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim, get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn
from torch.nn import functional

from polaug.checks import whole


class Encoder(BaseFeaturesExtractor):
    """Observations to `features_dim` features: two layers instead of four convolutions."""

    def __init__(self, observation_space: spaces.Space[Any], features_dim: int = 64) -> None:
        super().__init__(observation_space, whole("features", features_dim, 1))
        self.layers = nn.Sequential(
            nn.Linear(get_flattened_obs_dim(observation_space), features_dim), nn.LeakyReLU(),
            nn.Linear(features_dim, features_dim), nn.LeakyReLU(),
        )  # fmt: skip

    def forward(self, observations: Tensor) -> Tensor:
        """(n, ...) to (n, features_dim)."""
        return self.layers(observations.flatten(1))  # type: ignore[no-any-return]  # modules are untyped calls


class Curiosity(nn.Module):
    """Forward and inverse model between features of s and s'.

    Their widths are scaled from the original's 288 features and 256 hidden units; like those, the hidden layers are
    linear. Discrete choices are one-hot and predicted by cross-entropy; Box actions are scaled to [−1, 1] and predicted
    by mean squared error.
    """

    low: Tensor
    high: Tensor

    def __init__(self, encoder: Encoder, action_space: spaces.Space[Any]) -> None:
        super().__init__()
        self.encoder = encoder
        self.choices = _choices(action_space)
        size = sum(self.choices) if self.choices else get_action_dim(action_space)
        features = encoder.features_dim
        hidden = max(1, round(features * 256 / 288))
        self.forward_model = nn.Sequential(nn.Linear(features + size, hidden), nn.Linear(hidden, features))
        self.inverse_model = nn.Sequential(nn.Linear(2 * features, hidden), nn.Linear(hidden, size))
        if isinstance(action_space, spaces.Box):
            low, high = (torch.as_tensor(bound).flatten().float() for bound in (action_space.low, action_space.high))
            self.register_buffer("low", low)
            self.register_buffer("high", high)

    def errors(self, features: Tensor, next_features: Tensor, actions: Tensor) -> Tensor:
        """½|φ̂(s') − φ(s')|² (n,)."""
        return 0.5 * (self._predicted(features, self._described(actions)) - next_features).square().sum(dim=1)

    def losses(self, features: Tensor, next_features: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Forward and inverse loss, each a mean over transitions."""
        described = self._described(actions)
        forward = functional.mse_loss(self._predicted(features, described), next_features)
        guess = self.inverse_model(torch.cat([features, next_features], dim=1))
        if not self.choices:
            return forward, functional.mse_loss(guess, described)
        sizes = list(self.choices)
        pairs = zip(torch.split(guess, sizes, dim=1), torch.split(described, sizes, dim=1), strict=True)
        return forward, torch.stack([functional.cross_entropy(g, d) for g, d in pairs]).sum()

    def _predicted(self, features: Tensor, described: Tensor) -> Tensor:
        predicted: Tensor = self.forward_model(torch.cat([features, described], dim=1))
        return predicted

    def _described(self, actions: Tensor) -> Tensor:
        """Actions (n, ...) as the models take them (n, size)."""
        flat = actions.reshape(len(actions), -1)
        if not self.choices:  # what the environment was sent: SB3 clips samples to the space
            clipped = torch.maximum(torch.minimum(flat.float(), self.high), self.low)
            return 2.0 * (clipped - self.low) / (self.high - self.low).clamp(min=1e-8) - 1.0
        columns = flat.long().unbind(1)
        return torch.cat([functional.one_hot(c, n).float() for c, n in zip(columns, self.choices, strict=True)], dim=1)


def _choices(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Number of alternatives of each choice; none for Box actions."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(int(n) for n in space.nvec.flatten())
    if isinstance(space, spaces.MultiBinary):
        return (2,) * get_action_dim(space)
    return ()
