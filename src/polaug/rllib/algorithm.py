"""RLlib's algorithms with a coach, which is built, saved and stopped with them."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn.dqn import DQN
from ray.rllib.algorithms.ppo.ppo import PPO
from ray.rllib.algorithms.sac.sac import SAC
from ray.rllib.core import COMPONENT_ENV_TO_MODULE_CONNECTOR
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from polaug.config import Augmentation
from polaug.rllib.checks import check
from polaug.rllib.desk import Desk
from polaug.rllib.modules import check_actions
from polaug.state import State

STATE = "polaug"
"""The coach's part of a checkpoint."""


class Coached:
    """Mixin before an algorithm. The coach is an actor that ends with the algorithm."""

    kind: str
    config: Any
    metrics: Any
    learner_group: Any
    env_runner_group: Any
    env_runner: Any
    env_to_module_connector: Any

    def __init__(self, config: Any = None, **kwargs: Any) -> None:
        # Restarted runners find the coach by this name.
        own = f"polaug-{uuid.uuid4().hex}"
        if isinstance(config, AlgorithmConfig):
            config = config.copy(copy_frozen=False)
            config.polaug_desk = own
        else:
            config = dict(config or {}) | {"polaug_desk": own}
        super().__init__(config, **kwargs)  # type: ignore[call-arg]  # the parent is an Algorithm

    def setup(self, config: Any) -> None:
        """As RLlib's, and start the coach."""
        check(self.config)
        super().setup(config)  # type: ignore[misc]
        spaces = self.env_runner_group.get_spaces()
        check_actions(spaces[INPUT_ENV_SINGLE_SPACES][1])
        settings: Augmentation = self.config.polaug_settings
        seed = settings.seed if settings.seed is not None else self.config.seed
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        # num_cpus=0: runners may have taken all CPUs.
        desk: Any = ray.remote(Desk)
        weights = self.learner_group.get_weights()
        self._desk = desk.options(
            num_cpus=0, max_concurrency=1000, name=self.config.polaug_desk, scheduling_strategy=here
        ).remote(self.kind, self.config, spaces, weights, settings, seed)
        self._told = 0  # number of steps at the last check whether teaching is due
        ray.get(self._desk.statistics.remote())  # raises errors of the guide now

    def training_step(self) -> None:
        """As RLlib's, and teach if teaching is due."""
        super().training_step()  # type: ignore[misc]
        steps = int(self.metrics.peek((ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME), default=0))
        if steps - self._told < self.config.polaug_settings.teach_every:
            return
        self._told = steps
        if ray.get(self._desk.due.remote()):
            self._teach()

    def _teach(self) -> None:
        group: Any = self.learner_group
        taught = self._desk.teach.remote(group.get_weights(), self._connector_state())
        group.set_weights(ray.get(taught))
        self.env_runner_group.sync_weights(from_worker_or_learner_group=group, inference_only=True)

    def _connector_state(self) -> Any:
        """The state of connector pieces such as MeanStdFilter; empty without any."""
        runner = self.env_runner
        if runner is None:
            return self.env_to_module_connector.get_state()
        return runner.get_state(components=COMPONENT_ENV_TO_MODULE_CONNECTOR)[COMPONENT_ENV_TO_MODULE_CONNECTOR]

    def step(self) -> Any:
        """As RLlib's, with the coach's scalars under `augmentation`."""
        results = super().step()  # type: ignore[misc]
        results["augmentation"] = ray.get(self._desk.statistics.remote())
        return results

    def explorer_state(self) -> State:
        """The guide as plain arrays, for `Explorer.load_state_dict`."""
        return ray.get(self._desk.explorer_state.remote())  # type: ignore[no-any-return]

    def get_state(self, *args: Any, **kwargs: Any) -> Any:
        """As RLlib's, with the coach's."""
        return super().get_state(*args, **kwargs) | {STATE: ray.get(self._desk.state_dict.remote())}  # type: ignore[misc]

    def set_state(self, state: Any) -> None:
        """As RLlib's, with the coach's."""
        super().set_state(state)  # type: ignore[misc]
        if STATE in state:
            ray.get(self._desk.load_state_dict.remote(state[STATE]))

    def cleanup(self) -> None:
        """As RLlib's, and stop the coach's process."""
        super().cleanup()  # type: ignore[misc]
        if hasattr(self, "_desk"):
            ray.kill(self._desk)


class AugmentedPPO(Coached, PPO):  # type: ignore[misc]
    """PPO with a coach."""

    kind = "PPO"


class AugmentedDQN(Coached, DQN):  # type: ignore[misc]
    """DQN with a coach."""

    kind = "DQN"


class AugmentedSAC(Coached, SAC):  # type: ignore[misc]
    """SAC with a coach."""

    kind = "SAC"


ALGORITHMS: dict[type, type[Any]] = {PPO: AugmentedPPO, DQN: AugmentedDQN, SAC: AugmentedSAC}
