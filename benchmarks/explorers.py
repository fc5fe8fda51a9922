"""How good an explorer is alone: `python -m benchmarks.explorers [--explorer portfolio] [--seeds 10] [--robustness]`.

Every (label, task, variant, explorer, seed) is a cell, run with the explorer's defaults. A finished cell is appended to
--out at once; cells that are there already are skipped, so an interrupted run goes on. `--ablate` also runs the
explorer without one of its parts. Give `--label` a new name after changing an explorer.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy import stats

import polaug
from benchmarks import cells, vector_tasks
from benchmarks.timing import RESULTS
from benchmarks.variants import IDS_PERMUTED, SCALE, VARIANTS, variant
from polaug.study.explore import drive
from polaug.study.statistics import interquartile_mean
from polaug.study.tasks import Task
from polaug.study.tasks import task as find_task

TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"  # the versions of Gymnasium differ

COLUMNS = (
    "label", "task", "variant", "explorer", "seed", "first_goal_episode", "score", "episodes", "steps", "us_per_step",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """What is measured on a task: the mean return of a window of episodes, or the first episode that is good enough."""

    episodes: int
    bound: float | None
    window: tuple[int, int] | None = None
    """First and last episode of the window, from 1; None: the score is the first episode with `enough`."""
    enough: float = math.inf
    longest: int | None = None
    """With it, an episode is good enough only if it has at most so many steps."""
    counts: bool = False
    """Whether the score is the number of episodes of the window with `enough`, instead of their mean return."""

    def met(self, score: float) -> bool | None:
        """Whether a score meets the bound; windows are returns (more is better), firsts are episodes (fewer is)."""
        if self.bound is None:
            return None
        return score >= self.bound if self.window else score <= self.bound


TARGETS: dict[str, Target] = {
    "MountainCar-v0": Target(40, -106, (21, 40)),
    "MountainCarContinuous-v0": Target(20, 92, (6, 20)),
    "Acrobot-v1": Target(40, -92, (21, 40)),
    "CartPole-v1": Target(50, 500, (31, 50)),
    "Pendulum-v1": Target(50, -180, (31, 50)),
    "Doorway": Target(40, 9, (31, 40), 0.5, counts=True),
    "SwingUp": Target(60, 100, (41, 60)),
    "Lure": Target(25, 9, (16, 25), 0.5, counts=True),
    "FrozenLake8x8": Target(40, 20, enough=1.0, longest=14),
    "CliffWalking-v1": Target(40, 30, enough=-13.0),
    "DeepSea": Target(100, 43, enough=0.9),
    "DeepSea50": Target(250, 120, enough=0.9),
    "FrozenLake-slippery": Target(300, None, (151, 300)),
    TAXI: Target(200, None, (101, 200)),
    "LunarLander-v3": Target(150, None, (131, 150)),
}
DISCRETE = ("FrozenLake8x8", "CliffWalking-v1", "DeepSea", "DeepSea50", "FrozenLake-slippery", TAXI)
"""Tasks whose observations are ids, which mean nothing: these run with permuted ids too."""
_OF_THIS_BENCHMARK = {
    "DeepSea50": Task("DeepSea50", "polaug/DeepSea-v0", kwargs=(("size", 50),), threshold=0.9),
    "FrozenLake-slippery": Task("FrozenLake-slippery", "FrozenLake-v1", kwargs=(("is_slippery", True),), threshold=0.7),
} | {name: Task(name, vector_tasks.IDS[name], threshold=0.5) for name in vector_tasks.IDS}
ROBUSTNESS_TASKS = ("MountainCar-v0", "CartPole-v1")
ABLATIONS: dict[str, dict[str, Any]] = {
    "policy search": {"arms": ("model", "aggregation")},
    "aggregation": {"arms": ("model", "policy_search")},
    "veto and retry": {"bandit": {"margin": 1e9}},
    "revisit penalty": {"plan": {"revisit_length": 1e-9}},
    "held actions": {"plan": {"hold": 1}},
    "radial basis functions": {"plan": {"along": 6}},
    "optimism": {"plan": {"optimism": 0.0}},
    "second plan": {"plan": {"average": False}},
    "Fourier features": {"dynamics": {"fourier_amplitude": 1e-9}},
    "idling": {"record": {"idle": 10**9}},
    "networks": {"plan_up_to": 1_000_000},
    "achieved returns": {"deep_q": {"achieved": False}},
}
"""Options that each switch one part of the default explorer off; the last one is of `--explorer deep_q`."""

Cell = tuple[str, str, str, str, int]  # label, task, variant, explorer, seed
Row = dict[str, Any]


def first(flags: Sequence[bool]) -> float:
    """Number (from 1) of the first true one; infinity if there is none."""
    return next((float(k) for k, flag in enumerate(flags, start=1) if flag), math.inf)


def task_called(name: str) -> Task:
    """A task of the study's, or one that only this benchmark knows."""
    return _OF_THIS_BENCHMARK.get(name) or find_task(name)


def run(cell: Cell, options: dict[str, Any]) -> Row:
    """One explorer on one task with one seed, all episodes."""
    _, name, kind, explorer, seed = cell
    task, target, scale = task_called(name), TARGETS[name], SCALE.get(kind, 1.0)
    with contextlib.closing(variant(task.make(), kind, seed)) as env:
        made = polaug.make_explorer(explorer, env.observation_space, env.action_space, seed=seed, **options)
        result = drive(env, made, episodes=target.episodes, seed=seed)
    returns = np.array(result.returns) / scale
    success = task.success if task.success is not None else math.inf
    if target.window:
        inside = returns[target.window[0] - 1 : target.window[1]]
        score = float((inside >= target.enough).sum() if target.counts else inside.mean())
    else:
        short = [target.longest is None or episode.length <= target.longest for episode in result.episodes]
        score = first([bool(r >= target.enough) and s for r, s in zip(returns, short, strict=True)])
    values = (
        *cell, first([bool(r >= success) for r in returns]), round(score, 6), target.episodes, result.steps,
        round(1e6 * result.explorer_seconds / result.steps, 1),
    )  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))


def read(path: Path) -> dict[Cell, Row]:
    """The finished cells of a results file."""
    found: list[Row] = [
        {key: text if key in COLUMNS[:4] else float(text) for key, text in row.items()} for row in cells.rows(path)
    ]
    return {(row["label"], row["task"], row["variant"], row["explorer"], int(row["seed"])): row for row in found}


def measure(wanted: dict[Cell, dict[str, Any]], workers: int, out: Path) -> list[Row]:
    """Rows of the cells, each with its explorer's options; those that `out` lacks are run and appended to it."""
    done = read(out)
    missing = {cell: options for cell, options in wanted.items() if cell not in done}
    print(f"{len(wanted)} cells, {len(wanted) - len(missing)} finished before", file=sys.stderr)
    for number, row in enumerate(_finish(missing, workers), start=1):
        cells.append(out, row)
        what = " ".join(str(row[key]) for key in ("label", "task", "variant"))
        print(
            f"{number}/{len(missing)} {what} seed {row['seed']}: {row['score']:.2f} ({row['us_per_step']:.0f} us/step)",
            file=sys.stderr,
        )
    done = read(out)
    return [done[cell] for cell in wanted]


def _finish(missing: dict[Cell, dict[str, Any]], workers: int) -> Iterator[Row]:
    if workers == 1:
        yield from (run(cell, options) for cell, options in missing.items())
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, cell, options) for cell, options in missing.items()]):
            yield future.result()


def summary(rows: list[Row]) -> str:
    scores = [row["score"] for row in rows]
    return f"{interquartile_mean(scores):9.2f} [{min(scores):8.2f}, {max(scores):8.2f}]"


def print_targets(rows: list[Row], label: str) -> None:
    print(f"\n{label}: interquartile mean over seeds [min, max]; 'first' rows count episodes")
    print(f"{'task':26s} {'measured':14s} {'score':>30s} {'target':>8s}      first goal   us/step  seeds"
          f"{'ids permuted':>31s}")  # fmt: skip
    for name, target in TARGETS.items():
        mine = [row for row in rows if (row["label"], row["task"], row["variant"]) == (label, name, "plain")]
        if not mine:
            continue
        met = target.met(interquartile_mean([row["score"] for row in mine]))
        goal = float(np.median([row["first_goal_episode"] for row in mine]))
        what = "{} {}-{}".format("goals" if target.counts else "mean", *target.window) if target.window else "first"
        bound = "" if target.bound is None else f"{target.bound:g}"
        verdict = {True: "yes", False: "NO", None: ""}[met]
        cost = np.mean([row["us_per_step"] for row in mine])
        print(
            f"{name:26s} {what:14s} {summary(mine):>30s} {bound:>8s} {verdict:4s} {goal:6.1f} {cost:12.0f}"
            f" {len(mine):6d}{_permuted(rows, label, name)}"
        )


def _permuted(rows: list[Row], label: str, name: str) -> str:
    """The column of the tasks with ids: score with permuted ids, and whether it meets the bound."""
    mine = [row for row in rows if (row["label"], row["task"], row["variant"]) == (label, name, IDS_PERMUTED)]
    if not mine:
        return ""
    met = TARGETS[name].met(interquartile_mean([row["score"] for row in mine]))
    return f"{summary(mine):>31s} { {True: 'yes', False: 'NO', None: ''}[met] }".rstrip()


def print_robustness(rows: list[Row]) -> None:
    print("\nrobustness: p is Mann-Whitney's, the same seeds' scores against plain's (small: they differ)")
    for name in ROBUSTNESS_TASKS:
        by_variant = {v: [r for r in rows if r["task"] == name and r["variant"] == v] for v in ("plain", *VARIANTS)}
        plain = [row["score"] for row in by_variant["plain"]]
        for kind, mine in by_variant.items():
            if mine:
                p = stats.mannwhitneyu(plain, [row["score"] for row in mine]).pvalue if plain else math.nan
                tail = "" if kind == "plain" else f"   p = {p:.3f}"
                print(f"{name:16s} {kind:28s} {summary(mine)}  n={len(mine)}{tail}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorers", description=__doc__)
    parser.add_argument("--explorer", default="portfolio", choices=polaug.explorers())
    parser.add_argument("--label", default="default")
    parser.add_argument("--tasks", nargs="+", default=list(TARGETS), choices=list(TARGETS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="seeds count up from here (held-out seeds: 1000)")
    parser.add_argument("--robustness", action="store_true", help="also the variants of MountainCar and CartPole")
    parser.add_argument("--ablate", nargs="*", default=[], choices=list(ABLATIONS), metavar="PART",
                        help="also without: " + ", ".join(ABLATIONS))  # fmt: skip
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "explorers.csv")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [name for name in TARGETS if name in args.tasks]  # in the table's order
    versions = {args.label: {}} | {f"without {part}": ABLATIONS[part] for part in args.ablate}
    kinds = [(name, "plain") for name in tasks] + [(name, IDS_PERMUTED) for name in tasks if name in DISCRETE]
    robust = [(name, kind) for name in tasks if name in ROBUSTNESS_TASKS for kind in VARIANTS]
    wanted = {
        (label, name, kind, args.explorer, seed): options
        for label, options in versions.items()
        for name, kind in kinds + (robust if args.robustness and not options else [])
        for seed in seeds
    }
    rows = measure(wanted, args.workers, args.out)
    for label in versions:
        print_targets(rows, label)
    if args.robustness:
        print_robustness([row for row in rows if row["label"] == args.label])


if __name__ == "__main__":
    sys.exit(main())
