"""SAC on the goals of gymnasium-robotics, augmented and plain, with and without hindsight, evaluated on 100 episodes.

    python -m benchmarks.robotics --cases fetch_reach maze_her maze --variants default plain --seeds 5

An episode succeeds if its goal was reached at any step. Rows go to `benchmarks/results/robotics.csv` as runs end; the
same command goes on where it was stopped. `--table` prints the medians. It needs the extra `robotics`.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import torch
from stable_baselines3 import SAC, HerReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback

import polaug
from benchmarks import cells
from polaug.streams import subseeds
from polaug.study.agents import undisturbed
from polaug.study.levels import CONFIRM_EPISODES, judged

RESULTS = Path(__file__).parent / "results" / "robotics.csv"
FIELDS = ("case", "variant", "seed", "steps", "success", "reached", "minutes", "curve")
GOOD = 0.9  # of the episodes
POINTS = 10  # evaluations during a training
SETTINGS: dict[str, Any] = {  # RL Zoo's for Fetch tasks, with a smaller network
    "learning_rate": 1e-3, "gamma": 0.95, "batch_size": 256, "policy_kwargs": {"net_arch": [64, 64]}, "device": "cpu",
}  # fmt: skip


class Case(NamedTuple):
    """A task, its number of steps, and whether hindsight replay is used."""

    task: str
    steps: int
    hindsight: bool


CASES = {
    "fetch_reach": Case("FetchReach-v4", 10_000, hindsight=True),
    "maze_her": Case("PointMaze_UMaze-v3", 20_000, hindsight=True),
    "maze": Case("PointMaze_UMaze-v3", 20_000, hindsight=False),
}
VARIANTS: dict[str, Any] = {"default": polaug.Augmentation(), "plain": None}


def success_rate(model: Any, case: Case, seed: int, purpose: str, episodes: int) -> float:
    """Share of the episodes of the deterministic policy in which the goal was reached."""
    env, reached = gym.make(case.task), 0
    for start in subseeds(seed, episodes, "benchmark", purpose):
        observation, _ = env.reset(seed=start)
        over = success = False
        while not over and not success:
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, info = env.step(action)
            success = bool(info.get("is_success", info.get("success")))
            over = terminated or truncated
        reached += success
    return reached / episodes


class Curve(BaseCallback):
    """Evaluates now and then; generators of SB3 and torch are as they were afterwards."""

    def __init__(self, case: Case, seed: int) -> None:
        super().__init__()
        self.case, self.seed, self.points = case, seed, []

    def _on_step(self) -> bool:
        if self.num_timesteps % (self.case.steps // POINTS) == 0:
            with undisturbed():
                level = success_rate(self.model, self.case, self.seed, "curve", episodes=20)
            self.points.append((self.num_timesteps, level))
        return True


def run(name: str, variant: str, seed: int) -> dict[str, object]:
    """One training, as a row of the table."""
    torch.set_num_threads(1)
    case, began, settings = CASES[name], time.monotonic(), VARIANTS[variant]
    env = gym.make(case.task)
    make = SAC if settings is None else polaug.augment(SAC)
    options = {} if settings is None else {"augmentation": settings}
    if case.hindsight:
        options |= {"replay_buffer_class": HerReplayBuffer}
    longest = env.spec.max_episode_steps  # hindsight needs one whole episode
    model = make("MultiInputPolicy", env, seed=seed, learning_starts=max(longest + 1, 100), **SETTINGS, **options)
    curve = Curve(case, seed)
    model.learn(case.steps, callback=curve)
    level = success_rate(model, case, seed, "end", CONFIRM_EPISODES)
    at, levels = zip(*curve.points, strict=True)
    found = judged(at, levels, GOOD, first=levels[0], final=level, budget=case.steps)
    minutes = round((time.monotonic() - began) / 60.0, 1)
    points = " ".join(f"{value:.3g}" for value in levels)
    values = (name, variant, seed, case.steps, level, found.steps if found.solved else "", minutes, points)
    return dict(zip(FIELDS, values, strict=True))


def table() -> None:
    """Medians of each case and variant."""
    cases: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in cells.rows(RESULTS):
        cases.setdefault((row["case"], row["steps"], row["variant"]), []).append(row)
    print("| case | steps | agent | seeds | success: median, worst | 0.9 after (median) |")
    print("|---|---|---|---|---|---|")
    for (case, steps, variant), found in sorted(cases.items()):
        levels = [float(row["success"]) for row in found]
        reached = sorted(int(row["reached"]) if row["reached"] else 10**9 for row in found)[len(found) // 2]
        when = f"{reached:,}" if reached < 10**9 else "never"
        print(f"| {case} | {int(steps):,} | {variant} | {len(found)} | {statistics.median(levels):.2f}, "
              f"{min(levels):.2f} | {when} |")  # fmt: skip


def _register() -> None:
    """Register the tasks of gymnasium-robotics."""
    try:
        gym.register_envs(importlib.import_module("gymnasium_robotics"))
    except ImportError as fault:
        raise SystemExit(f'benchmarks.robotics: {fault}. Install it with: pip install -e ".[robotics]"') from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["fetch_reach"], choices=CASES)
    parser.add_argument("--variants", nargs="+", default=["default"], choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=9_000)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        return table()
    warnings.filterwarnings("ignore", module="gymnasium|stable_baselines3")
    _register()
    done = {tuple(row[name] for name in FIELDS[:3]) for row in cells.rows(RESULTS)}
    wanted = [(case, variant, seed) for case in chosen.cases
              for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
              for variant in chosen.variants]  # fmt: skip
    left = [each for each in wanted if tuple(map(str, each)) not in done]
    for k, each in enumerate(left, 1):
        row = run(*each)
        cells.append(RESULTS, row)
        print(f"{k} of {len(left)}: {row}", flush=True)
    return None


if __name__ == "__main__":
    main()
