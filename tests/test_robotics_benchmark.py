"""The benchmark of goals runs, in small, without the extra that its own tasks need."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from benchmarks import robotics
from gymnasium import spaces


class Line(gym.Env):
    """Walk to a goal on a line; MuJoCo's goal tasks in small."""

    def __init__(self):
        line = spaces.Box(-5.0, 5.0, (1,), np.float64)
        self.observation_space = spaces.Dict({"observation": line, "achieved_goal": line, "desired_goal": line})
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def _see(self):
        at = np.array([self.at])
        return {"observation": at, "achieved_goal": at.copy(), "desired_goal": np.array([self.goal])}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = 0.0, float(self.np_random.choice([-1.0, 1.0]))
        return self._see(), {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.abs(achieved_goal - desired_goal)[..., 0] > 0.5).astype(float)

    def step(self, action):
        self.at = float(np.clip(self.at + action[0], -5, 5))
        reward = float(self.compute_reward(np.array([self.at]), np.array([self.goal]), {}))
        return self._see(), reward, False, False, {"is_success": reward == 0.0}


@pytest.fixture
def line(monkeypatch, tmp_path):
    gym.register("polaug-tests/Line-v0", entry_point=Line, max_episode_steps=10)
    monkeypatch.setitem(robotics.CASES, "line", robotics.Case("polaug-tests/Line-v0", 40, hindsight=True))
    monkeypatch.setattr(robotics, "CONFIRM_EPISODES", 5)
    monkeypatch.setattr(robotics, "POINTS", 2)
    monkeypatch.setattr(robotics, "RESULTS", tmp_path / "robotics.csv")
    yield
    del gym.registry["polaug-tests/Line-v0"]


def test_runs_are_rows_and_are_not_run_again(line, monkeypatch, capsys):
    monkeypatch.setattr(robotics, "_register", lambda: None)
    command = ["robotics", "--cases", "line", "--variants", "default", "plain", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", command)
    robotics.main()
    text = robotics.RESULTS.read_text()
    assert [row.split(",")[:4] for row in text.splitlines()[1:]] == [
        ["line", "default", "9000", "40"], ["line", "plain", "9000", "40"],
    ]  # fmt: skip
    robotics.main()
    assert robotics.RESULTS.read_text() == text
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [*command, "--table"])
    robotics.main()
    assert capsys.readouterr().out.count("| line | 40 |") == 2


def test_a_missing_extra_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium_robotics", None)
    with pytest.raises(SystemExit, match=r'pip install -e "\.\[robotics\]"'):
        robotics._register()
