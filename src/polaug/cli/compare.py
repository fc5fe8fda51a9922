"""`polaug compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polaug.cli import options
from polaug.cli.study_output import followed, run_and_tell
from polaug.study.methods import method as find_method
from polaug.study.study import Study, check_logs
from polaug.study.tasks import task as find_task


@options.grouped
def compare(
    env: options.Envs = None,
    more_envs: options.MoreEnvs = None,
    methods: options.Methods = "ppo,ppo+pa",
    seeds: options.Seeds = 3,
    seed: options.Seed = 0,
    *,
    budget: options.Budget,
    settings: options.Settings,
    logs: options.Logs,
    save_models: Annotated[bool, typer.Option("--save-models", help="Save a model.zip for each run.")] = False,
    machines: options.Machines,
    out: options.Out = Path("runs/compare"),
) -> int:
    """Compare methods on tasks over several seeds and write a report.

    The same command continues a study after Ctrl-C, a crash or a reboot. Finished runs are kept, so you can add seeds,
    methods or tasks later. A method that does not support a task is skipped there with a message.

    Examples:
      polaug compare MountainCar-v0 CartPole-v1 --methods ppo,ppo+pa,dqn,dqn+pa --seeds 5 --steps 20000
      polaug compare classic --methods ppo-tuned,ppo+pa --seeds 10 --steps 50000 --backend ray --address auto
    """
    check_logs(logs.tensorboard, logs.track)
    tasks = [settings.task(find_task(name)) for name in options.envs(env, more_envs)]
    chosen = [settings.method(find_method(name), tasks[0]) for name in options.names(methods)]
    folder = None if logs.tensorboard is None else str(logs.tensorboard)
    study = Study.of(
        tasks, chosen, range(seed, seed + seeds), **budget.settings(), save_models=save_models, tensorboard=folder,
        track=logs.track,
    )  # fmt: skip
    with followed(out, logs.live):
        return run_and_tell(study, out, machines)
