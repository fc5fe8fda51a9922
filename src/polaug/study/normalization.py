"""The statistics by which VecNormalize scaled an agent's observations, as plain arrays beside the agent: no pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from polaug.errors import StateError
from polaug.state import load_state, save_state

NORMALIZATION = "normalization.npz"


def write_normalization(path: Path, model: Any) -> None:
    """Write what `model` needs to see observations as in training; nothing if it sees them raw."""
    normalizer = model.get_vec_normalize_env()
    if normalizer is None or not normalizer.norm_obs:
        return
    statistics = normalizer.obs_rms
    numbers = np.array([normalizer.epsilon, normalizer.clip_obs], dtype=np.float64)
    save_state(path, {"mean": statistics.mean, "var": statistics.var, "epsilon_and_clip": numbers})


def read_normalization(path: Path, venv: VecEnv) -> VecNormalize:
    """`venv` under those statistics, which no longer change."""
    state = load_state(path)
    normalizer = VecNormalize(venv, training=False, norm_reward=False)
    statistics: Any = normalizer.obs_rms
    try:
        mean, var, (epsilon, clip) = state["mean"], state["var"], state["epsilon_and_clip"].tolist()
    except (KeyError, ValueError) as fault:
        raise StateError(f"model: {path} is damaged ({fault!r}). Train the agent again.") from fault
    if mean.shape != statistics.mean.shape or var.shape != mean.shape:
        raise StateError(f"model: {path} is of observations of shape {mean.shape}, not of this environment's.")
    statistics.mean, statistics.var = mean, var
    normalizer.epsilon, normalizer.clip_obs = epsilon, clip
    return normalizer
