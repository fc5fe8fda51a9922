"""How good an explorer is alone: `python -m benchmarks.explorers [--explorer portfolio] [--seeds 10] [--robustness]`.

Every (task, variant, seed) is a cell, run with the explorer's defaults. A finished cell is appended to
benchmarks/results/explorers.csv at once; cells that are there already are skipped, so an interrupted run goes on.
Delete the file (or pass --out) after changing an explorer.
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
from benchmarks import cells
from benchmarks.timing import RESULTS
from benchmarks.variants import IDS_PERMUTED, SCALE, VARIANTS, variant
from polaug.study.explore import drive
from polaug.study.statistics import interquartile_mean
from polaug.study.tasks import Task
from polaug.study.tasks import task as find_task

TAXI = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"  # the versions of Gymnasium differ

COLUMNS = (
    "task", "variant", "explorer", "seed", "first_goal_episode", "score", "episodes", "steps", "us_per_step",
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
    first_goal: float | None = None
    """Most episodes (median over seeds) until the goal is first reached."""

    def met(self, score: float) -> bool | None:
        """Whether a score meets the bound; windows are returns (more is better), firsts are episodes (fewer is)."""
        if self.bound is None:
            return None
        return score >= self.bound if self.window else score <= self.bound


TARGETS: dict[str, Target] = {
    "MountainCar-v0": Target(40, -115, (21, 40), first_goal=4),
    "MountainCarContinuous-v0": Target(20, 90, (6, 20)),
    "Acrobot-v1": Target(40, -100, (21, 40)),
    "CartPole-v1": Target(50, 450, (31, 50)),
    "Pendulum-v1": Target(50, -250, (31, 50)),
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
}
ROBUSTNESS_TASKS = ("MountainCar-v0", "CartPole-v1")

Cell = tuple[str, str, str, int]  # task, variant, explorer, seed
Row = dict[str, Any]


def first(flags: Sequence[bool]) -> float:
    """Number (from 1) of the first true one; infinity if there is none."""
    return next((float(k) for k, flag in enumerate(flags, start=1) if flag), math.inf)


def task_called(name: str) -> Task:
    """A task of the study's, or one that only this benchmark knows."""
    return _OF_THIS_BENCHMARK.get(name) or find_task(name)


def run(cell: Cell) -> Row:
    """One explorer on one task with one seed, all episodes."""
    name, kind, explorer, seed = cell
    task, target, scale = task_called(name), TARGETS[name], SCALE.get(kind, 1.0)
    with contextlib.closing(variant(task.make(), kind, seed)) as env:
        made = polaug.make_explorer(explorer, env.observation_space, env.action_space, seed=seed)
        result = drive(env, made, episodes=target.episodes, seed=seed)
    returns = np.array(result.returns) / scale
    success = task.success if task.success is not None else math.inf
    if target.window:
        score = float(returns[target.window[0] - 1 : target.window[1]].mean())
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
        {key: text if key in ("task", "variant", "explorer") else float(text) for key, text in row.items()}
        for row in cells.rows(path)
    ]
    return {(row["task"], row["variant"], row["explorer"], int(row["seed"])): row for row in found}


def finish(cells: list[Cell], workers: int) -> Iterator[Row]:
    """Rows of the cells, in the order in which they finish."""
    if workers == 1:
        yield from map(run, cells)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run, cell) for cell in cells]):
            yield future.result()


def summary(rows: list[Row]) -> str:
    scores = [row["score"] for row in rows]
    return f"{interquartile_mean(scores):9.2f} [{min(scores):8.2f}, {max(scores):8.2f}]"


def print_targets(rows: list[Row], explorer: str) -> None:
    print(f"\n{explorer}: interquartile mean over seeds [min, max]; 'first' rows count episodes")
    print(f"{'task':26s} {'measured':14s} {'score':>30s} {'target':>8s}      first goal   us/step  seeds"
          f"{'ids permuted':>31s}")  # fmt: skip
    for name, target in TARGETS.items():
        mine = [row for row in rows if row["task"] == name and row["variant"] == "plain"]
        if not mine:
            continue
        met = target.met(interquartile_mean([row["score"] for row in mine]))
        goal = float(np.median([row["first_goal_episode"] for row in mine]))
        early = "" if target.first_goal is None else " yes" if goal <= target.first_goal else " NO"
        what = "mean {}-{}".format(*target.window) if target.window else "first episode"
        bound = "" if target.bound is None else f"{target.bound:g}"
        verdict = {True: "yes", False: "NO", None: ""}[met]
        cost = np.mean([row["us_per_step"] for row in mine])
        print(
            f"{name:26s} {what:14s} {summary(mine):>30s} {bound:>8s} {verdict:4s} {goal:6.1f}{early:4s}"
            f" {cost:9.0f} {len(mine):6d}{_permuted(rows, name)}"
        )


def _permuted(rows: list[Row], name: str) -> str:
    """The column of the tasks with ids: score with permuted ids, and whether it meets the bound."""
    mine = [row for row in rows if row["task"] == name and row["variant"] == IDS_PERMUTED]
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
    parser.add_argument("--tasks", nargs="+", default=list(TARGETS), choices=list(TARGETS), metavar="TASK")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="seeds count up from here (held-out seeds: 1000)")
    parser.add_argument("--robustness", action="store_true", help="also the variants of MountainCar and CartPole")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "explorers.csv")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    tasks = [name for name in TARGETS if name in args.tasks]  # in the table's order
    wanted: list[Cell] = [(name, "plain", args.explorer, seed) for name in tasks for seed in seeds]
    wanted += [(name, IDS_PERMUTED, args.explorer, seed) for name in tasks if name in DISCRETE for seed in seeds]
    if args.robustness:
        kinds = [(name, kind) for name in ROBUSTNESS_TASKS if name in tasks for kind in VARIANTS]
        wanted += [(name, kind, args.explorer, seed) for name, kind in kinds for seed in seeds]
    done = read(args.out)
    missing = [cell for cell in wanted if cell not in done]
    print(f"{len(wanted)} cells, {len(wanted) - len(missing)} finished before", flush=True)
    for number, row in enumerate(finish(missing, args.workers), start=1):
        cells.append(args.out, row)
        print(
            f"{number}/{len(missing)} {row['task']} {row['variant']} seed {row['seed']}: {row['score']:.2f}"
            f" ({row['us_per_step']:.0f} us/step)",
            flush=True,
        )
    finished = read(args.out)
    rows = [finished[cell] for cell in wanted]
    print_targets(rows, args.explorer)
    if args.robustness:
        print_robustness(rows)


if __name__ == "__main__":
    sys.exit(main())
