"""Sarsa(λ) with tile coding: the classic reference on MountainCar (Sutton and Barto, 2018, sections 9.5.4 and 12.7).

Q is linear in binary features: `tilings` grids over the bounded observation, each shifted by a fraction of a tile. The
agent acts greedily. Values start at 0, which is optimistic if every step has a cost. For few bounded dimensions and
discrete actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

from polaug.checks import whole
from polaug.errors import UnsupportedSpaceError, invalid
from polaug.streams import stream

MOST_TILES = 1_000_000
"""Maximum number of tiles of all tilings and actions."""


class TileSarsa(BaseAlgorithm):
    """Sarsa(λ) with replacing traces, one environment, an update at every step.

    Parameters
    ----------
    policy, env, seed, device, verbose, tensorboard_log
        As in Stable-Baselines3; `policy` is not used.
    step_size : float
        Step size of an update, shared by the tilings. It and `tilings` were tuned on MountainCar.
    trace_decay : float
        λ (book, figure 12.10).
    gamma : float
        Discount; 1 for tasks with a cost per step.
    tilings, tiles : int
        Number of grids, and of tiles along each dimension (book, section 10.1: 8).
    """

    policy_aliases: ClassVar[dict[str, Any]] = {"MlpPolicy": BasePolicy}

    def __init__(
        self,
        policy: str,
        env: Any,
        *,
        step_size: float = 1.2,
        trace_decay: float = 0.9,
        gamma: float = 1.0,
        tilings: int = 16,
        tiles: int = 8,
        seed: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
        tensorboard_log: str | None = None,
        _init_setup_model: bool = True,
    ) -> None:
        super().__init__(
            policy, env, step_size, verbose=verbose, device=device, seed=seed, tensorboard_log=tensorboard_log,
            support_multi_env=False, supported_action_spaces=(spaces.Discrete,),
        )  # fmt: skip
        self.step_size, self.trace_decay, self.gamma = step_size, trace_decay, gamma
        self.tilings, self.tiles = whole("tilings", tilings, 1), whole("tiles", tiles, 1)
        if _init_setup_model:
            self._setup_model()

    def _setup_model(self) -> None:
        space = self.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not space.is_bounded():
            raise UnsupportedSpaceError(
                f"observation_space: Sarsa with tile coding needs a bounded vector, got {space}. Choose dqn instead."
            )
        (d,), n = space.shape, int(self.action_space.n)  # type: ignore[attr-defined]  # it is Discrete
        count = self.tilings * n * (self.tiles + 1) ** d
        if count > MOST_TILES:
            raise invalid("tiles", f"there may be {MOST_TILES:,} in all", f"{count:,}", "Pass fewer tiles.")
        self.set_random_seed(self.seed)
        self._rng = stream(self.seed or 0, "tiles")
        if not hasattr(self, "weights"):  # a saved agent brings its own
            self.weights = np.zeros((n, self.tilings * (self.tiles + 1) ** d))
        # Odd displacements 1, 3, 5, … of the dimensions keep the tilings apart in every direction (section 9.5.4).
        self._offsets = np.arange(self.tilings)[:, None] * (2 * np.arange(d) + 1) / self.tilings % 1.0
        self._strides = (self.tiles + 1) ** np.arange(d)

    def active(self, observations: NDArray[Any]) -> NDArray[np.int64]:
        """The tile of each tiling (n, tilings) that holds an observation."""
        low, high = self.observation_space.low, self.observation_space.high  # type: ignore[attr-defined]
        scaled = np.clip((np.asarray(observations) - low) / (high - low), 0.0, 1.0 - 1e-9)
        cells = np.floor(scaled[:, None, :] * self.tiles + self._offsets).astype(np.int64)
        places: NDArray[np.int64] = cells @ self._strides
        places += np.arange(self.tilings) * (self.tiles + 1) ** len(self._strides)
        return places

    def q_values(self, observations: NDArray[Any]) -> NDArray[np.float64]:
        """Q (n, actions)."""
        values: NDArray[np.float64] = self.weights[:, self.active(observations)].sum(axis=-1).T
        return values

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> Any:
        """Greedy actions, for a batch or for one observation."""
        single = np.ndim(observation) == 1
        actions = self.q_values(np.atleast_2d(observation)).argmax(axis=1)
        return (actions[0] if single else actions), state

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = 100,
        tb_log_name: str = "TileSarsa",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> TileSarsa:
        """Learn for so many steps."""
        total, calls = self._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)
        calls.on_training_start(locals(), globals())
        env = self.get_env()
        assert env is not None  # __init__ needs one
        trace = np.zeros_like(self.weights)
        tiles, action = self._choice(self._last_obs)
        while self.num_timesteps < total:
            new_obs: Any
            new_obs, rewards, dones, infos = env.step(np.array([action]))
            self.num_timesteps += 1
            calls.update_locals(locals())
            if not calls.on_step():
                break
            self._update_info_buffer(infos, dones)
            done, cut = bool(dones[0]), bool(infos[0].get("TimeLimit.truncated"))
            following = infos[0]["terminal_observation"][None] if done else new_obs
            next_tiles, next_action = self._choice(following)
            ahead = 0.0 if done and not cut else self.gamma * self.weights[next_action, next_tiles].sum()
            error = float(rewards[0]) + ahead - self.weights[action, tiles].sum()
            trace[:, tiles] = 0.0
            trace[action, tiles] = 1.0
            self.weights += self.step_size / self.tilings * error * trace
            trace *= 0.0 if done else self.gamma * self.trace_decay
            self._last_obs = new_obs
            tiles, action = self._choice(new_obs) if done else (next_tiles, next_action)
        calls.on_training_end()
        return self

    def _choice(self, observation: Any) -> tuple[NDArray[np.int64], int]:
        """Its tiles, and a greedy action; ties are broken at random."""
        tiles = self.active(observation)[0]
        values = self.weights[:, tiles].sum(axis=1)
        return tiles, int(self._rng.choice(np.flatnonzero(values == values.max())))

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        return [], []  # the weights are an array

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_rng"]
