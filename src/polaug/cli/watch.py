"""See an agent play: a film of several episodes, agent and explorer side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from polaug.cli.arguments import add_seed, described, positive_number, whole_number
from polaug.cli.progress import episode_bar

_EXAMPLE = """examples:
  polaug watch runs/train/MountainCar-v0/ppo+pa/seed_0 --out car.gif
  polaug watch model.zip --env CartPole-v1 --out pole.mp4"""


def add_parser(commands: Any) -> None:
    """`polaug watch`."""
    parser = commands.add_parser("watch", **described(f"{__doc__}\n\n{_EXAMPLE}"))
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="a saved agent (trusted: it holds pickles), or a run folder"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("agent.gif"), metavar="FILE", help=".gif or .mp4 (%(default)s)"
    )
    parser.add_argument("--episodes", type=whole_number(1, 3), default=3, metavar="N", help="(%(default)s)")
    add_seed(parser, "of the first episode's start (%(default)s)")
    parser.add_argument("--env", default=None, metavar="ENV", help="where it plays (a run folder says it)")
    parser.add_argument("--algo", default=None, metavar="NAME", help="who saved it (the file says it)")
    parser.add_argument(
        "--fps", type=positive_number(30), default=None, metavar="X", help="steps per second (the environment's own)"
    )
    parser.add_argument(
        "--width", type=whole_number(160, 640), default=None, metavar="N", help="of the picture, in pixels (664)"
    )
    parser.add_argument(
        "--vecnormalize", type=Path, default=None, metavar="FILE",
        help="what VecNormalize.save() wrote, for an agent trained under it (a pickle: trusted)",
    )  # fmt: skip
    parser.set_defaults(command=run)


def run(args: argparse.Namespace) -> None:
    """Film it."""
    with episode_bar(100) as advance:
        from polaug.study.watch import watch

        done = 0

        def progress(label: str, share: float) -> None:
            nonlocal done
            percent = int(100 * share)
            advance(label, percent - done)
            done = percent

        path = watch(
            args.model, args.out, episodes=args.episodes, seed=args.seed, env=args.env, algo=args.algo, fps=args.fps,
            width=args.width, vecnormalize=args.vecnormalize, progress=progress,
        )  # fmt: skip
    print(f"film: {path}")
