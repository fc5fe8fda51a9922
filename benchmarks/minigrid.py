"""PPO on MiniGrid with the standard wrappers, augmented and plain, evaluated on 100 episodes.

    python -m benchmarks.minigrid --cases doorkey fourrooms multiroom lockedroom --views image --seeds 5

In a case of a fixed layout, seed s trains and evaluates on the layout that `reset(seed=s)` draws. Otherwise every
episode has another layout, and those of the evaluation are none of the training's. `best` is the return of a shortest
path (the mean over 20 layouts where these change).

Rows go to `benchmarks/results/minigrid.csv` as runs end; the same command goes on where it was stopped. `--table`
prints the medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import torch
from gymnasium.wrappers import FilterObservation
from minigrid.wrappers import FlatObsWrapper, ImgObsWrapper, ReseedWrapper
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

import minigrid  # noqa: F401  (registers the tasks)
import polaug
from benchmarks import cells
from polaug.streams import subseeds
from polaug.study.agents import undisturbed
from polaug.study.levels import CONFIRM_EPISODES, judged

RESULTS = Path(__file__).parent / "results" / "minigrid.csv"
FIELDS = ("case", "view", "variant", "seed", "steps", "best", "level", "share", "reached", "minutes", "curve")
EPISODES = CONFIRM_EPISODES
GOOD = 0.9  # of the best possible return
POINTS = 20  # evaluations during a training


class Case(NamedTuple):
    """A task, its number of steps, and whether the layout stays."""

    task: str
    steps: int
    fixed: bool


CASES = {
    "doorkey": Case("MiniGrid-DoorKey-5x5-v0", 10_000, fixed=True),
    "fourrooms": Case("MiniGrid-FourRooms-v0", 50_000, fixed=True),
    "multiroom": Case("MiniGrid-MultiRoom-N4-S5-v1", 100_000, fixed=True),
    "lockedroom": Case("MiniGrid-LockedRoom-v0", 200_000, fixed=True),
    "doorkey_random": Case("MiniGrid-DoorKey-5x5-v0", 100_000, fixed=False),
    "doorkey8_random": Case("MiniGrid-DoorKey-8x8-v0", 200_000, fixed=False),
}
POLICIES = {"image": "MlpPolicy", "flat": "MlpPolicy", "dict": "MultiInputPolicy"}
VARIANTS: dict[str, Any] = {"default": polaug.Augmentation(), "plain": None}


def environment(case: Case, view: str, layout: int) -> gym.Env[Any, Any]:
    """The task with MiniGrid's wrappers."""
    env: Any = gym.make(case.task)
    if case.fixed:
        env = ReseedWrapper(env, seeds=(layout,))
    if view == "image":
        return ImgObsWrapper(env)
    return FlatObsWrapper(env) if view == "flat" else FilterObservation(env, ["image", "direction"])


def shortest(env: Any) -> int:
    """Steps of a shortest path to the goal from where `env` is; nothing is dropped, and keys open their doors."""
    world = env.unwrapped
    start = (*world.agent_pos, world.agent_dir, frozenset(), frozenset())
    queue, seen = deque([(start, 0)]), {start}
    while queue:
        (x, y, facing, keys, opened), steps = queue.popleft()
        ahead = x + (1, 0, -1, 0)[facing], y + (0, 1, 0, -1)[facing]
        cell = world.grid.get(*ahead)
        nexts = [(x, y, (facing + 1) % 4, keys, opened), (x, y, (facing - 1) % 4, keys, opened)]
        kind = "empty" if cell is None else cell.type
        if kind == "goal":
            return steps + 1
        if kind == "empty" or (kind == "key" and ahead in keys) or (kind == "door" and ahead in opened):
            nexts.append((*ahead, facing, keys, opened))
        elif kind == "key":
            nexts.append((x, y, facing, keys | {ahead}, opened))
        elif kind == "door":
            held = {world.grid.get(*key).color for key in keys}
            if not cell.is_locked or cell.color in held:
                nexts.append((x, y, facing, keys, opened | {ahead}))
        for state in nexts:
            if state not in seen:
                seen.add(state)
                queue.append((state, steps + 1))
    raise RuntimeError("the goal cannot be reached")


def best_return(case: Case, layouts: list[int]) -> float:
    """Mean return of shortest paths."""
    env, found = gym.make(case.task), []
    for layout in layouts:
        env.reset(seed=layout)
        found.append(1.0 - 0.9 * shortest(env) / env.unwrapped.max_steps)  # MiniGrid's own reward
    return statistics.mean(found)


def mean_return(model: Any, case: Case, view: str, seed: int, purpose: str, episodes: int = EPISODES) -> float:
    """Mean return of the deterministic policy. In a fixed layout all episodes are the same, and one is played."""
    env = environment(case, view, seed)
    starts = [seed] if case.fixed else subseeds(seed, episodes, "benchmark", purpose)
    total = 0.0
    for start in starts:
        observation, _ = env.reset(seed=start)
        over = False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, over = total + float(reward), terminated or truncated
    return total / len(starts)


class Curve(BaseCallback):
    """Evaluates now and then; generators of SB3 and torch are as they were afterwards."""

    def __init__(self, case: Case, view: str, seed: int) -> None:
        super().__init__()
        self.case, self.view, self.seed, self.points = case, view, seed, []

    def _on_step(self) -> bool:
        if self.num_timesteps % (self.case.steps // POINTS) == 0:
            with undisturbed():
                level = mean_return(self.model, self.case, self.view, self.seed, "curve", episodes=20)
            self.points.append((self.num_timesteps, level))
        return True


def run(name: str, view: str, variant: str, seed: int, steps: int) -> dict[str, object]:
    """One training, as a row of the table."""
    torch.set_num_threads(1)
    case, began = CASES[name]._replace(steps=steps), time.monotonic()
    env, settings = environment(case, view, seed), VARIANTS[variant]
    make = PPO if settings is None else polaug.augment(PPO)
    options = {} if settings is None else {"augmentation": settings}
    model = make(POLICIES[view], env, seed=seed, device="cpu", **options)
    curve = Curve(case, view, seed)
    model.learn(case.steps, callback=curve)
    best = best_return(case, [seed] if case.fixed else subseeds(seed, 20, "benchmark", "best"))
    level = mean_return(model, case, view, seed, "end")
    at, levels = zip(*curve.points, strict=True)
    found = judged(at, levels, GOOD * best, first=levels[0], final=level, budget=case.steps)
    reached = found.steps if found.solved else ""
    points = " ".join(f"{value:.3g}" for value in levels)
    minutes = round((time.monotonic() - began) / 60.0, 1)
    values = (name, view, variant, seed, case.steps, round(best, 3), round(level, 3), round(level / best, 3),
              reached, minutes, points)  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def table() -> None:
    """Medians of each case, view and variant."""
    cases: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in cells.rows(RESULTS):
        cases.setdefault((row["case"], row["steps"], row["view"], row["variant"]), []).append(row)
    print("| case | steps | observations | agent | seeds | return: median, worst | of the best possible: median, worst "
          "| 0.9 of it after (median) |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    for (case, steps, view, variant), found in sorted(cases.items()):
        levels, shares = ([float(row[name]) for row in found] for name in ("level", "share"))
        reached = sorted(int(row["reached"]) if row["reached"] else 10**9 for row in found)[len(found) // 2]
        when = f"{reached:,}" if reached < 10**9 else "never"
        print(f"| {case} | {int(steps):,} | {view} | {variant} | {len(found)} | {statistics.median(levels):.2f}, "
              f"{min(levels):.2f} | {statistics.median(shares):.2f}, {min(shares):.2f} | {when} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=["doorkey"], choices=CASES)
    parser.add_argument("--views", nargs="+", default=["image"], choices=POLICIES)
    parser.add_argument("--variants", nargs="+", default=["default"], choices=VARIANTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=9_000)
    parser.add_argument("--steps", type=int, help="instead of each case's own number of steps")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        return table()
    warnings.filterwarnings("ignore", module="gymnasium|stable_baselines3")
    done = {tuple(row[name] for name in FIELDS[:5]) for row in cells.rows(RESULTS)}
    wanted = [(case, view, variant, seed, chosen.steps or CASES[case].steps) for case in chosen.cases
              for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
              for view in chosen.views for variant in chosen.variants]  # fmt: skip
    left = [each for each in wanted if tuple(map(str, each)) not in done]
    for k, each in enumerate(left, 1):
        row = run(*each)
        cells.append(RESULTS, row)
        print(f"{k} of {len(left)}: {row}", flush=True)
    return None


if __name__ == "__main__":
    main()
