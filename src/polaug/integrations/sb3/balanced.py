"""Replay buffers that draw half of every minibatch from high-value and half from low-value rollouts.

Defined here by name, not made on the fly, so that SB3's `save_replay_buffer` can store them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer

from polaug.integrations.sb3.n_step import CompiledNStepReplayBuffer
from polaug.transfer.balance import balanced

if TYPE_CHECKING:
    _Buffer = ReplayBuffer
else:
    _Buffer = object


class BalancedSampling(_Buffer):
    """Mixed in before a replay buffer: remembers the return of the episode that each row belongs to."""

    _pool: NDArray[np.int64] | None = None  # rows of both kinds, equally many
    _sorted_at: int | None = None  # rows ever added when the pool was made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shape = (self.buffer_size, self.n_envs)
        self.episode_returns = np.full(shape, np.nan)  # NaN: not ended yet
        self._first = np.zeros(self.n_envs, dtype=np.int64)  # rows ever added, at the start
        self._added = 0

    def reset(self) -> None:
        """Empty; episodes under way begin here."""
        super().reset()
        self.episode_returns[:] = np.nan
        self._first[:] = self._added
        self._pool = self._sorted_at = None

    def restart(self) -> None:
        """Environments have been reset: the returns of episodes under way remain unknown."""
        self._first[:] = self._added

    def add(self, *args: Any, **kwargs: Any) -> None:
        """As the parent's; fills in the return of an episode when it ends."""
        row = self.pos
        self.episode_returns[row] = np.nan
        super().add(*args, **kwargs)
        self._added += 1
        for env in np.flatnonzero(self.dones[row]).tolist():
            length = min(self._added - int(self._first[env]), self.buffer_size)
            rows = (row - np.arange(length)) % self.buffer_size
            self.episode_returns[rows, env] = self.rewards[rows, env].sum()
            self._first[env] = self._added

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Half a minibatch from each kind of rollout, once there are both."""
        rng = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002 (seeded by SB3's own generator)
        # Sorting a million rows takes longer than training on a minibatch of them: a thousandth may be out of date.
        if self._sorted_at is None or self._added - self._sorted_at > self.size() // 1000:
            self._pool, self._sorted_at = balanced(self._row_returns(), rng), self._added
        if self._pool is None:
            return super().sample(batch_size, env=env)
        return self._get_samples(rng.choice(self._pool, size=batch_size), env=env)

    def _row_returns(self) -> NDArray[np.float64]:
        """The mean return of the episodes that each row belongs to, over environments; NaN if none has ended."""
        values = self.episode_returns[: self.size()]
        known = np.isfinite(values)
        means = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return np.where(known.any(axis=1), means, np.nan)


class BalancedReplayBuffer(BalancedSampling, ReplayBuffer):
    """SB3's replay buffer with balanced sampling."""


class BalancedNStepReplayBuffer(BalancedSampling, CompiledNStepReplayBuffer):
    """The n-step replay buffer with balanced sampling."""


BALANCED: dict[type[ReplayBuffer], type[ReplayBuffer]] = {
    ReplayBuffer: BalancedReplayBuffer,
    NStepReplayBuffer: BalancedNStepReplayBuffer,
}
