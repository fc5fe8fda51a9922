"""The default explorer on tasks over real numbers: `python -m benchmarks.portfolio [--seeds 10] [--ablate NAME ...]`.

Every (label, task, seed) is a cell, written to benchmarks/results/portfolio.jsonl as it finishes; finished cells are
skipped, so an interrupted run goes on. Give `--label` a new name after changing the explorer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import polaug
from benchmarks.timing import RESULTS
from benchmarks.variants import variant
from benchmarks.vector_tasks import Doorway, Lure, SwingUp
from polaug.study.explore import drive
from polaug.study.statistics import interquartile_mean


@dataclass(frozen=True)
class VectorTask:
    """A task, how many episodes of it, and what is measured: the mean of `window` (from 1), or goals in it."""

    make: Callable[[], gym.Env[Any, Any]]
    episodes: int
    window: tuple[int, int]
    goal: float = math.inf
    """Return from which on an episode has reached the goal."""
    counts: bool = False
    """Whether the score is the number of goals in the window."""
    variant: str = "plain"


TASKS = {
    "MountainCar": VectorTask(lambda: gym.make("MountainCar-v0"), 40, (21, 40), -199.5),
    "MountainCarContinuous": VectorTask(lambda: gym.make("MountainCarContinuous-v0"), 20, (6, 20), 1e-9),
    "Acrobot": VectorTask(lambda: gym.make("Acrobot-v1"), 40, (21, 40), -499.5),
    "CartPole": VectorTask(lambda: gym.make("CartPole-v1"), 50, (31, 50), 499.5),
    "Pendulum": VectorTask(lambda: gym.make("Pendulum-v1"), 50, (31, 50), -200),
    "Doorway": VectorTask(Doorway, 40, (31, 40), 0.5, counts=True),
    "SwingUp": VectorTask(SwingUp, 60, (41, 60), 100),
    "Lure": VectorTask(Lure, 25, (16, 25), 0.5, counts=True),
    "MountainCar, noisy rewards": VectorTask(
        lambda: gym.make("MountainCar-v0"), 40, (21, 40), -199.5, variant="noisy rewards"
    ),
    "CartPole, noisy rewards": VectorTask(
        lambda: gym.make("CartPole-v1"), 50, (31, 50), 490, variant="noisy rewards"
    ),
}  # fmt: skip

ABLATIONS: dict[str, dict[str, Any]] = {
    "policy search": {"arms": ("model", "aggregation")},
    "aggregation": {"arms": ("model", "policy_search")},
    "veto and retry": {"bandit": {"margin": 1e9}},
    "revisit penalty": {"plan": {"revisit_length": 1e-9}},
    "held actions": {"plan": {"hold": 1}},
    "optimism": {"plan": {"optimism": 0.0}},
    "second plan": {"plan": {"average": False}},
    "Fourier features": {"dynamics": {"fourier_amplitude": 1e-9}},
    "idling": {"record": {"idle": 10**9}},
}
"""Options that each switch one part of the default explorer off."""


def run(name: str, seed: int, options: dict[str, Any], explorer: str) -> dict[str, Any]:
    """One explorer on one task with one seed."""
    task = TASKS[name]
    with contextlib.closing(variant(task.make(), task.variant, seed)) as env:
        made = polaug.make_explorer(explorer, env.observation_space, env.action_space, seed=seed, **options)
        result = drive(env, made, episodes=task.episodes, seed=seed)
    returns = np.array(result.returns)
    inside = returns[task.window[0] - 1 : task.window[1]]
    goals = np.flatnonzero(returns >= task.goal)
    return {
        "score": round(float((inside >= task.goal).sum() if task.counts else inside.mean()), 4),
        "first_goal": int(goals[0]) + 1 if len(goals) else None,
        "us_per_step": round(1e6 * result.explorer_seconds / result.steps, 1), "steps": result.steps,
        "returns": [round(float(total), 4) for total in returns],
        "arms": "".join(choice[:1] for choice in result.choices),
    }  # fmt: skip


def read(path: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The finished cells; a line cut short by a crash is none."""
    cells = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            cells[row["label"], row["task"], row["seed"]] = row
    return cells


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Interquartile mean [least, most], median episode of the first goal, cost."""
    scores = [row["score"] for row in rows]
    first = float(np.median([row["first_goal"] or math.inf for row in rows]))
    cost = np.mean([row["us_per_step"] for row in rows])
    return (
        f"{interquartile_mean(scores):9.2f} [{min(scores):8.2f}, {max(scores):8.2f}]  first goal {first:4.1f}"
        f"  {cost:6.0f} us/step  {len(rows)} seeds"
    )


def main() -> None:
    """Run what is missing, then print one row per task and label."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.portfolio", description=__doc__)
    parser.add_argument("--explorer", default="portfolio")
    parser.add_argument("--label", default="default")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--ablate", nargs="*", default=[], choices=list(ABLATIONS))
    parser.add_argument("--out", type=Path, default=RESULTS / "portfolio.jsonl")
    args = parser.parse_args()
    versions = {args.label: {}} | {f"without {name}": ABLATIONS[name] for name in args.ablate}
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    wanted = [(label, task, seed) for seed in seeds for label in versions for task in args.tasks]
    done = read(args.out)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for label, task, seed in wanted:
        if (label, task, seed) in done:
            continue
        row = {"label": label, "task": task, "seed": seed} | run(task, seed, versions[label], args.explorer)
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        done[label, task, seed] = row
        print(f"{label} {task} seed {seed}: {row['score']:.2f} ({row['us_per_step']:.0f} us/step)", flush=True)
    for task in args.tasks:
        for label in versions:
            print(f"{task:28s} {label:24s} {summary([done[label, task, seed] for seed in seeds])}")


if __name__ == "__main__":
    sys.exit(main())
