"""The policy of AttA2C: one encoder, and attention x ⊙ softmax(W x) on its features, for actor and critic apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from polaug.baselines.curiosity import Curiosity, Encoder


class Attention(nn.Module):
    """Attention over features, separate for actor and critic, in place of SB3's MLPs."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.latent_dim_pi = self.latent_dim_vf = features
        self.actor, self.critic = nn.Linear(features, features), nn.Linear(features, features)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Features for the actor and for the critic."""
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        """Attended features x ⊙ softmax(W x), with the actor's W."""
        return _attended(features, self.actor)

    def forward_critic(self, features: Tensor) -> Tensor:
        """The same with the critic's W."""
        return _attended(features, self.critic)


def _attended(features: Tensor, layer: nn.Linear) -> Tensor:
    return features * torch.softmax(layer(features), dim=-1)


class Joined(torch.autograd.Function):
    """Identity on `values`. The gradient of `loss` is added once when a loss of them is differentiated."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, loss: Tensor) -> Tensor:
        """`values`."""
        ctx.save_for_backward(loss)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the values passes; that of the loss is 1."""
        (loss,) = ctx.saved_tensors
        return gradients[0], torch.ones_like(loss)


class AttentionPolicy(ActorCriticPolicy):
    """Actor and critic on attended features, and the curiosity module, all under one optimiser.

    `features` is the width of the encoders.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Any,
        features: int = 64,
        **kwargs: Any,
    ) -> None:
        self._own = {"features": features}
        encoder = {"features_dim": features}
        fixed = {"net_arch": [], "features_extractor_class": Encoder, "features_extractor_kwargs": encoder}
        self._joint_loss: Callable[[], Tensor] | None = None
        super().__init__(observation_space, action_space, lr_schedule, **(kwargs | fixed))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self._own

    def _build_mlp_extractor(self) -> None:
        # SB3 calls this first of all, so that the optimiser built last sees everything made here.
        attention: Any = Attention(self.features_dim)
        self.mlp_extractor = attention
        encoder = self.make_features_extractor()
        assert isinstance(encoder, Encoder)
        self.curiosity = Curiosity(encoder, self.action_space)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        if not self.ortho_init:
            return
        # SB3's gains, except where the original's differ: attention as torch draws it, and an actor that starts at
        # full size, since attention has made its inputs small.
        attention: Any = self.mlp_extractor
        attention.actor.reset_parameters()
        attention.critic.reset_parameters()
        self.init_weights(self.action_net, gain=1.0)
        self.curiosity.encoder.apply(lambda module: self.init_weights(module, gain=2.0**0.5))
        for model in (self.curiosity.forward_model, self.curiosity.inverse_model):
            model.apply(lambda module: self.init_weights(module, gain=1.0))

    @contextmanager
    def joined_with(self, loss: Callable[[], Tensor]) -> Iterator[None]:
        """Meanwhile, a loss of what `evaluate_actions` gives has the gradient of `loss()` added: one joint step."""
        self._joint_loss = loss
        try:
            yield
        finally:
            self._joint_loss = None

    def evaluate_actions(self, obs: Any, actions: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """As SB3's."""
        values, log_prob, entropy = super().evaluate_actions(obs, actions)
        if self._joint_loss is not None:
            joined: Any = Joined.apply  # untyped in torch
            values = joined(values, self._joint_loss())
        return values, log_prob, entropy

    def curiosity_errors(self, observations: Tensor, actions: Tensor, next_observations: Tensor) -> Tensor:
        """½|φ̂(s') − φ(s')|² (n,) of each transition."""
        return self.curiosity.errors(*self._encoded(observations, next_observations), actions)

    def curiosity_losses(
        self, observations: Tensor, actions: Tensor, next_observations: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Forward and inverse loss."""
        return self.curiosity.losses(*self._encoded(observations, next_observations), actions)

    def _encoded(self, observations: Tensor, next_observations: Tensor) -> tuple[Tensor, Tensor]:
        codes = self.extract_features(torch.cat([observations, next_observations]), self.curiosity.encoder)
        assert isinstance(codes, Tensor)  # the actor and the critic share their extractor
        return codes[: len(observations)], codes[len(observations) :]
