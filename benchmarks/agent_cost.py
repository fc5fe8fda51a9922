"""What augmenting an agent costs, and where the time goes: `python -m benchmarks.agent_cost` (some minutes, one core).

A plain and an augmented agent learn side by side in one process, one waiting while the other takes a few hundred steps,
so that a busy machine slows both; the median ratio over the seeds counts. Writes results/agent_cost.json and
docs/figures/agent_cost.png.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback

import polaug
from benchmarks.timing import FIGURES, RESULTS, save

mpl.use("Agg")
import matplotlib.pyplot as plt

AGENTS = {"ppo": PPO, "dqn": DQN}
TASKS = ("CartPole-v1", "MountainCar-v0")
TARGET = 1.25
TURN = 250  # steps
PARTS = {
    "agent": "the agent itself", "act": "explorer acts", "observe": "explorer learns", "relabel": "teaching: labels",
    "teach": "teaching: gradient steps", "watch": "teaching: memory", "rest": "bookkeeping",
}  # fmt: skip
COLOURS = ("0.75", "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7")


class Stopwatch:
    """Seconds spent in each part of an augmentation; what one part calls of another counts for the other."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._inner = [0.0]

    def wrap(self, owner: Any, method: str, part: str) -> None:
        """Time every call of `owner.method` from now on."""
        plain: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            start = time.perf_counter()
            try:
                return plain(*args, **kwargs)
            finally:
                taken = time.perf_counter() - start
                self.seconds[part] += taken - self._inner.pop()
                self._inner[-1] += taken

        setattr(owner, method, timed)


class Learner(BaseCallback):
    """One agent in a thread of its own, which runs only while its semaphore is given; counts its own time."""

    def __init__(self, cls: Any, task: str, seed: int, steps: int) -> None:
        super().__init__()
        self.agent, self.watch, self.steps = cls("MlpPolicy", task, seed=seed, device="cpu"), Stopwatch(), steps
        bridge = getattr(self.agent, "_polaug", None)
        self.coach = None if bridge is None else bridge.coach
        if self.coach is not None:
            for method, part in (("look", "rest"), ("after_step", "rest"), ("teach_if_due", "teach")):
                self.watch.wrap(bridge, method, part)
            self.watch.wrap(self.coach, "statistics", "rest")
            for method, part in (
                ("act", "act"), ("observe", "observe"), ("observe_past", "observe"), ("greedy", "relabel"),
                ("q_values", "relabel"),
            ):  # fmt: skip
                self.watch.wrap(self.coach.guide, method, part)
            self.watch.wrap(self.coach.transfer, "watch", "watch")
        self.turn, self.wall, self.cpu = threading.Semaphore(0), 0.0, 0.0
        self.other: Learner | None = None
        self._generators = (np.random.get_state(), torch.get_rng_state())  # noqa: NPY002 (SB3's generators)
        self.thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        self._wait()
        self.agent.learn(self.steps, callback=self)
        self._yield()

    def _on_step(self) -> bool:
        if self.n_calls % TURN == 0:
            self._yield()
            self._wait()
        return True

    def _wait(self) -> None:
        self.turn.acquire()
        np.random.set_state(self._generators[0])  # noqa: NPY002
        torch.set_rng_state(self._generators[1])
        self._start = (time.perf_counter(), time.thread_time())

    def _yield(self) -> None:
        self.wall, self.cpu = (
            self.wall + time.perf_counter() - self._start[0],
            self.cpu + time.thread_time() - self._start[1],
        )
        self._generators = (np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
        assert self.other is not None
        self.other.turn.release()

    def parts(self) -> dict[str, float]:
        """Seconds of each part."""
        return self.watch.seconds | {"agent": self.wall - sum(self.watch.seconds.values())}


def pair(algo: str, task: str, seed: int, steps: int) -> tuple[Learner, Learner]:
    """A plain and an augmented agent that have learnt side by side."""
    plain = Learner(AGENTS[algo], task, seed, steps)
    augmented = Learner(polaug.augment(AGENTS[algo]), task, seed, steps)
    plain.other, augmented.other = augmented, plain
    for learner in (plain, augmented):
        learner.thread.start()
    plain.turn.release()
    for learner in (plain, augmented):
        learner.thread.join()
    return plain, augmented


def compare(algo: str, task: str, seeds: range, steps: int) -> dict[str, Any]:
    """Ratios and parts, the latter in units of the plain agent's time; means over the seeds, so that they add up."""
    pairs = [pair(algo, task, seed, steps) for seed in seeds]
    wall, cpu = [b.wall / a.wall for a, b in pairs], [b.cpu / a.cpu for a, b in pairs]
    driven = [b.coach.guide_steps / b.coach.steps for _, b in pairs if b.coach]
    result: dict[str, Any] = {
        "plain_seconds": round(float(np.median([a.wall for a, _ in pairs])), 2),
        "wall_ratio": round(float(np.median(wall)), 3), "cpu_ratio": round(float(np.median(cpu)), 3),
        "wall_ratios": [round(r, 3) for r in wall], "cpu_ratios": [round(r, 3) for r in cpu],
        "explorer_share": round(float(np.median(driven)), 3),
        "parts": {part: round(float(np.mean([b.parts()[part] / a.wall for a, b in pairs])), 3) for part in PARTS},
    }  # fmt: skip
    print(f"{algo} {task:16s} plain {result['plain_seconds']:.1f} s, wall {result['wall_ratio']:.2f}, cpu "
          f"{result['cpu_ratio']:.2f} {result['cpu_ratios']}, {result['parts']}", flush=True)  # fmt: skip
    return result


def draw(results: dict[str, dict[str, Any]]) -> None:
    """Parts are means over the seeds, which add up; the number beside a bar is the median ratio, which counts."""
    figure, axes = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    names = list(results)[::-1]
    left = np.zeros(len(names))
    for (part, label), colour in zip(PARTS.items(), COLOURS, strict=True):
        widths = np.array([results[name]["parts"][part] for name in names])
        axes.barh(names, widths, left=left, color=colour, edgecolor="white", lw=0.5, label=label)
        left += widths
    edge = max(1.52, left.max() + 0.2)
    for name in names:  # in a column of their own, clear of the bars and of the target
        axes.text(edge, name, f"{results[name]['wall_ratio']:.2f}", va="center", ha="right", fontsize=9)
    axes.text(edge, 1.01, "median", ha="right", fontsize=8, color="0.3", transform=axes.get_xaxis_transform())
    for at, style, label in ((1.0, "-", "plain"), (TARGET, "--", "target")):
        axes.axvline(at, color="0.3", lw=0.9, ls=style)
        axes.text(at, 1.01, label, ha="center", fontsize=8, color="0.3", transform=axes.get_xaxis_transform())
    axes.set(xlabel="wall-clock of learn(20,000), augmented over plain", xlim=(0, edge))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, ncols=4, loc="outside lower center", frameon=False)
    figure.savefig(FIGURES / "agent_cost.png", dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agent_cost", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="seeds")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--agents", nargs="+", default=list(AGENTS), choices=list(AGENTS))
    parser.add_argument("--dry", action="store_true", help="print only, write nothing")
    parser.add_argument("--redraw", action="store_true", help="draw what was measured before, and measure nothing")
    args = parser.parse_args()
    if args.redraw:
        draw(json.loads((RESULTS / "agent_cost.json").read_text())["agents"])
        return
    torch.set_num_threads(1)
    results = {}
    for algo in args.agents:
        pair(algo, "CartPole-v1", 0, 3000)  # compiles
        for task in args.tasks:
            results[f"{algo.upper()} {task}"] = compare(algo, task, range(args.repetitions), args.steps)
    if not args.dry:
        save("agent_cost", {"steps": args.steps, "target": TARGET, "agents": results})
        draw(results)
        print("wrote docs/figures/agent_cost.png")


if __name__ == "__main__":
    main()
