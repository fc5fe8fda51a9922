"""DQN, QRDQN, SAC, TD3, DDPG and TQC: the explorer acts in the agent's place, the replay buffer gets everything."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from polaug.errors import invalid
from polaug.integrations.sb3.agent import AugmentedAgent
from polaug.integrations.sb3.balanced import BALANCED, BalancedSampling
from polaug.integrations.sb3.n_step import CompiledNStepReplayBuffer
from polaug.integrations.sb3.students import family_of
from polaug.transfer import transfer_class
from polaug.transfer.balance import Balance

if TYPE_CHECKING:
    _Host = OffPolicyAlgorithm
else:
    _Host = object


class AugmentedOffPolicy(AugmentedAgent, _Host):
    """Hooks for agents with a replay buffer."""

    _action_variable = "actions"

    def _setup_model(self) -> None:
        if self._n_steps_are_ours and not self._wants_long_returns:  # they came with a file that another transfer wrote
            self._n_steps_are_ours, self.n_steps = False, 1
            ours = ("n_steps", "gamma")
            self.replay_buffer_kwargs = {k: v for k, v in self.replay_buffer_kwargs.items() if k not in ours}
            self._shorten_returns()
        super()._setup_model()
        if self._polaug is None:
            return
        if self.replay_buffer_class is NStepReplayBuffer and self.n_steps > 1:
            self.replay_buffer_class = None  # `n_steps` says it all; with the class SB3 would warn on loading
        plain = type(self.replay_buffer)
        # From the settings: an agent that was loaded without an environment has no transfer yet.
        if transfer_class(self._polaug.settings.transfer, family_of(type(self))) is Balance:
            if self.optimize_memory_usage:
                raise invalid("optimize_memory_usage", 'must be False with transfer="balance"', True,
                              "Leave it out, or pass another transfer.")  # fmt: skip
            if plain not in BALANCED and not issubclass(plain, BalancedSampling):
                raise invalid("transfer", '"balance" needs SB3\'s own replay buffer', plain.__name__,
                              "Leave replay_buffer_class out.")  # fmt: skip
            self._swap_buffer(BALANCED.get(plain, plain))
        elif plain is NStepReplayBuffer:
            self._swap_buffer(CompiledNStepReplayBuffer)

    @property
    def _wants_long_returns(self) -> bool:
        if self._polaug is None:
            return False
        return transfer_class(self._polaug.settings.transfer, family_of(type(self))).n_step

    def load_replay_buffer(self, *args: Any, **kwargs: Any) -> None:
        """As SB3's; without the long returns of a transfer that this agent has not."""
        super().load_replay_buffer(*args, **kwargs)
        self._shorten_returns()

    def _shorten_returns(self) -> None:
        """A buffer of ours that is there already has them if the agent's own would have been made with them."""
        if isinstance(self.replay_buffer, CompiledNStepReplayBuffer) and "n_steps" not in self.replay_buffer_kwargs:
            self.replay_buffer.n_steps = 1

    def _swap_buffer(self, cls: type[ReplayBuffer]) -> None:
        """Put another one in place of a buffer that was just built; one that was loaded with its rows stays."""
        assert self.replay_buffer is not None  # SB3 has built it
        if self.replay_buffer.size():
            return
        self.replay_buffer = cls(
            self.buffer_size, self.observation_space, self.action_space, device=self.device, n_envs=self.n_envs,
            **self.replay_buffer_kwargs,
        )  # fmt: skip

    def _break_off(self) -> None:
        """As at a time limit, or long returns would run on into the episodes that begin now."""
        buffer = self.replay_buffer
        if isinstance(buffer, NStepReplayBuffer) and buffer.size():
            last = (buffer.pos - 1) % buffer.buffer_size
            over = buffer.dones[last] != 0.0
            buffer.timeouts[last] = np.where(over, buffer.timeouts[last], buffer.handle_timeout_termination)
            buffer.dones[last] = 1.0
        if isinstance(buffer, BalancedSampling):
            buffer.restart()

    def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
        if self._polaug is None:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        drivers, exams = self._polaug.look(self)
        asked = ((exams, self._best_action), (drivers, self._polaug.act))
        special = [(rows, choose) for rows, choose in asked if True in rows.tolist()]
        if not special:
            return super()._sample_action(learning_starts, action_noise, n_envs)
        actions: NDArray[Any] | None = None
        stored: NDArray[Any] | None = None
        if False in (drivers | exams).tolist():
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
        """As SB3's; without noise an agent of the DQN kind acts by the mean of its latest networks."""
        settled = self._polaug.settled() if deterministic and self._polaug is not None else nullcontext()
        with settled:
            return super().predict(observation, state, episode_start, deterministic)

    def train(self, gradient_steps: int, *args: Any, **kwargs: Any) -> None:
        """The agent's own update, left out where a lesson was in its place, or if earlier ones have ruined it."""
        if self._polaug is not None and self._polaug.attached:
            anew = self._polaug.steps_anew
            if anew is not None and anew < self.learning_starts:
                return  # the buffer fills anew
            gradient_steps = self._polaug.due(gradient_steps)
            if not gradient_steps:
                return
            if self._n_steps_are_ours and self.n_steps > 1:
                # Long returns go with lessons: they say what the explorer got, not what the agent would get.
                n = 1 if self._polaug.champion.untaught else self.n_steps
                self.replay_buffer.n_steps = n  # type: ignore[union-attr]
        super().train(gradient_steps, *args, **kwargs)

    def _on_step(self) -> None:
        super()._on_step()
        anew = None if self._polaug is None or not self._polaug.attached else self._polaug.steps_anew
        schedule = getattr(self, "exploration_schedule", None)
        if anew is not None and schedule is not None:  # who starts anew also explores anew
            rate = schedule(max(0.0, 1.0 - anew / self._total_timesteps))
            self.exploration_rate: float = max(self.exploration_rate, rate)
            self.logger.record("rollout/exploration_rate", self.exploration_rate)

    def _best_action(self) -> NDArray[Any]:
        """What the agent would do without exploration noise."""
        assert self._last_obs is not None  # SB3 has reset the environments
        if isinstance(self.action_space, spaces.Box):
            return self.predict(self._last_obs, deterministic=True)[0]
        # As `predict`, which walks through all modules at every call to switch them to evaluation.
        policy = self.policy
        if policy.training:
            policy.set_training_mode(False)
        assert self._polaug is not None  # there are exams
        with torch.no_grad(), self._polaug.settled():
            chosen = policy._predict(policy.obs_to_tensor(self._last_obs)[0], deterministic=True)
        return np.asarray(chosen.cpu().numpy())


def _replaced(actions: NDArray[Any] | None, rows: NDArray[np.bool_], others: NDArray[Any]) -> NDArray[Any]:
    """`actions` with the rows of `others` where `rows` says so."""
    if actions is None:
        return others
    return np.where(rows.reshape(-1, *[1] * (actions.ndim - 1)), others, actions)
