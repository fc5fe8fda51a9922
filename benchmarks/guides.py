"""PPO on LunarLander with the heuristic that Gymnasium ships as its guide, against other uses of the same heuristic.

    python -m benchmarks.guides --seeds 5 --steps 15000

Every method may make `--steps` environment steps, those of the heuristic included; the agent's own deterministic policy
is then evaluated on 100 fresh starts. Rows go to `benchmarks/results/guides.csv` as runs end; the same command goes on
where it was stopped. `--table` prints the medians.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.envs.box2d.lunar_lander import heuristic
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

import polaug
from benchmarks import cells
from polaug.streams import subseed
from polaug.study.agents import Evaluator
from polaug.study.levels import CONFIRM_EPISODES
from polaug.study.tasks import task

RESULTS = Path(__file__).parent / "results" / "guides.csv"
TASK = "LunarLander-v3"
FIELDS = ("method", "seed", "steps", "level")

CLONING_SHARE = 0.3  # of the steps are demonstrations, which is about 15 episodes of 15,000 steps
CLONING_EPOCHS = 60
LONGEST_START = 300  # steps that the heuristic makes before the agent takes over: most of an episode


def controller(env: gym.Env[Any, Any] | None = None) -> Callable[[Any], int]:
    """The heuristic as a function of the observation; it only asks its environment whether actions are continuous."""
    asked = gym.make(TASK) if env is None else env
    return lambda observation: int(heuristic(asked.unwrapped, observation))


class Heuristic:
    """The heuristic itself, with the methods of an agent that an `Evaluator` calls."""

    def __init__(self) -> None:
        self._act = controller()

    def predict(self, observations: Any, **_: Any) -> tuple[Any, None]:
        """Its actions."""
        return np.array([self._act(each) for each in observations]), None

    def get_vec_normalize_env(self) -> None:
        """It sees raw observations."""


def plain(seed: int, steps: int) -> Any:
    """PPO as it is."""
    return PPO("MlpPolicy", TASK, seed=seed, device="cpu").learn(steps)


def guided(seed: int, steps: int) -> Any:
    """PPO with the heuristic as guide, no settings."""
    settings = polaug.Augmentation(guide=controller())
    return polaug.augment(PPO)("MlpPolicy", TASK, seed=seed, device="cpu", augmentation=settings).learn(steps)


def cloned(seed: int, steps: int) -> Any:
    """Behaviour cloning on demonstrations, then PPO."""
    env, act = gym.make(TASK), controller()
    demonstrations = int(CLONING_SHARE * steps)
    seen, taken = [], []
    observation, _ = env.reset(seed=subseed(seed, "benchmark", "demonstrations"))
    for _ in range(demonstrations):
        seen.append(observation)
        taken.append(act(observation))
        observation, _, terminated, truncated, _ = env.step(taken[-1])
        if terminated or truncated:
            observation, _ = env.reset()
    model = PPO("MlpPolicy", TASK, seed=seed, device="cpu")
    states, labels = torch.as_tensor(np.array(seen)), torch.as_tensor(taken)
    adam = torch.optim.Adam(model.policy.parameters(), lr=1e-3)
    for _ in range(CLONING_EPOCHS):
        for rows in torch.randperm(len(states)).split(64):
            _, log_probs, _ = model.policy.evaluate_actions(states[rows], labels[rows])
            adam.zero_grad()
            (-log_probs.mean()).backward()
            adam.step()
    return model.learn(steps - demonstrations)


class Jumpstart(gym.Wrapper[Any, Any, Any, Any]):
    """Each episode begins with `start` steps of the heuristic (jump-start RL, Uchendu et al., 2023)."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.start, self.steps, self._act = LONGEST_START, 0, controller(env)

    def reset(self, **options: Any) -> Any:
        """Reset, and let the heuristic begin."""
        observation, info = self.env.reset(**options)
        for _ in range(self.start):
            following, _, terminated, truncated, _ = self.env.step(self._act(observation))
            self.steps += 1
            if terminated or truncated:  # too late for the agent
                return self.env.reset()
            observation = following
        return observation, info

    def step(self, action: Any) -> Any:
        """Step, and count."""
        self.steps += 1
        return self.env.step(action)


class Shorten(BaseCallback):
    """The heuristic's part falls to nothing after two thirds of the steps; ends the training after all of them."""

    def __init__(self, env: Jumpstart, steps: int) -> None:
        super().__init__()
        self._env, self._steps = env, steps

    def _on_step(self) -> bool:
        self._env.start = round(LONGEST_START * max(0.0, 1.0 - 1.5 * self._env.steps / self._steps))
        return self._env.steps < self._steps


def jumpstart(seed: int, steps: int) -> Any:
    """PPO that starts ever earlier in episodes that the heuristic began."""
    env = Jumpstart(gym.make(TASK))
    return PPO("MlpPolicy", env, seed=seed, device="cpu").learn(steps, callback=Shorten(env, steps))


METHODS: dict[str, Callable[[int, int], Any]] = {
    "guided": guided, "cloned": cloned, "jumpstart": jumpstart, "plain": plain,
    "heuristic": lambda seed, steps: Heuristic(),
}  # fmt: skip


def table() -> None:
    """Medians of each method."""
    cases: dict[tuple[int, str], list[float]] = {}
    for row in cells.rows(RESULTS):
        cases.setdefault((int(row["steps"]), row["method"]), []).append(float(row["level"]))
    print("| steps | method | seeds | level: median | all |")
    print("|---|---|---|---|---|")
    for (steps, method), levels in sorted(cases.items()):
        every = ", ".join(f"{level:.0f}" for level in sorted(levels))
        print(f"| {steps:,} | {method} | {len(levels)} | {statistics.median(levels):.0f} | {every} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=8_000)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    done = {(row["method"], int(row["seed"]), int(row["steps"])) for row in cells.rows(RESULTS)}
    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
        for method in chosen.methods:
            if chosen.table or (method, seed, chosen.steps) in done:
                continue
            evaluator = Evaluator(task(TASK), seed, 1, CONFIRM_EPISODES)
            level = float(evaluator.confirmed(METHODS[method](seed, chosen.steps), chosen.steps).mean())
            evaluator.close()
            row = dict(zip(FIELDS, (method, seed, chosen.steps, round(level, 1)), strict=True))
            print(row, flush=True)
            cells.append(RESULTS, row)
    table()


if __name__ == "__main__":
    main()
