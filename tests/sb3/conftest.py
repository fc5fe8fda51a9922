import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from polaug.explorers.base import Explorer

torch.set_num_threads(1)


class Corridor(gym.Env):
    """Walk right ten cells: +1 at the end. Observations, actions and rewards are easy to predict; 25 steps at most."""

    def __init__(self, continuous=False, fail_at=None, space=None):
        self.observation_space = spaces.Box(-1.0, 11.0, (2,), np.float32)
        self.action_space = space or (spaces.Box(-2.0, 2.0, (1,), np.float32) if continuous else spaces.Discrete(2))
        self.fail_at, self.count = fail_at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = float(self.np_random.uniform(0, 0.5)), 0
        return self._see(), {}

    def _see(self):
        return np.array([self.at, self.t / 25], np.float32)

    def step(self, action):
        self.count += 1
        if self.fail_at is not None and self.count == self.fail_at:
            raise OSError("the simulator died")
        first = float(np.asarray(action).reshape(-1)[0])
        move = np.sign(first) if isinstance(self.action_space, spaces.Box) else 2 * (first > 0) - 1
        self.at, self.t = float(np.clip(self.at + move, 0, 10)), self.t + 1
        done = self.at >= 10
        return self._see(), float(done) - 0.01, done, self.t >= 25 and not done, {}


class Guide(Explorer):
    """Knows the corridor: always the last action of the list; keeps what it was shown."""

    def __init__(self, *args, break_at=None, wrong=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self._break_at, self._wrong = [], break_at, wrong

    def _choose(self, flat, states):
        return np.full(len(flat), 0 if self._wrong else self.actions.n_actions - 1)

    def _learn(self, batch):
        if self._break_at is not None and self.steps >= self._break_at:
            raise ZeroDivisionError("bad explorer")
        self.seen.append(batch)

    def _q_values(self, flat, states):
        values = np.tile(np.linspace(0.0, 1.0, self.actions.n_actions), (len(flat), 1))
        return -values if self._wrong else values


class Payer(Guide):
    """Pays one for every step."""

    steers, pays = False, True

    def _bonus(self, batch):
        return np.ones(len(batch))


@pytest.fixture
def corridor():
    return Corridor


@pytest.fixture
def guide():
    return Guide


@pytest.fixture
def payer():
    return Payer
