"""One cell of a study: one method on one task with one seed, trained, watched and written to its run folder.

The same task, method, seed and budget give the same files on any machine of the same versions, apart from seconds.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from polaug.checks import whole
from polaug.study.agents import build
from polaug.study.folder import RunFolder, run_path
from polaug.study.methods import Method
from polaug.study.methods import method as find_method
from polaug.study.normalization import NORMALIZATION, write_normalization
from polaug.study.progress import Progress
from polaug.study.recorder import Recorder
from polaug.study.results import Run, read_run
from polaug.study.stopwatch import seconds
from polaug.study.study import budget, run_settings
from polaug.study.tasks import Task
from polaug.study.tasks import task as find_task

__all__ = ["Progress", "train"]

_FOREVER = 2**62  # steps
_LONG_EPISODE = 1_000  # steps, where an environment names no limit


def train(
    task: str | Task,
    method: str | Method,
    *,
    steps: int | None = None,
    seed: int = 0,
    out: str | Path,
    every: int = 1_000,
    eval_episodes: int = 10,
    episodes: int | None = None,
    save_model: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Train until `steps` environment steps and `episodes` episodes are done, and give the run as it is on disk.

    Every `every` steps the agent alone plays `eval_episodes` deterministic episodes, which do not count. A finished run
    of the same settings is read instead; an unfinished one starts anew.
    """
    found, chosen = find_task(task), find_method(method)
    budget(steps, episodes)
    whole("seed", seed, 0)
    whole("every", every, 1)
    whole("eval_episodes", eval_episodes, 1)
    path = run_path(Path(out), found.name, chosen.name, seed)
    settings = run_settings(found, chosen, seed, steps=steps, episodes=episodes, every=every,
                            eval_episodes=eval_episodes)  # fmt: skip
    with RunFolder(path, settings) as folder:
        if not folder.finished:
            try:
                with _one_thread():
                    _run(folder, found, chosen, seed, progress, save_model)
            except KeyboardInterrupt:
                raise
            except BaseException as fault:  # an environment may call sys.exit, too
                folder.fail(f"{type(fault).__name__}: {fault}", traceback.format_exc())
                raise
    return read_run(path)


def _run(
    folder: RunFolder,
    task: Task,
    method: Method,
    seed: int,
    progress: Callable[[Progress], None] | None,
    save_model: bool,
) -> None:
    wanted = folder.settings
    model, tape = build(method, task, seed)
    limit = tape.venv.get_attr("spec")[0]
    horizon = wanted["steps"] or wanted["episodes"] * ((limit and limit.max_episode_steps) or _LONG_EPISODE)
    recorder = Recorder(folder, task, tape, horizon=horizon, pays=method.pays, progress=progress)
    try:
        started = seconds()
        _learn(model, recorder, horizon)
        trained = seconds() - started - recorder.evaluation_seconds
        if save_model:
            model.save(folder.path / "model.zip")
            write_normalization(folder.path / NORMALIZATION, model)
        maps = recorder.maps()
        folder.finish(recorder.summary() | {"seconds": round(trained, 3)}, maps)
    finally:
        recorder.close()
        tape.close()


def _learn(model: BaseAlgorithm, recorder: Recorder, horizon: int) -> None:
    """Learn until the recorder has seen enough; schedules run over `horizon` steps and stay at their end after it.

    On-policy agents take the length of their schedules from the call of `learn`: beyond the horizon each call is for
    one rollout, whose end is past the end of every schedule. The others take it from the recorder.
    """
    options: dict[str, Any] = {"callback": recorder, "log_interval": None}
    model.learn(horizon, **options)
    more = 1 if isinstance(model, OnPolicyAlgorithm) else _FOREVER
    while not recorder.over:
        model.learn(more, reset_num_timesteps=False, **options)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums over several threads end in other last bits, and small networks are no faster for it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
