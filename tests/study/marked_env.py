"""An environment for tests of the machinery: leaves its process id in a folder, may be slow, and may break."""

import math
import os
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Marked(gym.Env):
    """Twenty steps of a random walk. From the 50th step on `broken` raises, `quits` exits and `lost` pays NaN."""

    observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, marks=None, pause=0.0, broken=False, quits=False, lost=False, render_mode=None):
        self._quits, self._lost = quits, lost
        self._marks, self._pause, self._broken, self.render_mode, self._count = marks, pause, broken, render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self._marks is not None:
            (Path(self._marks) / str(os.getpid())).touch()
        self._at, self._t = self.np_random.uniform(-1, 1, 2), 0
        return self._at.astype(np.float32), {}

    def step(self, action):
        time.sleep(self._pause)
        self._count += 1
        if self._broken and self._count == 50:
            raise ZeroDivisionError("the simulator broke")
        if self._quits and self._count == 50:
            sys.exit(3)
        self._t += 1
        self._at = np.clip(self._at + self.np_random.normal(0, 0.1, 2) + 0.1 * (2 * int(action) - 1), -10, 10)
        reward = math.nan if self._lost and self._count >= 50 else float(self._at.sum())
        return self._at.astype(np.float32), reward, False, self._t >= 20, {}


class Shown(Marked):
    """The same walk, seen as a picture (`pictures`) or as a dict."""

    def __init__(self, pictures=True, **options):
        super().__init__(**options)
        picture = spaces.Box(0, 255, (36, 36, 1), np.uint8)
        self.observation_space = picture if pictures else spaces.Dict({"at": Marked.observation_space})
        self._pictures = pictures

    def _seen(self, at):
        return np.full((36, 36, 1), int(np.clip(10 * at[0] + 100, 0, 255)), np.uint8) if self._pictures else {"at": at}

    def reset(self, **options):
        at, info = super().reset(**options)
        return self._seen(at), info

    def step(self, action):
        at, *rest = super().step(action)
        return self._seen(at), *rest


if "Marked-v0" not in gym.registry:
    gym.register("Marked-v0", entry_point=Marked)
    gym.register("Broken-v0", entry_point=Marked, kwargs={"broken": True})
    gym.register("Lost-v0", entry_point=Marked, kwargs={"lost": True})
    gym.register("Pictures-v0", entry_point=Shown)
    gym.register("Parts-v0", entry_point=Shown, kwargs={"pictures": False})
