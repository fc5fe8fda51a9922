"""What the coach improves: agents with it, with one of its settings changed, and without it.

    python -m benchmarks.coach --tasks MountainCar-v0 CartPole-v1 --agents ppo dqn --variants plain keep_0 --seeds 10

This is a study as those of `polaug compare`: finished runs are kept in --out, and the same command continues.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.studies import table
from polaug.study import Study, find_runs, run_study
from polaug.study.methods import Method, method
from polaug.study.summary import headline

VARIANTS: dict[str, dict[str, float]] = {
    "default": {},
    "keep_0": {"keep": 0.0},
    "window_4": {"window": 4},
    "window_16": {"window": 16},
    "guide_share_0.5": {"guide_share": 0.5},
    "guide_share_0.9": {"guide_share": 0.9},
    "trial_share_0.1": {"trial_share": 0.1},
    "evaluation_share_0.25": {"evaluation_share": 0.25},
    "teach_every_100": {"teach_every": 100, "teach_updates": 40},
    "teach_every_500": {"teach_every": 500},
    "teach_updates_160": {"teach_updates": 160},
    "n_step_1": {"n_step": 1},
}


def methods(agents: list[str], variants: list[str]) -> list[Method]:
    """Each agent in each variant."""
    return [
        method(agent) if variant == "plain" else method(f"{agent}+pa").with_augmentation(**VARIANTS[variant])
        for agent in agents
        for variant in variants
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["MountainCar-v0", "CartPole-v1", "Acrobot-v1"])
    parser.add_argument("--agents", nargs="+", default=["ppo", "dqn"])
    parser.add_argument("--variants", nargs="+", default=["default"], choices=["plain", *VARIANTS])
    parser.add_argument("--steps", type=int, default=8_000)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=7_000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/coach"))
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    study = Study.of(given.tasks, methods(given.agents, given.variants), seeds, steps=given.steps, every=given.every)
    run_study(study, given.out, workers=given.workers)
    print(table(headline(find_runs(given.out))))


if __name__ == "__main__":
    main()
