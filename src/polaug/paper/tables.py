"""The numbers of figure 1: Q as observed and Q̂ as completed on MountainCar, by the paper's explorer and by polaug's.

Both drive for some episodes with the same seed. Q is shown for each action on the paper's grid of 19 positions × 15
velocities, 285 states. What "observed" is differs: Algorithm 1 keeps Q̃ = Q/Nq of its Q-learning; for polaug's it is the
mean discounted return that followed the pairs tried in a cell, which is what the rewards alone say.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.checks import whole
from polaug.explorers import Explorer, make_explorer
from polaug.features import state_features
from polaug.features.grid import Grid
from polaug.state import State
from polaug.study.explore import drive
from polaug.study.maps import Trail, means_of
from polaug.study.tasks import task

TASK = "MountainCar-paper"
GRID = {"step": (0.1, 0.01)}
SHAPE = (19, 15)
ACTIONS = 3
GAMMA = 0.99
EXPLORERS: dict[str, dict[str, Any]] = {
    "paper": {"hashing": "grid", "hashing_options": GRID, "epsilon": 1.0},
    "portfolio": {},
}
"""Explorers that are shown, with their options: Y = (−9, 1, 11) and the paper's grid for the paper's."""

Array = NDArray[np.float64]


def q_tables(episodes: int = 20, seed: int = 0) -> State:
    """For each explorer `NAME.observed` (19, 15, 3), NaN where nothing was tried, `NAME.completed` and `NAME.steps`."""
    tables: State = {"episodes": np.array(whole("episodes", episodes, 1)), "seed": np.array(whole("seed", seed, 0))}
    for name, options in EXPLORERS.items():
        trail = Trail(2, GAMMA, np.asarray)
        with contextlib.closing(task(TASK).make()) as env:
            space = env.observation_space
            explorer = make_explorer(name, space, env.action_space, seed=seed, **options)
            drive(env, explorer, episodes=episodes, seed=seed, watch=trail.add)
            grid = state_features("grid", space, step=GRID["step"])
            assert isinstance(grid, Grid)
            observed = _learnt(explorer) if name == "paper" else _returns(trail, grid)
            completed = explorer.q_values(np.asarray(grid.row_features(), dtype=np.float32))
            shape = (*SHAPE, ACTIONS)
            tables[f"{name}.observed"] = observed.reshape(shape)
            tables[f"{name}.completed"] = np.full(shape, np.nan) if completed is None else completed.reshape(shape)
            tables[f"{name}.steps"] = np.array(explorer.steps)
    return tables


def _learnt(explorer: Explorer) -> Array:
    """Q̃ = Q/Nq (285, 3) of Algorithm 1."""
    state = explorer.state_dict()
    rows, q, visits = (state[f"state.{name}"] for name in ("rows", "q", "visits"))
    table = np.full((SHAPE[0] * SHAPE[1], ACTIONS), np.nan)
    table[rows] = np.where(visits > 0, q / np.maximum(visits, 1), np.nan)
    return table


def _returns(trail: Trail, grid: Grid) -> Array:
    """Mean discounted return (285, 3) that followed each pair."""
    states, numbers = trail.rows()
    pairs = grid.rows(states) * ACTIONS + numbers[:, 0].astype(np.int64)
    return means_of(pairs, numbers[:, 1], SHAPE[0] * SHAPE[1] * ACTIONS).reshape(-1, ACTIONS)
