"""Steps that RLlib's PPO and DQN need with a guide and without; and steps a second with several runners.

    python -m benchmarks.rllib steps --out rllib.csv            # all rows of the table; go on where it was stopped
    python -m benchmarks.rllib steps --tasks MountainCar-v0 --runners 2 --seeds 3 --out rllib.csv
    python -m benchmarks.rllib table --out rllib.csv            # the table of docs/how-to/rllib.md
    python -m benchmarks.rllib throughput

Solved: the mean return of 100 episodes of the agent without exploration noise, from fresh starts, is at the threshold.
It is measured after every iteration, with environments and steps of their own. Steps are those of all runners.
The maps and limits of FrozenLake are those of RLlib's curiosity examples, which give 194,000 and 786,000 steps.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns

import polaug.rllib
from benchmarks import cells
from polaug.rllib.modules import best_actions
from polaug.streams import subseed
from polaug.study.levels import CONFIRM_EPISODES, judged

EPISODES = CONFIRM_EPISODES
COLUMNS = ("task", "algorithm", "augmented", "runners", "seed", "solved", "last_mean", "steps", "seconds")

_LAKE_8 = ["SFFHFFFH", "FFFHFFFF", "FFFHHFFF", "FFFFFFFH", "HFFHFFFF", "HHFHFFHF", "FFFHFHHF", "FHFFFFFG"]
_LAKE_12 = ["SFFFFFFFFFFF", *["FFFFFFFFFFFF"] * 10, "FFFFFFFFFFFG"]


@dataclass(frozen=True)
class Task:
    """An environment, the mean return at which it is solved, and the most steps that are spent on it."""

    env: str
    threshold: float
    most: int
    options: dict[str, Any] = field(default_factory=dict)


TASKS = {
    "FrozenLake-8x8": Task("FrozenLake-v1", 0.99, 6_000,
                           {"desc": _LAKE_8, "is_slippery": False, "max_episode_steps": 14}),
    "FrozenLake-12x12": Task("FrozenLake-v1", 0.99, 10_000,
                             {"desc": _LAKE_12, "is_slippery": False, "max_episode_steps": 22}),
    "MountainCar-v0": Task("MountainCar-v0", -110.0, 12_000),
    "CartPole-v1": Task("CartPole-v1", 475.0, 40_000),
}  # fmt: skip


def config_of(task: Task, algorithm: str, augmented: bool, runners: int, seed: int) -> Any:
    """RLlib's defaults, but for PPO's batch: what is solved within two thousand steps needs updates before 4,000."""
    config: Any = {"PPO": PPOConfig, "DQN": DQNConfig}[algorithm]()
    if augmented:
        config = polaug.rllib.augment(config)
    config = config.environment(task.env, env_config=dict(task.options)).debugging(seed=seed, log_level="ERROR")
    config = config.env_runners(num_env_runners=runners, num_cpus_per_env_runner=1 / max(runners, 1))
    if task.env == "FrozenLake-v1":
        config = config.env_runners(env_to_module_connector=lambda env, spaces, device: FlattenObservations())
    if algorithm == "PPO":
        return config.training(train_batch_size_per_learner=500)
    return config.reporting(min_sample_timesteps_per_iteration=250)


def mean_return(module: Any, task: Task, seed: int) -> float:
    """Of the agent without exploration noise over fresh starts."""
    envs = gym.make_vec(task.env, num_envs=EPISODES, vectorization_mode="sync", **task.options)
    observations, _ = envs.reset(seed=seed)
    totals, over = np.zeros(EPISODES), np.zeros(EPISODES, np.bool_)
    with torch.no_grad():
        while not over.all():
            if isinstance(envs.single_observation_space, gym.spaces.Discrete):
                inputs = torch.eye(int(envs.single_observation_space.n))[torch.as_tensor(observations)]
            else:
                inputs = torch.as_tensor(observations, dtype=torch.float32)
            observations, rewards, terminated, truncated, _ = envs.step(best_actions(module, {Columns.OBS: inputs}))
            totals += np.where(over, 0.0, rewards)
            over |= terminated | truncated
    envs.close()
    return float(totals.mean())


def run(name: str, algorithm: str, augmented: bool, runners: int, seed: int) -> dict[str, Any]:
    """Train until it is solved, or the steps are spent."""
    task, started = TASKS[name], time.time()
    algo = config_of(task, algorithm, augmented, runners, seed).build_algo()
    solved, mean, steps = "", float("nan"), 0
    try:
        while steps < task.most and not solved:
            steps = int(algo.train()["num_env_steps_sampled_lifetime"])
            module = algo.learner_group.foreach_learner(lambda learner: learner.module[DEFAULT_MODULE_ID])
            mean = mean_return(next(iter(module)).get(), task, subseed(seed, "benchmark", steps))
            found = judged([steps], [mean], task.threshold, first=mean, final=mean, budget=steps)
            solved = str(found.steps) if found.solved else ""
            what = f"{name} {algorithm}{'+pa' if augmented else ''} {runners} runners seed {seed}"
            print(f"{what}: {steps} {mean:.2f}", flush=True)
    finally:
        algo.stop()
    took = round(time.time() - started, 1)
    values = (name, algorithm, int(augmented), runners, seed, solved, round(mean, 3), steps, took)
    return dict(zip(COLUMNS, values, strict=True))


def measure_steps(args: argparse.Namespace) -> None:
    """Rows that are in the file are not measured again."""
    done = {tuple(row[name] for name in COLUMNS[:5]) for row in cells.rows(args.out)}
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for name in args.tasks:
            for algorithm in args.algorithms:
                for augmented in (True, False) if args.plain else (True,):
                    for runners in args.runners:
                        if (name, algorithm, str(int(augmented)), str(runners), str(seed)) in done:
                            continue
                        cells.append(args.out, run(name, algorithm, augmented, runners, seed))


def print_table(args: argparse.Namespace) -> None:
    """Median steps until solved, with the range and the number of seeds; a dash where nothing was measured."""
    found: dict[tuple[str, ...], list[float]] = {}
    for row in cells.rows(args.out):
        cell = tuple(row[name] for name in ("task", "algorithm", "augmented", "runners"))
        found.setdefault(cell, []).append(float(row["solved"] or "inf"))
    columns = sorted({cell[1:] for cell in found})
    print("| task |", " | ".join(f"{a}{'' if int(own) else ' plain'}, {n} runners" for a, own, n in columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for name in TASKS:
        steps = [sorted(found.get((name, *column), [])) for column in columns]
        print(f"| {name} |", " | ".join(map(_cell, steps)), "|")


def _cell(steps: list[float]) -> str:
    if len(steps) < 2:
        return f"{steps[0]:,.0f}" if steps else "–"
    return f"{np.median(steps):,.0f} ({steps[0]:,.0f} to {steps[-1]:,.0f}; {len(steps)})"


class Slow(gym.Wrapper[np.ndarray, int, np.ndarray, int]):
    """MountainCar that takes 20 ms a step."""

    def __init__(self, _: Any = None) -> None:
        super().__init__(gym.make("MountainCar-v0"))

    def step(self, action: int) -> Any:
        """Sleep first."""
        time.sleep(0.02)
        return super().step(action)


def measure_throughput(args: argparse.Namespace) -> None:
    """Steps a second of sampling, teaching and training, after a first iteration."""
    first = 0.0
    for runners in (1, 2, 4):
        task = Task("MountainCar-v0", 0.0, 0)
        config = config_of(task, "PPO", True, runners, 1).environment(Slow)
        config = config.training(train_batch_size_per_learner=1_000)
        algo = config.build_algo()
        algo.train()
        started = time.time()
        for _ in range(args.iterations):
            algo.train()
        rate = args.iterations * 1_000 / (time.time() - started)
        algo.stop()
        first = first or rate
        print(f"{runners} runners: {rate:.1f} steps/s, {rate / first:.2f} x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    steps = commands.add_parser("steps")
    steps.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    steps.add_argument("--algorithms", nargs="+", choices=("PPO", "DQN"), default=["PPO", "DQN"])
    steps.add_argument("--runners", nargs="+", type=int, default=[0, 2, 4])
    steps.add_argument("--seeds", type=int, default=5)
    steps.add_argument("--first-seed", type=int, default=100)
    steps.add_argument("--plain", action="store_true", help="also the algorithms without a guide")
    steps.add_argument("--out", type=Path, default=Path("rllib.csv"))
    steps.set_defaults(measure=measure_steps)
    table = commands.add_parser("table")
    table.add_argument("--out", type=Path, default=Path("rllib.csv"))
    table.set_defaults(measure=print_table)
    throughput = commands.add_parser("throughput")
    throughput.add_argument("--iterations", type=int, default=3)
    throughput.set_defaults(measure=measure_throughput)
    args = parser.parse_args()
    if args.measure is print_table:
        print_table(args)
        return
    ray.init(address="local", num_cpus=4, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    try:
        args.measure(args)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
