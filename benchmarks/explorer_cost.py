"""What a step of each explorer costs: `python -m benchmarks.explorer_cost` (a few minutes on one core).

Against SB3's PPO on CartPole in the same run (both alternate, so that a busy machine slows both); early steps against
late ones; and against the number of dimensions and actions of synthetic spaces. Writes results/explorer_cost.json and
docs/figures/explorer_cost.png.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO

import polaug
from benchmarks.timing import FIGURES, RESULTS, save
from polaug.errors import UnsupportedSpaceError
from polaug.explorers import Explorer
from polaug.testing import Rollout

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

DIMENSIONS = (2, 4, 8, 16, 32)
ACTIONS = (2, 4, 9, 27, 81)
BLOCK = 2048  # PPO's rollout: each block of PPO holds one whole update


class Walker:
    """One explorer in one environment, a block of steps at a time."""

    def __init__(self, env: gym.Env[Any, Any], explorer: Explorer) -> None:
        self.env, self.explorer = env, explorer
        self.observation, _ = env.reset(seed=0)

    def walk(self, steps: int) -> float:
        """Seconds that the explorer (not the environment) took for `steps` steps."""
        taken = 0.0
        for _ in range(steps):
            observations = np.asarray(self.observation)[None]
            start = time.perf_counter()
            actions = self.explorer.act(observations)
            taken += time.perf_counter() - start
            following, reward, terminated, truncated, _ = self.env.step(actions[0])
            step = polaug.Transitions(
                observations, actions, np.array([float(reward)]), np.asarray(following)[None],
                np.array([terminated]), np.array([truncated]),
            )  # fmt: skip
            start = time.perf_counter()
            self.explorer.observe(step)
            taken += time.perf_counter() - start
            self.observation = self.env.reset()[0] if terminated or truncated else following
        return taken


def walker(name: str) -> tuple[str, Walker]:
    """The explorer on CartPole, or on CliffWalking if it is only for categories."""
    for task in ("CartPole-v1", "CliffWalking-v1"):
        env = gym.make(task)
        try:
            return task, Walker(env, polaug.make_explorer(name, env.observation_space, env.action_space, seed=0))
        except UnsupportedSpaceError:
            env.close()
    raise LookupError(name)


def against_ppo(names: list[str], rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    ppo = PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    ppo.learn(BLOCK)
    walkers = {name: walker(name) for name in names}
    for _, each in walkers.values():
        each.walk(BLOCK)  # compiles, fills its store
    times: dict[str, list[float]] = {name: [] for name in ("ppo", *names)}
    for _ in range(rounds):
        start = time.perf_counter()
        ppo.learn(BLOCK, reset_num_timesteps=False)
        times["ppo"].append(time.perf_counter() - start)
        for name, (_, each) in walkers.items():
            times[name].append(each.walk(BLOCK))
    us = {name: 1e6 * float(np.median(taken)) / BLOCK for name, taken in times.items()}
    for name in names:
        print(f"{name:12s} {us[name]:7.1f} us/step, {us[name] / us['ppo']:.3f} of PPO's {us['ppo']:.0f}", flush=True)
    return {
        "ppo_us": round(us["ppo"], 1),
        "explorers": {
            name: {"task": walkers[name][0], "us": round(us[name], 1), "ratio": round(us[name] / us["ppo"], 3)}
            for name in names
        },
    }


def flatness(name: str) -> dict[str, float]:
    """Steps 1,000-5,000 against 20,000-25,000 of one run; short blocks, and the median of them."""
    _, each = walker(name)

    def median(blocks: int) -> float:
        return 1e6 * float(np.median([each.walk(250) / 250 for _ in range(blocks)]))

    each.walk(1000)
    early = median(16)
    each.walk(15_000)
    late = median(20)
    print(f"{name:12s} steps 1k-5k {early:.1f} us, 20k-25k {late:.1f} us, ratio {late / early:.2f}", flush=True)
    return {"early_us": round(early, 1), "late_us": round(late, 1), "ratio": round(late / early, 2)}


def synthetic(name: str, dimensions: int, actions: int, steps: int) -> float:
    """Microseconds of a step on random transitions of such spaces."""
    space = spaces.Box(-1.0, 1.0, (dimensions,), np.float32)
    explorer = polaug.make_explorer(name, space, spaces.Discrete(actions), seed=0)
    rollout = Rollout(space, 1, 0)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        chosen = explorer.act(rollout.observations)
        middle = time.perf_counter()
        step = rollout.step(chosen)
        after = time.perf_counter()
        explorer.observe(step)
        times.append(time.perf_counter() - after + middle - start)
    return 1e6 * float(np.mean(times[steps // 3 :]))


def draw(results: dict[str, Any]) -> None:
    """The synthetic spaces, and for comparison what a step costs on CartPole."""
    name, cost, ppo_us = results["synthetic"]["explorer"], results["synthetic"]["us"], results["ppo_us"]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    colours = ("#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
    for actions, colour, marker, row in zip(ACTIONS, colours, "os^Dv", np.transpose(cost), strict=True):
        axes.plot(DIMENSIONS, row, marker=marker, color=colour, label=f"{actions} actions")
    if (real := results["explorers"][name])["task"] == "CartPole-v1":
        axes.plot(4, real["us"], marker="*", ms=13, color="black", ls="")
        axes.annotate(f"CartPole (2 actions): {real['us']:.0f} µs", (4, real["us"]), xytext=(9, 9),
                      textcoords="offset points", fontsize=8)  # fmt: skip
    axes.axhline(0.25 * ppo_us, color="0.5", lw=0.8, ls="--")
    axes.text(1.0, 0.25 * ppo_us, " a quarter of\n PPO's step", color="0.35", fontsize=8, va="center",
              transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="dimensions of the observation", ylabel="µs per step")
    axes.set_xticks(DIMENSIONS, [str(d) for d in DIMENSIONS])
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_title(f"What a step of '{name}' costs; worst case: random transitions", loc="left")
    figure.legend(fontsize=8, ncols=len(ACTIONS), loc="outside lower center", frameon=False)
    figure.savefig(FIGURES / "explorer_cost.png", dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explorer_cost", description=__doc__)
    parser.add_argument("--explorer", default="portfolio", choices=polaug.explorers(), help="whose cost is drawn")
    parser.add_argument("--against-ppo", nargs="+", choices=polaug.explorers(), metavar="NAME",
                        help="print the cost of these explorers against PPO, and write nothing")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=900, help="steps on each synthetic space")
    parser.add_argument("--redraw", action="store_true", help="draw what was measured before, and measure nothing")
    args = parser.parse_args()
    if args.redraw:
        draw(json.loads((RESULTS / "explorer_cost.json").read_text()))
        return
    if args.against_ppo:
        against_ppo(args.against_ppo, args.rounds)
        return
    results: dict[str, Any] = against_ppo(list(polaug.explorers()), args.rounds)
    results["flatness"] = {name: flatness(name) for name in polaug.explorers()}
    cost = [[round(synthetic(args.explorer, d, a, args.steps), 1) for a in ACTIONS] for d in DIMENSIONS]
    results["synthetic"] = {"explorer": args.explorer, "dimensions": DIMENSIONS, "actions": ACTIONS, "us": cost}
    draw(results)
    save("explorer_cost", results)
    print("wrote docs/figures/explorer_cost.png")


if __name__ == "__main__":
    main()
