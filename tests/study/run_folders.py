"""Run folders made by hand, in the format that run folders have."""

import csv
import json

import numpy as np

from polaug.state import save_state
from polaug.study.folder import folder_name


def write_run(root, task, method, seed, *, returns=(-200.0, -150.0), bonuses=None, evaluated=True, threshold=-110.0,
              evaluations=None, explored=0, length=200, maps=None, folder=None):  # fmt: skip
    """A finished run whose first `explored` episodes the explorer drove; `evaluations` are (step, mean) pairs."""
    path = root / (folder or folder_name(task)) / folder_name(method) / f"seed_{seed}"
    path.mkdir(parents=True)
    steps = length * len(returns)
    kind = "train" if evaluated else "explore"
    config = {"format": 2, "kind": kind, "task": task, "method": method, "seed": seed, "threshold": threshold}
    (path / "config.json").write_text(json.dumps(config))
    actors = ["explorer"] * explored + ["agent"] * (len(returns) - explored)
    table(path / "episodes.csv", "episode,step,return,length,actor",
          [(k + 1, length * (k + 1), repr(float(value)), length, actor)
           for k, (value, actor) in enumerate(zip(returns, actors, strict=True))])  # fmt: skip
    if evaluated:
        pairs = evaluations or [(steps // 4, -200.0), (steps // 2, -180.0), (steps, -150.0)]
        table(path / "evaluations.csv", "step,mean_return,std_return", [(step, mean, 1.0) for step, mean in pairs])
        table(path / "confirmations.csv", "step,mean_return,std_return", [(step, mean, 1.0) for step, mean in pairs])
        table(path / "clock.csv", "step,seconds", [(0, 0.0), (steps // 2, 1.0), (steps, 2.0)])
    if bonuses is not None:
        table(path / "bonuses.csv", "episode,augmented_return", list(enumerate(bonuses, start=1)))
    if maps is not None:
        save_state(path / "maps.npz", {name: np.asarray(value) for name, value in maps.items()})
    (path / "done.json").write_text(json.dumps({"steps": steps, "episodes": len(returns), "seconds": 2.0}))
    return path


def table(path, head, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head.split(","))
        writer.writerows(rows)
