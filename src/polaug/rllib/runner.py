"""The runner's side: connector pieces that report each step to the coach and apply its decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.module_to_env import NormalizeAndClipActions
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from polaug.errors import PolaugError, invalid
from polaug.features.spaces import mapped
from polaug.rllib.modules import Actions, best_actions, log_prob

DRIVER = "polaug_driver"
"""Column of an episode's extra model outputs: what drove the step."""

OWN, GUIDE, EVALUATION = range(3)
"""Its values: the agent with its noisy policy, the guide, the agent without exploration noise."""


class Seat:
    """A runner's connection to the coach: its last observation, and its step that was not reported yet."""

    def __init__(self, name: str, runner: int, actions: Actions) -> None:
        self._name, self._runner, self._actions = name, runner, actions
        self._desk: Any = None
        self._observation: Any = None
        self._step: tuple[Any, ...] | None = None
        self._open = False  # whether an episode is under way

    def see(self, episode: Any) -> None:
        """Record the latest raw step of the episode, before other pieces change it."""
        observation = mapped(np.array, episode.get_observations(-1))
        if not episode.t:
            if self._open:  # the runner was reset in the middle of an episode
                self._step = None
            self._observation, self._open = observation, True
            return
        terminated = bool(episode.is_terminated)  # a time limit at the end of the task is a termination
        ended = terminated, bool(episode.is_truncated) and not terminated
        action = self._actions.to_environment(episode.get_actions(-1))
        self._step = (self._observation, action, float(episode.get_rewards(-1)), observation, *ended)
        self._observation, self._open = observation, not any(ended)

    def ask(self) -> tuple[int, Any]:
        """Report the latest step. Returns the driver of the next one, and the guide's action if the guide drives."""
        if self._desk is None:
            self._desk = self._find()
            context = ray.get_runtime_context()
            self._handle = context.current_actor if self._runner else None
        step, self._step = self._step, None
        reference = self._desk.ask.remote(self._runner, self._handle, step, self._observation)
        return ray.get(reference)  # type: ignore[no-any-return]

    def _find(self) -> Any:
        try:
            return ray.get_actor(self._name)
        except ValueError as fault:
            raise PolaugError(f"augmentation: the coach {self._name!r} has stopped. Build the algorithm again, or "
                              "restore it from a checkpoint.") from fault  # fmt: skip


class See(ConnectorV2):  # type: ignore[misc]  # Ray ships no types for it
    """First piece of the env-to-module pipeline: reports raw observations and rewards to the guide."""

    def __init__(self, seat: Seat) -> None:
        super().__init__()
        self._seat = seat

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch unchanged."""
        if episodes[0].is_reset:
            self._seat.see(episodes[0])
        return batch


class Act(ConnectorV2):  # type: ignore[misc]
    """Piece before the scaling of actions: inserts the guide's action, or the agent's without exploration noise."""

    def __init__(self, seat: Seat, actions: Actions) -> None:
        super().__init__()
        self._seat, self._actions = seat, actions

    def __call__(self, *, batch: Any, episodes: Any, rl_module: Any, **kwargs: Any) -> Any:
        """Set ACTIONS, ACTION_LOGP and the column of the driver."""
        if not episodes[0].is_reset:  # the runner is about to reset the environment
            return batch
        driver, action = self._seat.ask()
        key = next(iter(batch[Columns.ACTIONS]))
        if driver == GUIDE:
            chosen: Any = self._actions.to_module(action)
        elif driver == EVALUATION:
            chosen = best_actions(rl_module, rl_module.latest)[0]
        if driver != OWN:
            before = batch[Columns.ACTIONS][key][0]
            chosen = np.asarray(chosen, dtype=np.asarray(before).dtype).reshape(np.shape(before))
            batch[Columns.ACTIONS][key] = [chosen]
            if Columns.ACTION_DIST_INPUTS in batch and Columns.ACTION_LOGP in batch:
                value = log_prob(rl_module, batch[Columns.ACTION_DIST_INPUTS][key][0], chosen)
                batch[Columns.ACTION_LOGP][key] = [np.float32(value)]
        batch[DRIVER] = {key: [np.int8(driver)]}
        return batch


class CoachedEnvRunner(SingleAgentEnvRunner):  # type: ignore[misc]
    """RLlib's runner with `See` and `Act` in its pipelines. Evaluation runners have no coach."""

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        if self.env is None or config.in_evaluation:
            return
        actions = Actions(self.env.single_action_space, config)
        name = getattr(config, "polaug_desk", None)
        if name is None:
            remedy = "Call config.build_algo(), or ray.tune.Tuner(config.algo_class, param_space=config)."
            raise invalid("algorithm", "an augmented config must build its own algorithm", "another one", remedy)
        seat = Seat(name, self.worker_index or 0, actions)
        self._env_to_module.prepend(See(seat))
        self._module_to_env.insert_before(NormalizeAndClipActions, Act(seat, actions))

    def sample(self, *, num_timesteps: int | None = None, num_episodes: int | None = None, **kwargs: Any) -> Any:
        """As RLlib's. Without an amount, every runner samples as much as the first one."""
        if num_timesteps is None and num_episodes is None:
            num_timesteps = self.config.get_rollout_fragment_length(1)
        return super().sample(num_timesteps=num_timesteps, num_episodes=num_episodes, **kwargs)
