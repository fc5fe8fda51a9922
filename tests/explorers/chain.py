"""A tiny chain and the plumbing to show single steps to an explorer."""

import numpy as np
from gymnasium import spaces

import polaug

STATES, ACTIONS = spaces.Discrete(4), spaces.Discrete(2)


def step(observation, action, reward, following, terminated=False, truncated=False):
    """One transition of one environment."""
    return polaug.Transitions(
        np.asarray([observation]), np.asarray([action]), np.array([float(reward)]), np.asarray([following]),
        np.array([terminated]), np.array([truncated]),
    )  # fmt: skip


def walk(steps, seed=0):
    """Random transitions on the chain 0 - 1 - 2 - 3: action 1 goes up, 0 down; 3 is the goal and pays 1, others −1."""
    rng, state = np.random.default_rng(seed), 0
    for _ in range(steps):
        action = int(rng.integers(2))
        following = min(max(state + (1 if action else -1), 0), 3)
        terminated = following == 3
        yield state, action, 1.0 if terminated else -1.0, following, terminated
        state = 0 if terminated else following
