"""Steps until the agent's own deterministic policy reaches the threshold: augmented agents, plain ones, ablations.

    python -m benchmarks.transfer --tasks MountainCar-v0 CartPole-v1 --methods ppo+pa ppo dqn+pa dqn-tuned --seeds 10

A method is ALGO, ALGO-tuned, ALGO+pa, ALGO+pa:TRANSFER, or `explorer` (the explorer without an agent). Every finished
run is written at once as a line of benchmarks/results/transfer.jsonl; a run that is there is not done again, so the
benchmark can be spread over several sittings. Without --methods the table of what is there is printed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

from polaug import Transitions, make_explorer
from polaug.config import Augmentation
from polaug.integrations import augment

RESULTS = Path(__file__).parent / "results" / "transfer.jsonl"
AGENTS = {"ppo": PPO, "a2c": A2C, "dqn": DQN, "sac": SAC, "td3": TD3}
THRESHOLDS = {"MountainCar-v0": -110.0, "Acrobot-v1": -100.0, "CartPole-v1": 475.0, "MountainCarContinuous-v0": 90.0,
              "Pendulum-v1": -200.0, "LunarLander-v3": 200.0}  # fmt: skip
KEEP = 20_000  # steps after the threshold over which the level must be kept
BIG = {"net_arch": [256, 256]}

# Tuned hyperparameters of RL Baselines3 Zoo (github.com/DLR-RM/rl-baselines3-zoo, hyperparams/{dqn,ppo,sac}.yml).
# `n_envs` and `normalize` are the Zoo's own keys; lin_x is a rate that falls linearly from x to 0.
TUNED: dict[tuple[str, str], dict[str, Any]] = {
    ("dqn", "MountainCar-v0"): {
        "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
        "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
        "exploration_final_eps": 0.07, "policy_kwargs": BIG,
    },
    ("dqn", "CartPole-v1"): {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04, "policy_kwargs": BIG,
    },
    ("dqn", "Acrobot-v1"): {
        "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
        "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
        "exploration_final_eps": 0.1, "policy_kwargs": BIG,
    },
    ("ppo", "CartPole-v1"): {
        "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
        "ent_coef": 0.0, "learning_rate": LinearSchedule(1e-3, 0.0, 1.0), "clip_range": LinearSchedule(0.2, 0.0, 1.0),
    },
    ("ppo", "MountainCarContinuous-v0"): {
        "normalize": True, "n_steps": 8, "batch_size": 256, "gae_lambda": 0.9, "gamma": 0.9999, "n_epochs": 10,
        "ent_coef": 0.00429, "learning_rate": 7.77e-5, "clip_range": 0.1, "max_grad_norm": 5.0, "vf_coef": 0.19,
        "use_sde": True, "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    },
    ("sac", "MountainCarContinuous-v0"): {
        "learning_rate": 3e-4, "buffer_size": 50_000, "batch_size": 512, "ent_coef": 0.1, "train_freq": 32,
        "gradient_steps": 32, "gamma": 0.9999, "tau": 0.01, "learning_starts": 0, "use_sde": True,
        "policy_kwargs": {"log_std_init": -3.67, "net_arch": [64, 64]},
    },
    ("sac", "Pendulum-v1"): {"learning_rate": 1e-3},
}  # fmt: skip


class Evaluations(BaseCallback):
    """The agent alone, deterministic, on an environment of its own, every `every` steps; its time is not counted."""

    def __init__(self, task: str, every: int, episodes: int) -> None:
        super().__init__()
        self.task, self.every, self.episodes = task, every, episodes
        self.rows: list[tuple[int, float]] = []
        self.seconds, self._due = 0.0, every

    def _on_training_start(self) -> None:
        self.env = make_vec_env(self.task, 1, seed=10_000)
        if self.model.get_vec_normalize_env() is not None:
            self.env = VecNormalize(self.env, training=False, norm_reward=False)

    def _on_step(self) -> bool:
        if self.num_timesteps >= self._due:
            self._due += self.every
            started, generators = time.perf_counter(), (np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
            if isinstance(self.env, VecNormalize):
                sync_envs_normalization(self.training_env, self.env)
            mean, _ = evaluate_policy(self.model, self.env, n_eval_episodes=self.episodes)
            self.rows.append((self.num_timesteps, round(float(mean), 2)))
            np.random.set_state(generators[0])  # noqa: NPY002 (SB3's generators: evaluating must not change the run)
            torch.set_rng_state(generators[1])
            self.seconds += time.perf_counter() - started
        return True


def train(task: str, method: str, seed: int, steps: int, every: int, episodes: int, explorer: str) -> dict[str, Any]:
    """One run of an agent."""
    name, _, rest = method.partition("+pa")
    algo, _, tuned = name.partition("-")
    options: dict[str, Any] = dict(TUNED[algo, task]) if tuned else {}
    env = make_vec_env(task, options.pop("n_envs", 1), seed=seed)
    if options.pop("normalize", False):
        env = VecNormalize(env)
    cls: Any = AGENTS[algo]
    if "+pa" in method:
        cls = augment(cls)
        options["augmentation"] = Augmentation(explorer=explorer, transfer=rest.removeprefix(":") or "auto")
    model = cls("MlpPolicy", env, seed=seed, device="cpu", **options)
    evaluations = Evaluations(task, every, episodes)
    started = time.perf_counter()
    model.learn(steps, callback=evaluations)
    seconds = time.perf_counter() - started - evaluations.seconds
    handover = model._polaug.handover if "+pa" in method else None
    share = 0.0 if handover is None else handover.explorer_steps / handover.steps
    return {"evaluations": evaluations.rows, "seconds": round(seconds, 2), "explorer_share": round(share, 3)}


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


def interquartile_mean(values: np.ndarray) -> float:
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def table(runs: list[dict[str, Any]]) -> str:
    """Medians over seeds; a run that never reached the threshold counts as later than any that did."""
    lines = ["| task | method | seeds | median steps | reached | kept | last level (IQM) | seconds per 1000 steps |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for task in THRESHOLDS:
        for method in sorted({run["method"] for run in runs if run["task"] == task}):
            cell = [run for run in runs if (run["task"], run["method"]) == (task, method)]
            scores = [scored(run) for run in cell]
            reached = np.array([np.inf if s["reached"] is None else s["reached"] for s in scores])
            median = np.sort(reached)[len(reached) // 2]  # the upper median, so that it is never flattering
            text = f"{median:,.0f}" if np.isfinite(median) else f"> {max(run['steps'] for run in cell):,}"
            judged = [s["kept"] for s in scores if s["kept"] is not None]
            pace = np.median([1000 * run["seconds"] / run["steps"] for run in cell])
            last = interquartile_mean(np.array([s["last"] for s in scores]))
            lines.append(f"| {task} | {method} | {len(cell)} | {text} | {np.isfinite(reached).sum()}/{len(cell)} | "
                         f"{sum(judged)}/{len(judged)} | {last:.1f} | {pace:.2f} |")  # fmt: skip
    return "\n".join(lines)


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
    parser.add_argument("--episodes", type=int, default=10)
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
                if cell in done or ("-tuned" in method and (method.split("-")[0], task) not in TUNED):
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
