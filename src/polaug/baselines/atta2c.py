"""AttA2C (Reizinger and Szemenyei, 2020) for vector observations: A2C with attention and a curiosity module.

`curiosity=False` is the authors' public code: the module learns, but adds nothing to the reward. `curiosity=True` is
their paper's method: η times the forward error is added to the reward.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import A2C
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor

from polaug.baselines.attention import AttentionPolicy
from polaug.checks import non_negative
from polaug.errors import UnsupportedSpaceError


class FollowingBuffer(RolloutBuffer):
    """A rollout buffer that also stores next observations, with the last one of each episode."""

    following: NDArray[Any]  # (n, ...) of the step to be added
    next_observations: NDArray[Any]

    def reset(self) -> None:
        """Empty."""
        super().reset()
        self.next_observations = np.zeros_like(self.observations)

    def add(self, *args: Any, **kwargs: Any) -> None:
        """As SB3's; also stores `following`."""
        self.next_observations[self.pos] = self.following.reshape(self.next_observations[self.pos].shape)
        super().add(*args, **kwargs)

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """As SB3's, which flattens its arrays at the first call."""
        if not self.generator_ready:
            self.next_observations = self.swap_and_flatten(self.next_observations)
        yield from super().get(batch_size)


class Follow(BaseCallback):
    """Runs before the user's callbacks: stores next observations, and adds the bonus before SB3 stores the rewards."""

    def _on_step(self) -> bool:
        model: Any = self.model
        following = np.array(self.locals["new_obs"])
        for env in np.flatnonzero(self.locals["dones"]).tolist():
            last = self.locals["infos"][env].get("terminal_observation")
            if last is not None:
                following[env] = last
        model.rollout_buffer.following = following
        if model.curiosity:
            bonus = model.intrinsic_rewards(model._last_obs, self.locals["actions"], following)
            self.locals["rewards"] += bonus.astype(self.locals["rewards"].dtype)
            self.logger.record_mean("curiosity/reward", float(bonus.mean()))
        return True


class AttA2C(A2C):
    """A2C whose one step follows policy + 0.5 value − 0.02 entropy + forward + inverse loss.

    `curiosity` says whether `eta` times the forward error is added to the rewards that the policy learns from (raw
    returns are logged as ever). `features` is the width of the encoders. The rest are A2C's own, with the authors'
    values as defaults. An environment given by its id is made four times, as theirs.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MlpPolicy": AttentionPolicy}
    policy: AttentionPolicy
    rollout_buffer: FollowingBuffer

    def __init__(
        self,
        policy: str | type[AttentionPolicy] = "MlpPolicy",
        env: Any = None,
        learning_rate: Any = 1e-4,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.02,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        *,
        curiosity: bool = False,
        eta: float = 0.01,
        features: int = 64,
        policy_kwargs: dict[str, Any] | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.curiosity, self.eta = bool(curiosity), non_negative("eta", eta)
        if isinstance(env, str):
            env = make_vec_env(env, 4, seed=seed)  # as many as theirs
        if isinstance(getattr(env, "observation_space", None), spaces.Dict):
            raise UnsupportedSpaceError(
                "observation_space: AttA2C is for vectors and categories, got a Dict. Wrap the environment in "
                "gymnasium.wrappers.FlattenObservation."
            )
        own: dict[str, Any] = {"features": features}
        own |= {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {}}  # torch's own ε, as theirs
        super().__init__(
            policy, env, learning_rate=learning_rate, n_steps=n_steps, gamma=gamma, gae_lambda=gae_lambda,
            ent_coef=ent_coef, vf_coef=vf_coef, max_grad_norm=max_grad_norm, use_rms_prop=False,
            rollout_buffer_class=FollowingBuffer, policy_kwargs=own | (policy_kwargs or {}), seed=seed, **kwargs,
        )  # fmt: skip

    def _init_callback(self, callback: Any, progress_bar: bool = False) -> BaseCallback:
        given = callback if isinstance(callback, list) else [] if callback is None else [callback]
        converted = [c if isinstance(c, BaseCallback) else ConvertCallback(c) for c in given]
        return super()._init_callback([Follow(), *converted], progress_bar)

    def train(self) -> None:
        """As A2C's, with the curiosity losses in the same step, before the one clipping of the joint gradient."""
        with self.policy.joined_with(self._curiosity_loss):
            super().train()

    def _curiosity_loss(self) -> Tensor:
        buffer = self.rollout_buffer
        parts = (buffer.observations, buffer.actions, buffer.next_observations)
        forward, inverse = self.policy.curiosity_losses(*(buffer.to_torch(part) for part in parts))
        self.logger.record("curiosity/forward_loss", forward.item())
        self.logger.record("curiosity/inverse_loss", inverse.item())
        return forward + inverse

    def intrinsic_rewards(self, observations: Any, actions: Any, next_observations: Any) -> NDArray[np.float32]:
        """η/2 |φ̂(s') − φ(s')|² (n,) of n transitions."""
        given = (observations, actions, next_observations)
        parts = (torch.as_tensor(np.asarray(part), device=self.device) for part in given)
        with torch.no_grad():
            rewards: NDArray[np.float32] = (self.eta * self.policy.curiosity_errors(*parts)).cpu().numpy()
        return rewards
