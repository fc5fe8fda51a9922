"""Tuned hyperparameters of RL Baselines3 Zoo, as data: what `-tuned` methods use on each environment.

Source: github.com/DLR-RM/rl-baselines3-zoo, hyperparams/{ppo,a2c,dqn,sac,td3,ddpg,qrdqn,trpo,tqc}.yml at commit
22e3ff2 (April 2026). `n_envs` and `normalize` are the Zoo's own keys, `noise` holds its noise_type and noise_std, lin_x
is a rate that falls linearly from x to 0; its budgets (`n_timesteps`) are left out, since a study sets its own.
"""

from __future__ import annotations

from typing import Any

SOURCE = "RL Baselines3 Zoo, hyperparams/{algo}.yml at 22e3ff2"

_BIG = {"net_arch": [256, 256]}
_ACROBOT = {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
    "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
}  # fmt: skip
_MOUNTAIN_CAR = {
    "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
    "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
    "exploration_final_eps": 0.07,
}  # fmt: skip
_CART_POLE = {
    "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
    "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
}  # fmt: skip
_SPARSE_THROTTLE = {
    "learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "train_freq": 32,
    "gradient_steps": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 0, "use_sde": True,
    "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]},
}  # fmt: skip
_NOISY_THROTTLE = {
    "noise": ["ornstein-uhlenbeck", 0.5], "gradient_steps": 1, "train_freq": 1, "learning_rate": 1e-3,
    "batch_size": 256, "policy_kwargs": {"net_arch": [400, 300]},
}  # fmt: skip
_NOISY_PENDULUM = {
    "gamma": 0.98, "buffer_size": 200_000, "learning_starts": 10_000, "noise": ["normal", 0.1], "gradient_steps": 1,
    "train_freq": 1, "learning_rate": 1e-3, "policy_kwargs": {"net_arch": [400, 300]},
}  # fmt: skip


def _quantiles(n: int) -> dict[str, Any]:
    return {"policy_kwargs": _BIG | {"n_quantiles": n}}


TUNED: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "CartPole-v1"): {
        "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
        "ent_coef": 0.0, "learning_rate": "lin_0.001", "clip_range": "lin_0.2",
    },
    ("ppo", "MountainCar-v0"): {
        "normalize": True, "n_envs": 16, "n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4,
        "ent_coef": 0.0,
    },
    ("ppo", "MountainCarContinuous-v0"): {
        "normalize": True, "n_steps": 8, "batch_size": 256, "gae_lambda": 0.9, "gamma": 0.9999, "n_epochs": 10,
        "ent_coef": 0.00429, "learning_rate": 7.77e-5, "clip_range": 0.1, "max_grad_norm": 5.0, "vf_coef": 0.19,
        "use_sde": True, "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    },
    ("ppo", "Acrobot-v1"): {
        "normalize": True, "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4,
        "ent_coef": 0.0,
    },
    ("ppo", "Pendulum-v1"): {
        "n_envs": 4, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0,
        "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
    },
    ("ppo", "LunarLander-v3"): {
        "n_envs": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
        "ent_coef": 0.01,
    },
    ("a2c", "CartPole-v1"): {"n_envs": 8, "ent_coef": 0.0},
    ("a2c", "MountainCar-v0"): {"normalize": True, "n_envs": 16, "ent_coef": 0.0},
    ("a2c", "MountainCarContinuous-v0"): {
        "normalize": True, "n_envs": 4, "n_steps": 100, "ent_coef": 0.0, "use_sde": True, "sde_sample_freq": 16,
        "policy_kwargs": {"log_std_init": 0.0, "ortho_init": False},
    },
    ("a2c", "Acrobot-v1"): {"normalize": True, "n_envs": 16, "ent_coef": 0.0},
    ("a2c", "Pendulum-v1"): {
        "normalize": True, "n_envs": 8, "ent_coef": 0.0, "max_grad_norm": 0.5, "n_steps": 8, "gae_lambda": 0.9,
        "vf_coef": 0.4, "gamma": 0.9, "use_rms_prop": True, "normalize_advantage": False,
        "learning_rate": "lin_7e-4", "use_sde": True, "policy_kwargs": {"log_std_init": -2.0, "ortho_init": False},
    },
    ("a2c", "LunarLander-v3"): {
        "n_envs": 8, "gamma": 0.995, "n_steps": 5, "learning_rate": "lin_0.00083", "ent_coef": 0.00001,
    },
    ("dqn", "CartPole-v1"): _CART_POLE | {"policy_kwargs": _BIG},
    ("dqn", "MountainCar-v0"): _MOUNTAIN_CAR | {"policy_kwargs": _BIG},
    ("dqn", "Acrobot-v1"): _ACROBOT | {"policy_kwargs": _BIG},
    ("dqn", "LunarLander-v3"): _ACROBOT | {"policy_kwargs": _BIG},  # the Zoo's are the same
    ("qrdqn", "CartPole-v1"): _CART_POLE | _quantiles(10),
    ("qrdqn", "MountainCar-v0"): _MOUNTAIN_CAR | _quantiles(25),
    ("qrdqn", "Acrobot-v1"): _ACROBOT | _quantiles(25),
    ("qrdqn", "LunarLander-v3"): {
        "learning_rate": "lin_1.5e-3", "batch_size": 128, "buffer_size": 100_000, "learning_starts": 10_000,
        "gamma": 0.995, "target_update_interval": 1, "train_freq": 256, "gradient_steps": -1,
        "exploration_fraction": 0.24, "exploration_final_eps": 0.18,
    } | _quantiles(170),
    ("sac", "MountainCarContinuous-v0"): _SPARSE_THROTTLE,
    ("sac", "Pendulum-v1"): {"learning_rate": 1e-3},
    ("tqc", "MountainCarContinuous-v0"): _SPARSE_THROTTLE,
    ("tqc", "Pendulum-v1"): {"learning_rate": 1e-3},
    ("td3", "MountainCarContinuous-v0"): _NOISY_THROTTLE,
    ("td3", "Pendulum-v1"): _NOISY_PENDULUM,
    ("ddpg", "MountainCarContinuous-v0"): _NOISY_THROTTLE,
    ("ddpg", "Pendulum-v1"): _NOISY_PENDULUM,
    ("trpo", "CartPole-v1"): {
        "n_envs": 2, "n_steps": 512, "batch_size": 512, "cg_damping": 1e-3, "gae_lambda": 0.98, "gamma": 0.99,
        "learning_rate": 1e-3, "n_critic_updates": 20,
    },
    ("trpo", "MountainCar-v0"): {"normalize": True, "n_envs": 2, "n_steps": 1024, "n_critic_updates": 20},
    ("trpo", "MountainCarContinuous-v0"): {"normalize": True, "n_envs": 2, "use_sde": True, "sde_sample_freq": 4},
    ("trpo", "Acrobot-v1"): {"normalize": True, "n_envs": 2, "n_steps": 1024},
    ("trpo", "Pendulum-v1"): {
        "n_envs": 2, "n_steps": 1024, "gamma": 0.9, "n_critic_updates": 15, "use_sde": True, "sde_sample_freq": 4,
    },
    ("trpo", "LunarLander-v3"): {
        "n_envs": 2, "n_steps": 512, "cg_damping": 0.01, "gae_lambda": 0.98, "gamma": 0.99, "learning_rate": 1e-3,
        "n_critic_updates": 15,
    },
}  # fmt: skip
"""By algorithm and Gymnasium id."""

_LIKE = {"polaug/PaperMountainCar-v0": "MountainCar-v0"}  # the same car, another reward at the flag


def tuned(algo: str, env_id: str) -> dict[str, Any] | None:
    """The Zoo's settings of an algorithm on an environment; None where it has none."""
    found = TUNED.get((algo, _LIKE.get(env_id, env_id)))
    return None if found is None else dict(found)
