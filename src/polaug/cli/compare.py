"""Compare methods on tasks over seeds, in parallel, and report.

Finished runs are kept: the same command goes on after Ctrl-C, a crash or a reboot, and more seeds, methods or tasks may
be added later. Methods that cannot run on a task are skipped there, and said.
"""

from __future__ import annotations

import argparse
from typing import Any

from polaug.cli.arguments import (
    RUNS_ARE_KEPT,
    add_budget,
    add_envs,
    add_out,
    add_seeds,
    add_workers,
    budget,
    described,
    envs,
    names,
    seeds,
)
from polaug.cli.ending import run_and_tell
from polaug.study.study import Study

_EXAMPLE = """examples:
  polaug compare MountainCar-v0 CartPole-v1 --methods ppo,ppo+pa,dqn,dqn+pa --seeds 5 --steps 20000
  polaug compare classic --methods ppo-tuned,ppo+pa --seeds 10 --steps 50000 --backend ray --address auto"""


def add_parser(commands: Any) -> None:
    """`polaug compare`."""
    parser = commands.add_parser("compare", **described(f"{__doc__}\n{_EXAMPLE}"))
    add_envs(parser)
    parser.add_argument(
        "--methods", default="ppo,ppo+pa", metavar="NAME[,NAME]", help="see `polaug list` (%(default)s)"
    )
    add_seeds(parser, 3)
    add_budget(parser, steps=20_000)
    parser.add_argument("--save-models", action="store_true", help="keep each run's model.zip, for `polaug watch`")
    add_workers(parser)
    add_out(parser, "runs/compare")
    parser.set_defaults(command=run, interrupted=RUNS_ARE_KEPT)


def run(args: argparse.Namespace) -> int:
    """Run the study."""
    study = Study.of(envs(args), names(args.methods), seeds(args), **budget(args), save_models=args.save_models)
    return run_and_tell(study, args)
