"""Features extractors of Stable-Baselines3 policies that flatten and standardise."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from torch import Tensor
from torch.nn import ModuleDict

from polaug.coach.standardise import Standardise

SMALLEST = 36
"""Smallest side in pixels for SB3's convolutional network. Smaller images are flattened."""


class Standardising(BaseFeaturesExtractor):
    """Flattened observations followed by `Standardise`."""

    standardise: Standardise

    def columns(self, observations: Any) -> Tensor:
        """The numbers (n, size) to standardise, from preprocessed observations."""
        raise NotImplementedError


class StandardisingExtractor(Standardising):
    """SB3's FlattenExtractor followed by `Standardise`. Exactly the same until the coach fits it."""

    def __init__(self, observation_space: spaces.Space[object]) -> None:
        super().__init__(observation_space, get_flattened_obs_dim(observation_space))
        self.standardise = Standardise(self.features_dim)

    def columns(self, observations: Tensor) -> Tensor:
        """Flat numbers (n, features)."""
        return observations.flatten(1)

    def forward(self, observations: Tensor) -> Tensor:
        """Standardised numbers (n, features)."""
        return self.standardise(self.columns(observations))  # type: ignore[no-any-return]


class StandardisingCombinedExtractor(Standardising):
    """SB3's CombinedExtractor with `Standardise` after the flattened parts; image features follow these."""

    def __init__(self, observation_space: spaces.Dict, cnn_output_dim: int = 256) -> None:
        pictures = {key: part for key, part in observation_space.spaces.items() if _is_picture(part)}
        self._flat = [key for key in observation_space.spaces if key not in pictures]
        size = sum(get_flattened_obs_dim(observation_space[key]) for key in self._flat)
        super().__init__(observation_space, size + cnn_output_dim * len(pictures))
        self.networks = ModuleDict({key: NatureCNN(part, cnn_output_dim) for key, part in pictures.items()})
        self.standardise = Standardise(size)

    def columns(self, observations: dict[str, Tensor]) -> Tensor:
        """The concatenated flat parts (n, size)."""
        first = next(iter(observations.values()))
        return torch.cat([first.new_zeros(len(first), 0), *(observations[key].flatten(1) for key in self._flat)], dim=1)

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Features (n, features)."""
        pictures = [network(observations[key]) for key, network in self.networks.items()]
        return torch.cat([self.standardise(self.columns(observations)), *pictures], dim=1)


def _is_picture(space: spaces.Space[object]) -> bool:
    if not isinstance(space, spaces.Box) or not is_image_space(space):
        return False
    return sorted(space.shape)[-2] >= SMALLEST
