"""Steps until the agent's own deterministic policy reaches the threshold: augmented agents, plain ones, ablations.

    python -m benchmarks.transfer --tasks MountainCar-v0 CartPole-v1 --methods ppo+pa ppo dqn+pa dqn-tuned --seeds 10

A method is ALGO, ALGO-tuned (RL Baselines3 Zoo), ALGO+pa, ALGO+pa:TRANSFER, or `explorer` (without an agent). Every
finished run is written at once as a line of benchmarks/results/transfer.jsonl; a run that is there is not done again,
so the benchmark can be spread over several sittings. Without --methods the tables of what is there are printed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from polaug import Transitions, make_explorer
from polaug.integrations import augment
from polaug.study.agents import agent_class, constructed
from polaug.study.evaluation import Evaluator
from polaug.study.methods import method as find_method
from polaug.study.statistics import difference, interquartile_mean, verdict
from polaug.study.summary import NOT_WORSE_MARGIN
from polaug.study.tasks import TASKS
from polaug.study.tuned import tuned

RESULTS = Path(__file__).parent / "results" / "transfer.jsonl"
NAMES = ("MountainCar-v0", "Acrobot-v1", "CartPole-v1", "MountainCarContinuous-v0", "Pendulum-v1", "LunarLander-v3")
THRESHOLDS: dict[str, float] = {name: float(TASKS[name].threshold or 0.0) for name in NAMES}
TARGETS = {
    "MountainCar-v0": {"ppo+pa": "6,000", "dqn+pa": "5,000"}, "Acrobot-v1": {"ppo+pa": "8,000", "dqn+pa": "3,000"},
    "CartPole-v1": {"ppo+pa": "8,000", "dqn+pa": "10,000"}, "Pendulum-v1": {"sac+pa": "3,000"},
    "MountainCarContinuous-v0": {"ppo+pa": "5,000", "sac+pa": "3,000"},
    "LunarLander-v3": {"ppo+pa": "not worse", "dqn+pa": "not worse"},
}  # fmt: skip
"""What we aim at: steps to the threshold."""
KEEP = 20_000  # steps after the threshold over which the level must be kept


class Evaluations(BaseCallback):
    """The agent alone, deterministic, from the same start states every time, every `every` steps; not counted."""

    def __init__(self, task: str, every: int, episodes: int, seed: int) -> None:
        super().__init__()
        self.every, self._due = every, every
        self._evaluator = Evaluator(TASKS[task], episodes, seed)
        self.rows: list[tuple[int, float]] = []
        self.seconds = 0.0

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._due:
            self._due += self.every
            started = time.perf_counter()
            self.rows.append((self.num_timesteps, round(float(self._evaluator.returns(self.model).mean()), 2)))
            self.seconds += time.perf_counter() - started
        return True


def train(task: str, method: str, seed: int, steps: int, every: int, episodes: int, explorer: str) -> dict[str, Any]:
    """One run of an agent."""
    chosen = find_method(method)
    options = chosen.settings(TASKS[task])
    env: Any = make_vec_env(task, options.pop("n_envs", 1), seed=seed)
    if options.pop("normalize", False):
        env = VecNormalize(env, gamma=options.get("gamma", 0.99))
    cls: Any = agent_class(chosen.algo)
    options = constructed(options, env)
    if chosen.augmentation is not None:
        cls = augment(cls)
        options["augmentation"] = dataclasses.replace(chosen.augmentation, explorer=explorer)
    model = cls("MlpPolicy", env, seed=seed, device="cpu", **options)
    evaluations = Evaluations(task, every, episodes, seed)
    started = time.perf_counter()
    model.learn(steps, callback=evaluations)
    seconds = time.perf_counter() - started - evaluations.seconds
    handover = None if chosen.augmentation is None else model._polaug.handover
    share = 0.0 if handover is None else handover.explorer_steps / handover.steps
    let_go = chosen.augmentation is not None and bool(model._polaug.champion.untaught)
    return {"evaluations": evaluations.rows, "seconds": round(seconds, 2), "explorer_share": round(share, 3),
            "let_go": let_go}  # fmt: skip


def explore(task: str, seed: int, steps: int, every: int, explorer: str) -> dict[str, Any]:
    """The explorer without an agent: each row is the mean of its last five training returns, since it has no other."""
    env = gym.make(task)
    policy = make_explorer(explorer, env.observation_space, env.action_space, seed=seed)
    obs, _ = env.reset(seed=seed)
    rows: list[tuple[int, float]] = []
    returns: list[float] = []
    total, started = 0.0, time.perf_counter()
    for t in range(1, steps + 1):
        action = policy.act(obs[None])
        following, reward, terminated, truncated, _ = env.step(action[0])
        policy.observe(Transitions(obs[None], action, np.array([reward]), following[None], np.array([terminated]),
                                   np.array([truncated])))  # fmt: skip
        obs, total = following, total + float(reward)
        if terminated or truncated:
            returns.append(total)
            obs, total = env.reset()[0], 0.0
        if t % every == 0 and returns:
            rows.append((t, round(float(np.mean(returns[-5:])), 2)))
    return {"evaluations": rows, "seconds": round(time.perf_counter() - started, 2), "explorer_share": 1.0}


def scored(run: dict[str, Any]) -> dict[str, Any]:
    """Steps to the threshold (None: not within the run), and the mean level over the KEEP steps after it."""
    threshold, rows = THRESHOLDS[run["task"]], run["evaluations"]
    reached = next((step for step, value in rows if value >= threshold), None)
    after = [value for step, value in rows if reached is not None and reached < step <= reached + KEEP]
    kept = None if not after else bool(np.mean(after) >= threshold - 0.1 * abs(threshold))
    return {"reached": reached, "kept": kept, "last": float(np.mean([value for _, value in rows[-5:]]))}


def not_worse(cell: list[dict[str, Any]], base: list[dict[str, Any]]) -> str:
    """The last level of an augmented agent minus the plain one's: IQMs, their 95% interval, and what it allows to say.

    "Not worse": not by more than a twentieth of the threshold, as in a study's headline.
    """
    if not base:
        return ""
    levels = [np.array([scored(run)["last"] for run in each]) for each in (cell, base)]
    gap = difference(*levels)
    words = verdict(gap, (len(cell), len(base)), NOT_WORSE_MARGIN * abs(THRESHOLDS[cell[0]["task"]]))
    interval = "" if np.isnan(gap.low) else f" [{gap.low:+.1f}, {gap.high:+.1f}]"
    return f"{gap.value:+.1f}{interval}: {words}"


Key = tuple[int, str, int, str]  # task, method, steps, explorer


def table(runs: list[dict[str, Any]]) -> str:
    """A table for each task, then those of the ablations; medians over seeds.

    A run that never reached the threshold counts as later than any that did.
    """
    cells: dict[Key, list[dict[str, Any]]] = {}
    for run in runs:
        if run["task"] in NAMES:
            key = (NAMES.index(run["task"]), run["method"], run["steps"], run["explorer"])
            cells.setdefault(key, []).append(run)
    parts = []
    for ablations in (False, True):
        for task, name in enumerate(NAMES):
            keys = [key for key in sorted(cells) if key[0] == task and is_ablation(key) == ablations]
            if keys:
                goal = f"{THRESHOLDS[name]:g}".replace("-", "−")
                title = f"**{name}{', ablations' if ablations else ''}** (solved from {goal} on)"
                parts.append("\n".join((title, "", *_table(keys, cells))))
    return "\n\n".join(parts)


def is_ablation(key: Key) -> bool:
    """A way of teaching or an explorer that is not the default, or the explorer alone."""
    _, method, _, explorer = key
    return ":" in method or method == "explorer" or explorer not in ("", "committee")


def _table(keys: list[Key], cells: dict[Key, list[dict[str, Any]]]) -> list[str]:
    """Lines of Markdown; columns in which nothing stands are left out."""
    titles = ("method", "steps run", "seeds", "median steps to the threshold", "our target", "reached", "kept",
              "level in the end", "minus plain", "seconds per 1,000 steps")  # fmt: skip
    rows = [_row(key, cells) for key in keys]
    there = [column for column in zip(titles, *rows, strict=True) if any(column[1:])]
    head, *body = (f"| {' | '.join(line)} |" for line in zip(*there, strict=True))
    return [head, f"|{'---|' * len(there)}", *(line.replace(" -", " −").replace("[-", "[−") for line in body)]


def _row(key: Key, cells: dict[Key, list[dict[str, Any]]]) -> tuple[str, ...]:
    (task, method, steps, explorer), cell = key, cells[key]
    scores = [scored(run) for run in cell]
    reached = np.array([np.inf if s["reached"] is None else s["reached"] for s in scores])
    median = np.sort(reached)[len(reached) // 2]  # the upper median, so that it is never flattering
    text = f"{median:,.0f}" if np.isfinite(median) else f"> {steps:,}"
    judged = [s["kept"] for s in scores if s["kept"] is not None]
    pace = np.median([1000 * run["seconds"] / run["steps"] for run in cell])
    last = interquartile_mean([s["last"] for s in scores])
    plain = cells.get((task, method.split("+")[0], steps, ""), []) if "+" in method else []
    name = method if explorer in ("", "committee") else f"{method} ({explorer})"
    target, kept = TARGETS[NAMES[task]].get(name, ""), f"{sum(judged)}/{len(judged)}" if judged else ""
    return (name, f"{steps:,}", str(len(cell)), text, target, f"{np.isfinite(reached).sum()}/{len(cell)}",
            kept, f"{last:.1f}", not_worse(cell, plain), f"{pace:.2f}")  # fmt: skip


def finished(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(THRESHOLDS)[:5], choices=list(THRESHOLDS))
    parser.add_argument("--methods", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="held-out seeds: 1000")
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--explorer", default="committee")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)  # SB3's advice on batch sizes
    key = ("task", "method", "seed", "steps", "explorer")
    done = {tuple(run[k] for k in key) for run in finished(args.results)}
    args.results.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for task in args.tasks:
            for method in args.methods:
                used = args.explorer if "+pa" in method or method == "explorer" else ""
                cell = (task, method, seed, args.steps, used)
                if cell in done or ("-tuned" in method and tuned(method.split("-")[0], task) is None):
                    continue
                if method == "explorer":
                    run = explore(task, seed, args.steps, args.every, used)
                else:
                    run = train(task, method, seed, args.steps, args.every, args.episodes, used)
                run = dict(zip(key, cell, strict=True)) | run
                with args.results.open("a") as file:
                    file.write(json.dumps(run) + "\n")
                print(*cell, scored(run), f"{run['seconds']} s", flush=True)
    print(table(finished(args.results)))


if __name__ == "__main__":
    main()
