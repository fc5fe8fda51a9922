"""Which settings of the default explorer matter: `python -m benchmarks.sensitivity [--seeds 5]` (resumable).

Each number in its option dataclasses is halved and doubled, one at a time, on five tasks. A cell that finishes is
written to benchmarks/results/sensitivity.csv at once; cells that are there already are skipped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.explorers import measure
from benchmarks.timing import RESULTS
from polaug.explorers.aggregation import AggregationOptions
from polaug.explorers.bandit import BanditOptions
from polaug.explorers.dynamics import DynamicsOptions
from polaug.explorers.policy_search import SearchOptions
from polaug.explorers.record import RecordOptions
from polaug.explorers.table import TabularOptions
from polaug.explorers.value_iteration import PlanOptions
from polaug.study.statistics import interquartile_mean

TASKS = ("MountainCar-v0", "Acrobot-v1", "CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0")
OPTIONS: dict[str, type] = {
    "bandit": BanditOptions,
    "plan": PlanOptions,
    "search": SearchOptions,
    "aggregation": AggregationOptions,
    "dynamics": DynamicsOptions,
    "record": RecordOptions,
    "tabular": TabularOptions,
}


def versions() -> Iterator[tuple[str, dict[str, Any]]]:
    """A label and the options of each version; the defaults first."""
    yield "default", {}
    for component, kind in OPTIONS.items():
        for field in fields(kind):
            default = field.default
            if isinstance(default, (bool, tuple)):
                continue
            for factor in (0.5, 2.0):
                value = max(round(default * factor), 1) if isinstance(default, int) else default * factor
                yield f"{component}.{field.name} x {factor:g}", {component: {field.name: value}}


def main() -> None:
    """Run what is missing, then print the settings by the largest change of a task's mean."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sensitivity", description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=4000)
    parser.add_argument("--only", default="", help="settings whose name holds this text")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "sensitivity.csv")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    chosen = {label: options for label, options in versions() if label == "default" or args.only in label}
    wanted = {
        (label, task, "plain", "portfolio", seed): options
        for seed in seeds
        for label, options in chosen.items()
        for task in args.tasks
    }
    rows = measure(wanted, args.workers, args.out)
    print(f"{'':32s}" + "".join(f"{task[:14]:>16s}" for task in args.tasks))
    for label in chosen:
        mine = [row for row in rows if row["label"] == label]
        means = [interquartile_mean([row["score"] for row in mine if row["task"] == task]) for task in args.tasks]
        print(f"{label:32s}" + "".join(f"{mean:16.2f}" for mean in means))


if __name__ == "__main__":
    sys.exit(main())
