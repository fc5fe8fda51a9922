"""Replay buffers that draw half of every minibatch from high-value and half from low-value rollouts.

Defined here by name, not made on the fly, so that SB3's `save_replay_buffer` can store them.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
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

    _pool: NDArray[np.int64] | None = None  # steps of both kinds, equally many, as row · environments + environment
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
            self._pool, self._sorted_at = balanced(self.episode_returns[: self.size()].ravel(), rng), self._added
        if self._pool is None:
            return super().sample(batch_size, env=env)
        rows, columns = np.divmod(rng.choice(self._pool, size=batch_size), self.n_envs)
        if self.n_envs == 1:
            return self._get_samples(rows, env=env)
        # The parent would choose an environment for each row by itself, so it is asked about one at a time.
        samples: list[Any] = [self._column(k)._get_samples(rows[columns == k], env=env) for k in np.unique(columns)]
        fields = zip(*samples, strict=True)
        return type(samples[0])(*(None if parts[0] is None else torch.cat(parts) for parts in fields))

    def _column(self, k: int) -> ReplayBuffer:
        """The steps of environment k alone, as views of the same arrays."""
        column, shape = copy.copy(self), (self.buffer_size, self.n_envs)
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray) and array.shape[:2] == shape:
                setattr(column, name, array[:, k : k + 1])
        column.n_envs = 1
        return column


class BalancedReplayBuffer(BalancedSampling, ReplayBuffer):
    """SB3's replay buffer with balanced sampling."""


class BalancedNStepReplayBuffer(BalancedSampling, CompiledNStepReplayBuffer):
    """The n-step replay buffer with balanced sampling."""


BALANCED: dict[type[ReplayBuffer], type[ReplayBuffer]] = {
    ReplayBuffer: BalancedReplayBuffer,
    NStepReplayBuffer: BalancedNStepReplayBuffer,
}
