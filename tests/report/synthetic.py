"""Run folders made up by the format's rules, so that pages of any size can be tested without training anything."""

import csv
import json

import numpy as np

from polaug.state import save_state
from polaug.study.folder import folder_name
from polaug.study.maps import CELLS

VERSIONS = {"polaug": "0.0", "python": "3.12"}


def write_csv(path, head, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def write_run(
    root, task="T", method="ppo", seed=0, *, returns=(1.0, 2.0), length=10, actors=None, evaluations=None, clock=None,
    choices=(), maps=None, kind=None, threshold=2.0, done=None, **config,
):  # fmt: skip
    """One run folder; `evaluations` are (step, mean) pairs, `clock` (step, seconds) pairs. Gives its path."""
    kind = kind or ("explore" if evaluations is None else "train")
    path = root / folder_name(task) / folder_name(method) / f"seed_{seed}"
    path.mkdir(parents=True)
    settings = {"format": 2, "kind": kind, "task": task, "method": method, "explorer": method, "seed": seed,
                "threshold": threshold, "success": threshold, "versions": VERSIONS} | config  # fmt: skip
    (path / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    actors = actors or ["explorer" if kind == "explore" else "agent"] * len(returns)
    pairs = enumerate(zip(returns, actors, strict=True), start=1)
    rows = [(k, k * length, value, length, actor) for k, (value, actor) in pairs]
    write_csv(path / "episodes.csv", ("episode", "step", "return", "length", "actor"), rows)
    if evaluations is not None:
        rows = [(step, mean, 1.0) for step, mean in evaluations]
        write_csv(path / "evaluations.csv", ("step", "mean_return", "std_return"), rows)
        write_csv(path / "confirmations.csv", ("step", "mean_return", "std_return"), rows)
    if clock is not None:
        write_csv(path / "clock.csv", ("step", "seconds"), clock)
    if choices:
        write_csv(path / "choices.csv", ("episode", "member"), enumerate(choices, start=1))
    if maps is not None:
        save_state(path / "maps.npz", maps)
    summary = {"steps": length * len(returns), "episodes": len(returns), "seconds": 2.0} | (done or {})
    (path / "done.json").write_text(json.dumps(summary), encoding="utf-8")
    return path


def maps(rng, snapshots=12, cells=CELLS, dimensions=2, *, completed=True):
    """Smooth hills that grow: Q̂ everywhere, Q̃ where somebody has been."""
    x, y = np.meshgrid(np.linspace(-1, 1, cells), np.linspace(-1, 1, cells), indexing="ij")
    shapes = [np.exp(-((x - a) ** 2 + (y - b) ** 2) / c) for a, b, c in rng.uniform((-1, -1, 0.1), (1, 1, 1), (6, 3))]
    growth = np.linspace(0.2, 1.0, snapshots)[:, None, None]
    hill = -100 + 90 * growth * np.tensordot(rng.dirichlet(np.ones(6)), shapes, 1)
    visits = np.cumsum(rng.poisson(8 * np.exp(-4 * ((x + 0.3) ** 2 + y**2)), (snapshots, cells, cells)), axis=0)
    state = {
        "steps": np.arange(1, snapshots + 1, dtype=np.int64) * 1000, "dimensions": np.array([0, 1]),
        "median": np.zeros(dimensions), "edges": np.array([np.linspace(-1.2, 0.6, cells + 1),
                                                           np.linspace(-0.07, 0.07, cells + 1)]),
        "visits": visits, "observed": np.where(visits > 0, hill + rng.normal(0, 3, hill.shape), np.nan),
    }  # fmt: skip
    if completed:
        state |= {
            "completed": hill, "choice": rng.integers(0, 3, hill.shape).astype(np.int16),
            "uncertainty": 1 / np.sqrt(1 + visits),
            "singular_values": np.stack([1000 + np.arange(snapshots), np.linspace(5, 60, snapshots),
                                         np.linspace(0.1, 9, snapshots)], axis=1),
        }  # fmt: skip
    return state


def write_study(root, tasks, methods, seeds, *, steps=20_000, every=1000, length=100, with_maps=True):
    """A whole comparison: augmented methods learn sooner, and their explorer acts at first."""
    for t, task in enumerate(tasks):
        for m, method in enumerate(methods):
            for seed in range(seeds):
                rng = np.random.default_rng([t, m, seed])
                augmented = "+pa" in method
                half = steps * (0.12 if augmented else 0.3 + 0.1 * (m % 4)) * rng.uniform(0.7, 1.3)
                at = np.arange(every, steps + 1, every)
                level = -200 + 100 / (1 + np.exp(-(at - half) / (0.06 * steps)))
                episodes = np.arange(length, steps + 1, length)
                returns = -200 + 95 / (1 + np.exp(-(episodes - half) / (0.06 * steps)))
                returns = returns + rng.normal(0, 8, len(episodes))
                early = episodes < 0.25 * steps
                led = augmented & early & (rng.random(len(episodes)) < 0.9)
                returns = np.where(led, -130 + rng.normal(0, 15, len(episodes)), returns)
                write_run(
                    root, task, method, seed, returns=returns.tolist(), length=length, threshold=-110.0,
                    actors=["explorer" if each else "agent" for each in led],
                    evaluations=list(zip(at.tolist(), (level + rng.normal(0, 4, len(at))).tolist(), strict=True)),
                    clock=[(int(step), 0.004 * float(step) * (1 + 0.2 * augmented)) for step in at],
                    choices=rng.choice(["model", "fitted", "linear"], int(led.sum())).tolist() if augmented else (),
                    maps=maps(rng, completed=augmented) if with_maps and seed == 0 else None,
                )  # fmt: skip
