"""What two workers gain: the time of a study with two workers against one.

    python -m benchmarks.study_cost [--steps 20000] [--seeds 2]

`ratio` is the wall-clock time of two workers over that of one. The load of the machine when it began is written down
too: on a busy one the ratio says little.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from polaug.study import Study, run_study

RESULTS = Path(__file__).parent / "results" / "study_cost.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    methods = ["ppo", "dqn", "ppo+pa"]
    study = Study.of(["CartPole-v1", "MountainCar-v0"], methods, args.seeds, steps=args.steps)
    load = os.getloadavg()[0]
    seconds: dict[int, float] = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_study(study, folder, workers=workers)
            if not outcome.ok:
                raise SystemExit(outcome.failures[0].traceback)
            seconds[workers] = outcome.seconds
    result = {
        "cells": len(study.cells()), "steps": args.steps, "cpus": os.cpu_count(), "load_at_start": round(load, 1),
        "seconds": {str(workers): round(value, 1) for workers, value in seconds.items()},
        "ratio": round(seconds[2] / seconds[1], 3),
    }  # fmt: skip
    args.results.parent.mkdir(parents=True, exist_ok=True)
    args.results.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
