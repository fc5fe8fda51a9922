"""`polaug watch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polaug.cli.options import Seed, whole
from polaug.cli.progress import Shown


def watch_(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Run folder, or saved agent. A saved agent contains pickles: open only files that you trust.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The film, .gif or .mp4.")] = Path("agent.gif"),
    episodes: Annotated[int, whole("Number of episodes in the film.")] = 3,
    seed: Seed = 0,
    env: Annotated[str | None, typer.Option(metavar="ENV", help="Environment. Only needed for a saved agent.")] = None,
    algo: Annotated[str | None, typer.Option(metavar="NAME", help="Algorithm, if the file does not say it.")] = None,
    fps: Annotated[
        float | None, typer.Option(metavar="X", help="Steps per second. Default: the environment's.")
    ] = None,
    width: Annotated[int | None, whole("Width in pixels. Default: 664.")] = None,
    vecnormalize: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of VecNormalize.save(), for an agent trained with it. It is a pickle: open only what you trust.",
        ),
    ] = None,
) -> None:
    """Film an agent, with its explorer beside it.

    Examples:
      polaug watch runs/train/MountainCar-v0/ppo+pa/seed_0 --out car.gif
      polaug watch model.zip --env CartPole-v1 --out pole.mp4
    """
    with Shown() as shown:
        from polaug.watch import watch

        path = watch(
            model, out, episodes=episodes, seed=seed, env=env, algo=algo, fps=fps, width=width,
            vecnormalize=vecnormalize, progress=shown.update,
        )  # fmt: skip
    print(f"film: {path}")
