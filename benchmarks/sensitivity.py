"""Which settings of the default explorer matter: `python -m benchmarks.sensitivity [--seeds 5]` (resumable).

Each number in its option dataclasses is halved and doubled, one at a time, on five tasks. A cell that finishes is
written to benchmarks/results/sensitivity.jsonl at once; cells that are there already are skipped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.portfolio import read, run
from benchmarks.timing import RESULTS
from polaug.explorers.aggregation import AggregationOptions
from polaug.explorers.bandit import BanditOptions
from polaug.explorers.dynamics import DynamicsOptions
from polaug.explorers.policy_search import SearchOptions
from polaug.explorers.record import RecordOptions
from polaug.explorers.table import TabularOptions
from polaug.explorers.value_iteration import PlanOptions
from polaug.study.statistics import interquartile_mean

TASKS = ("MountainCar", "Acrobot", "CartPole", "Pendulum", "MountainCarContinuous")
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
    parser.add_argument("--out", type=Path, default=RESULTS / "sensitivity.jsonl")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    wanted = {label: options for label, options in versions() if label == "default" or args.only in label}
    done = read(args.out)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    cells = [(label, task, seed) for seed in seeds for label in wanted for task in args.tasks]
    for number, (label, task, seed) in enumerate(cells, start=1):
        if (label, task, seed) in done:
            continue
        row = {"label": label, "task": task, "seed": seed} | run(task, seed, wanted[label], "portfolio")
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        done[label, task, seed] = row
        print(f"{number}/{len(cells)} {label} {task} seed {seed}: {row['score']:.2f}", flush=True)
    print(f"{'':32s}" + "".join(f"{task[:14]:>16s}" for task in args.tasks))
    for label in wanted:
        means = [interquartile_mean([done[label, task, seed]["score"] for seed in seeds]) for task in args.tasks]
        print(f"{label:32s}" + "".join(f"{mean:16.2f}" for mean in means))


if __name__ == "__main__":
    sys.exit(main())
