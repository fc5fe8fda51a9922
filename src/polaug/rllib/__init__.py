"""Ray RLlib: `augment(PPOConfig())` is a config whose algorithm learns from a guide. No training loop is copied.

Hooks: an env runner with two connector pieces, which report each step and apply the coach's decision; a PPO learner
that uses only the agent's own steps; default modules with standardised inputs; `training_step`, `get_state` and
`cleanup` of the algorithm. The coach is a Ray actor, and all runners share its guide.
"""

from __future__ import annotations

from typing import Any, TypeVar

from polaug.config import Augmentation
from polaug.errors import invalid

try:
    import ray.rllib  # noqa: F401
except ImportError as fault:
    raise invalid("polaug.rllib", "Ray RLlib must be installed", str(fault), 'pip install "polaug[rllib]".') from fault

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from polaug.coach.teaching import transfer_class
from polaug.rllib.algorithm import ALGORITHMS
from polaug.rllib.checks import check
from polaug.rllib.learner import OwnStepsLearner
from polaug.rllib.modules import FAMILIES, MODULES
from polaug.rllib.runner import CoachedEnvRunner

__all__ = ["augment"]

PATIENCE = 600.0
"""Default of `sample_timeout_s`: compiling the guide's loops can take longer than RLlib's 60 seconds."""

Config = TypeVar("Config", bound=AlgorithmConfig)


def augment(config: Config, augmentation: Any = None) -> Config:
    """A copy of a PPO, DQN or SAC config that builds the augmented algorithm. Configure the copy as usual.

    Parameters
    ----------
    config : PPOConfig, DQNConfig or SACConfig
        A config of RLlib's new API stack.
    augmentation : Augmentation, dict or str, optional
        The settings, a dict of their fields, or the name of an explorer.

    Examples
    --------
    >>> from ray.rllib.algorithms.ppo import PPOConfig
    >>> import polaug.rllib
    >>> config = polaug.rllib.augment(PPOConfig()).environment("MountainCar-v0").env_runners(num_env_runners=2)
    >>> config.algo_class.__name__
    'AugmentedPPO'
    """
    names = ", ".join(f"{cls.__name__}Config" for cls in ALGORITHMS)
    remedy = "Pass for example ray.rllib.algorithms.ppo.PPOConfig()."
    if not isinstance(config, AlgorithmConfig):
        raise invalid("config", f"must be one of {names}", config, remedy)
    if config.algo_class in ALGORITHMS.values():
        plain = next(base for base, augmented in ALGORITHMS.items() if augmented is config.algo_class)
    elif config.algo_class in ALGORITHMS:
        plain = config.algo_class
    else:
        name = getattr(config.algo_class, "__name__", type(config).__name__)
        raise invalid("config", f"{name} cannot be augmented, only {names}", type(config).__name__, remedy)
    check(config)
    settings = Augmentation() if augmentation is None else Augmentation.of(augmentation)
    kind = plain.__name__
    wants_long_returns = transfer_class(settings.transfer, FAMILIES[kind]).n_step
    augmented: Any = config.copy(copy_frozen=False)
    augmented.algo_class = ALGORITHMS[plain]
    augmented.polaug_settings = settings
    augmented.env_runners(env_runner_cls=CoachedEnvRunner)
    augmented.rl_module(rl_module_spec=RLModuleSpec(module_class=MODULES[kind]))
    if augmented.sample_timeout_s == AlgorithmConfig().sample_timeout_s:  # unless the user has set another
        augmented.env_runners(sample_timeout_s=PATIENCE)
    if kind == "PPO":
        augmented.learners(learner_class=OwnStepsLearner)
    if wants_long_returns and augmented.n_step == 1:
        # Random from 1 to n: with a fixed n, RLlib's buffer never samples the last n − 1 steps of an episode, and loops
        # forever if all episodes are shorter.
        augmented.training(n_step=(1, settings.n_step + 1))
    return augmented  # type: ignore[no-any-return]
