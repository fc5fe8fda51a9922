"""Checks of RLlib configs."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from polaug.errors import invalid
from polaug.rllib.learner import OwnStepsLearner
from polaug.rllib.modules import MODULES
from polaug.rllib.runner import CoachedEnvRunner


def check(config: Any) -> None:
    """Raise an error for settings, made before or after `augment`, that do not work with a coach."""
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise invalid("api_stack", "must be RLlib's new API stack", "the old one",
                      "Remove config.api_stack(...): the new stack is the default.")  # fmt: skip
    if config.framework_str != "torch":
        raise invalid("framework", "must be torch", config.framework_str, 'Call config.framework("torch").')
    if config.is_multi_agent:
        raise invalid("multi_agent", "an augmented config trains a single agent", sorted(config.policies),
                      "Remove config.multi_agent(...).")  # fmt: skip
    if config.num_envs_per_env_runner != 1:
        raise invalid("num_envs_per_env_runner",
                      "must be 1, because RLlib resets the environments of a runner at different times",
                      config.num_envs_per_env_runner,
                      f"Call config.env_runners(num_env_runners={config.num_envs_per_env_runner}).")  # fmt: skip
    if config.batch_mode != "truncate_episodes":
        raise invalid("batch_mode", 'must be "truncate_episodes", because runners step together', config.batch_mode,
                      "Remove this setting.")  # fmt: skip
    if config.num_learners > 1 and "PPO" in type(config).__name__:
        raise invalid("num_learners", "must be 0 or 1 for PPO, because learners get different numbers of steps",
                      config.num_learners, "Call config.learners(num_learners=1).")  # fmt: skip
    if config.env_runner_cls not in (None, SingleAgentEnvRunner, CoachedEnvRunner):
        raise invalid("env_runner_cls", "must be RLlib's default", config.env_runner_cls, "Remove this setting.")
    if config._learner_class not in (None, PPOTorchLearner, OwnStepsLearner) and "PPO" in type(config).__name__:
        raise invalid("learner_class", "must be PPO's default", config._learner_class,
                      "Remove this setting.")  # fmt: skip
    spec: Any = config._rl_module_spec
    if spec is not None and (
        not isinstance(spec, RLModuleSpec) or spec.module_class not in (None, *MODULES.values())
        or spec.catalog_class is not None
    ):  # fmt: skip
        raise invalid("rl_module_spec", "must be the algorithm's default module", spec,
                      "Change it with config.rl_module(model_config=...).")  # fmt: skip
    model: Any = config.model_config
    if model.get("use_lstm"):
        raise invalid("model_config", "recurrent modules cannot be augmented", {"use_lstm": True}, "Remove use_lstm.")
