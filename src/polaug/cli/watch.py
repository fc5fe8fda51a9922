"""`polaug watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polaug.cli.options import Seed, flag, whole
from polaug.cli.progress import ProgressDisplay


def watch_(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Run folder, or saved agent. A saved agent contains pickles: open only files that you trust.",
        ),
    ],
    out: Annotated[Path, flag("The film, .gif or .mp4.", "FILE")] = Path("agent.gif"),
    episodes: Annotated[int, whole("Number of episodes in the film.")] = 3,
    seed: Seed = 0,
    env: Annotated[str | None, flag("Environment. Only needed for a saved agent.", "ENV")] = None,
    algo: Annotated[str | None, flag("Algorithm, if the file does not say it.", "NAME")] = None,
    fps: Annotated[float | None, flag("Steps per second. Default: the environment's.", "X")] = None,
    width: Annotated[int | None, whole("Width in pixels. Default: 664.")] = None,
    vecnormalize: Annotated[
        Path | None,
        flag("File of VecNormalize.save(), for an agent trained with it. It is a pickle: open only what you trust.",
             "FILE"),
    ] = None,
) -> None:  # fmt: skip
    """Film an agent, with its explorer beside it.

    Examples:
      polaug watch runs/train/MountainCar-v0/ppo+pa/seed_0 --out car.gif
      polaug watch model.zip --env CartPole-v1 --out pole.mp4
    """
    with ProgressDisplay() as shown:
        from polaug.watch import watch

        path = watch(
            model, out, episodes=episodes, seed=seed, env=env, algo=algo, fps=fps, width=width,
            vecnormalize=vecnormalize, progress=shown.update,
        )  # fmt: skip
    print(f"film: {path}")
