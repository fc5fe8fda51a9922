"""Off-policy agents: the guide acts through `_sample_action`, and the replay buffer stores all steps."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from polaug.sb3.agent import AugmentedAgent
from polaug.sb3.n_step import CompiledNStepReplayBuffer
from polaug.sb3.sbx import is_sbx

if TYPE_CHECKING:
    _Host = OffPolicyAlgorithm
else:
    _Host = object


class AugmentedOffPolicy(AugmentedAgent, _Host):
    """Hooks for agents with a replay buffer."""

    def _setup_model(self) -> None:
        if self._n_steps_are_ours and not self._wants_n_step():  # from a file of another transfer
            self._n_steps_are_ours, self.n_steps = False, 1
            ours = ("n_steps", "gamma")
            self.replay_buffer_kwargs = {k: v for k, v in self.replay_buffer_kwargs.items() if k not in ours}
            self._shorten_returns()
        super()._setup_model()
        if self._polaug is None:
            return
        if self.replay_buffer_class is NStepReplayBuffer and self.n_steps > 1:
            self.replay_buffer_class = None  # `n_steps` is enough; with the class SB3 would warn on loading
        buffer = self.replay_buffer
        if type(buffer) is NStepReplayBuffer and not buffer.size():
            self.replay_buffer = CompiledNStepReplayBuffer(
                self.buffer_size, self.observation_space, self.action_space, device=buffer.device,
                n_envs=self.n_envs, **self.replay_buffer_kwargs,
            )  # fmt: skip

    def load_replay_buffer(self, *args: Any, **kwargs: Any) -> None:
        """As SB3's. Removes n-step returns that only another transfer needs."""
        super().load_replay_buffer(*args, **kwargs)
        self._shorten_returns()

    def _shorten_returns(self) -> None:
        """Set an existing buffer to 1-step returns, unless the agent itself uses n-step returns."""
        if isinstance(self.replay_buffer, CompiledNStepReplayBuffer) and "n_steps" not in self.replay_buffer_kwargs:
            self.replay_buffer.n_steps = 1

    def _break_off(self) -> None:
        """End the stored episodes as at a time limit, so that n-step returns do not cross into the next ones."""
        buffer = self.replay_buffer
        if isinstance(buffer, NStepReplayBuffer) and buffer.size():
            last = (buffer.pos - 1) % buffer.buffer_size
            over = buffer.dones[last] != 0.0
            buffer.timeouts[last] = np.where(over, buffer.timeouts[last], buffer.handle_timeout_termination)
            buffer.dones[last] = 1.0

    def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
        if self._polaug is None:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        drivers, evaluating = self._polaug.look(self)
        asked = ((evaluating, self._best_action), (drivers, self._polaug.guide_actions))
        special = [(rows, choose) for rows, choose in asked if True in rows.tolist()]
        if not special:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        actions: NDArray[Any] | None = None
        stored: NDArray[Any] | None = None
        if False in (drivers | evaluating).tolist():
            actions, stored = super()._sample_action(learning_starts, action_noise, n_envs)
        for rows, choose in special:
            chosen = choose()
            box = isinstance(self.action_space, spaces.Box)
            scaled = self.policy.scale_action(chosen) if box else chosen
            actions, stored = _replaced(actions, rows, chosen), _replaced(stored, rows, scaled)
        return actions, stored

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[NDArray[Any], Any]:
        """As SB3's. Without noise, DQN and QRDQN act by the mean of their network."""
        settled = self._polaug.settled() if deterministic and self._polaug is not None else nullcontext()
        with settled:
            return super().predict(observation, state, episode_start, deterministic)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """The agent's own updates, except those that teaching replaces, and smaller ones of a taught actor."""
        if self._polaug is not None and self._polaug.attached:
            gradient_steps = self._polaug.due(gradient_steps)
            if not gradient_steps:
                return
        with nullcontext() if self._polaug is None else self._polaug.damped():
            super().train(gradient_steps=gradient_steps, batch_size=batch_size)  # SBX's DQN has another order

    def _best_action(self) -> NDArray[Any]:
        """The agent's actions without exploration noise."""
        assert self._last_obs is not None  # SB3 has reset the environments
        if isinstance(self.action_space, spaces.Box) or is_sbx(type(self)):
            return self.predict(self._last_obs, deterministic=True)[0]
        # As `predict`, which walks through all modules at every call to switch them to evaluation.
        policy = self.policy
        if policy.training:
            policy.set_training_mode(False)
        assert self._polaug is not None  # there are evaluation episodes
        with torch.no_grad(), self._polaug.settled():
            chosen = policy._predict(policy.obs_to_tensor(self._last_obs)[0], deterministic=True)
        return np.asarray(chosen.cpu().numpy())


def _replaced(actions: NDArray[Any] | None, rows: NDArray[np.bool_], others: NDArray[Any]) -> NDArray[Any]:
    """`actions` with the rows of `others` where `rows` says so."""
    if actions is None:
        return others
    return np.where(rows.reshape(-1, *[1] * (actions.ndim - 1)), others, actions)
