"""One cell of a study: one method on one task with one seed, trained, watched and written to its run folder.

The same task, method, seed and budget give the same files on any machine of the same versions, apart from seconds.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from polaug.explorers import Explorer
from polaug.state import State, save_state
from polaug.study.agents import (
    Evaluator,
    Tape,
    agent_settings,
    build,
    undisturbed,
    write_look,
    write_normalization,
)
from polaug.study.explore import Episode, clock, compile_seconds
from polaug.study.folder import NORMALIZATION, RunFolder, run_path, write_failure
from polaug.study.levels import CONFIRM_EPISODES, EARLY_EVERY, EARLY_STEPS, next_check
from polaug.study.maps import MapRecorder
from polaug.study.methods import Method
from polaug.study.methods import method as find_method
from polaug.study.pool import Progress
from polaug.study.results import Run, read_run
from polaug.study.study import check_budget, logged, run_settings
from polaug.study.tasks import Task, longest
from polaug.study.tasks import task as find_task

__all__ = ["Progress", "train"]

_FOREVER = 2**62  # steps


def train(
    task: str | Task,
    method: str | Method,
    *,
    steps: int | None = None,
    seed: int = 0,
    out: str | Path,
    every: int = 1_000,
    eval_episodes: int = 10,
    early_every: int | None = EARLY_EVERY,
    confirm_episodes: int = CONFIRM_EPISODES,
    episodes: int | None = None,
    save_model: bool = False,
    tensorboard: str | os.PathLike[str] | None = None,
    track: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Train until `steps` environment steps and `episodes` episodes are done, and give the run as it is on disk.

    Every `every` steps (`early_every` at first) the agent alone plays `eval_episodes` deterministic episodes. Where
    they reach the threshold, and at the end, it plays `confirm_episodes` from fresh starts; see levels.py. None of
    these steps count. A finished run of the same settings is read instead; an unfinished one starts again. Logs go to
    the folder `tensorboard`, one folder per task and method; `track` sends them to Weights & Biases, too.
    """
    found, chosen = find_task(task), find_method(method)
    budgets: dict[str, Any] = {"steps": steps, "episodes": episodes, "every": every, "eval_episodes": eval_episodes,
               "early_every": early_every, "confirm_episodes": confirm_episodes}  # fmt: skip
    check_budget(**budgets, seed=seed)
    settings = run_settings(found, chosen, seed, **budgets)
    path = run_path(Path(out), found.name, chosen.name, seed)
    with RunFolder(path, settings) as folder:
        if not folder.finished:
            try:
                with _one_thread(), logged(path, settings, tensorboard, track) as logs:
                    _run(folder, found, chosen, seed, progress, save_model, logs)
            except KeyboardInterrupt:
                raise
            except BaseException as fault:  # an environment may call sys.exit, too
                write_failure(path, f"{type(fault).__name__}: {fault}", traceback.format_exc())
                raise
    return read_run(path)


def _run(
    folder: RunFolder,
    task: Task,
    method: Method,
    seed: int,
    progress: Callable[[Progress], None] | None,
    save_model: bool,
    logs: Path | None,
) -> None:
    wanted = folder.settings
    model, tape = build(method, task, seed, logs)
    horizon = wanted["steps"] or wanted["episodes"] * longest(tape.venv.get_attr("spec")[0])
    recorder = Recorder(folder, task, tape, horizon=horizon, pays=method.pays, progress=progress)
    try:
        started = clock()
        _learn(model, recorder, horizon, None if logs is None else f"seed_{seed}")
        trained = clock() - started - recorder.evaluation_seconds
        if save_model:
            model.save(folder.path / "model.zip")
            write_normalization(folder.path / NORMALIZATION, model)
        folder.finish(recorder.summary() | {"seconds": round(trained, 3)}, recorder.map_state())
    finally:
        recorder.evaluator.close()
        tape.close()


def _learn(model: BaseAlgorithm, recorder: Recorder, horizon: int, log_name: str | None) -> None:
    """Learn until the recorder has seen enough; schedules run over `horizon` steps and stay at their end after it.

    On-policy agents take the length of their schedules from the call of `learn`: beyond the horizon each call is for
    one rollout, whose end is past the end of every schedule. The others take it from the recorder.
    """
    options: dict[str, Any] = {"callback": recorder, "log_interval": None}
    if log_name is not None:
        options |= {"log_interval": 1, "tb_log_name": log_name}
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


_SNAPSHOTS = 8  # looks at the maps in a run, evenly spaced: each costs as much as some dozens of steps,
_APART = 1_250  # and so many are between two
_PULSE = 0.25  # seconds between reports of progress


class Recorder(BaseCallback):
    """Runs after the augmentation's own callback, which sets the actor and adds the bonus."""

    def __init__(
        self,
        folder: RunFolder,
        task: Task,
        tape: Tape,
        *,
        horizon: int,
        pays: bool,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        super().__init__()
        wanted = folder.settings
        self._folder, self._tape, self._horizon, self._pays, self._progress = folder, tape, horizon, pays, progress
        self._steps, self._episodes = wanted["steps"] or 0, wanted["episodes"] or 0
        self._every: int = wanted["every"]
        self._early_every: int = wanted["early_every"] or self._every
        self.evaluator = Evaluator(task, wanted["seed"], wanted["eval_episodes"], wanted["confirm_episodes"])
        self._threshold, self._checked_at = task.threshold, 0
        self._solved_at: int | None = None
        self._augmented = np.zeros(tape.num_envs)
        self._ended = 0
        self._last_return, self._last_actor, self._last_mean = float("nan"), "agent", float("nan")
        self._due = self._apart(0)
        self._snapshot_due = self._snapshot_every = max(self._every, horizon // _SNAPSHOTS, _APART)
        self._pulse = perf_counter()
        self._started, self._compiled = clock(), compile_seconds()
        self.over = False
        """Whether steps and episodes are done."""
        self.evaluation_seconds = 0.0

    # -- SB3's hooks ------------------------------------------------------------------------------------------------

    def _on_training_start(self) -> None:
        # Off-policy schedules run over the steps that were asked for, however many more the episodes need.
        self.model._total_timesteps = self._horizon
        if self.num_timesteps:
            return  # the same run goes on
        space = self._tape.observation_space
        gamma = float(getattr(self.model, "gamma", 0.99))
        self._maps = MapRecorder.of(space, self._tape.action_space, gamma=gamma)
        self._started = clock()

    def _on_step(self) -> bool:
        tape = self._tape
        if self._maps is not None:
            self._maps.observe(tape.observations, tape.actions, tape.rewards, tape.dones)
        if self._pays:
            self._augmented += self._seen_rewards()
        dones = tape.dones.tolist()
        if True in dones:
            for env, done in enumerate(dones):
                if done:
                    self._end_episode(env)
        self.over = self.num_timesteps >= self._steps and self._ended >= self._episodes
        if self.num_timesteps >= self._due or self.over:
            self._look()
        if self._progress is not None and (self.over or perf_counter() - self._pulse > _PULSE):
            self._pulse = perf_counter()
            self._progress(Progress(self.num_timesteps, self._horizon, self._ended, self._last_return,
                                    self._last_actor, self._last_mean, self._solved_at))  # fmt: skip
        return not self.over

    # -- parts ------------------------------------------------------------------------------------------------------

    def _seen_rewards(self) -> Any:
        """Rewards with the bonus, before any normalisation."""
        normalizer = self.model.get_vec_normalize_env()
        return self.locals["rewards"] if normalizer is None else normalizer.get_original_reward()

    def _end_episode(self, env: int) -> None:
        info = self._tape.infos[env]
        told, actor = info["episode"], str(info.get("actor", "agent"))
        self._ended += 1
        self._last_return, self._last_actor = float(told["r"]), actor
        self._folder.add(Episode(self._ended, self.num_timesteps, float(told["r"]), int(told["l"]), actor))
        if self._pays:
            self._folder.row("bonuses.csv", self._ended, float(self._augmented[env]))
            self._augmented[env] = 0.0
        member = getattr(self._explorer, "played", {}).get(env)
        if member is not None and actor == "explorer":
            self._folder.row("choices.csv", self._ended, member)

    def _look(self) -> None:
        """Evaluate the agent, and look at the maps from time to time."""
        step, trained = self.num_timesteps, clock() - self._started - self.evaluation_seconds
        returns = self._timed(lambda: self.evaluator.returns(self.model))
        self._last_mean = float(returns.mean())
        self._folder.row("evaluations.csv", step, self._last_mean, float(returns.std()))
        self._folder.row("clock.csv", step, round(trained, 3))
        if self.over or next_check(step, self._threshold, self._last_mean, self._solved_at, self._checked_at):
            self._check(step)
        write_look(self._folder, self.model, step)
        while self._due <= step:
            self._due += self._apart(self._due)
        if self._maps is not None and (step >= self._snapshot_due or self.over):
            self._snapshot_due += self._snapshot_every
            with undisturbed():
                self._maps.snapshot(step, self._explorer)
            if not self.over:  # at the end `RunFolder.finish` writes them
                save_state(self._folder.path / "maps.npz", self._maps.state())

    def _check(self, step: int) -> None:
        """Many episodes from fresh starts; the first of them that reach the threshold are the solved step."""
        returns = self._timed(lambda: self.evaluator.confirmed(self.model, step))
        mean, self._checked_at = float(returns.mean()), step
        self._folder.row("confirmations.csv", step, mean, float(returns.std()))
        if self._solved_at is None and self._threshold is not None and mean >= self._threshold:
            self._solved_at = step

    def _timed(self, evaluate: Callable[[], Any]) -> Any:
        before = clock()
        result = evaluate()
        self.evaluation_seconds += clock() - before
        return result

    def _apart(self, step: int) -> int:
        """Steps from an evaluation that was due at `step` to the next."""
        return min(self._early_every, self._every) if step < EARLY_STEPS else self._every

    @property
    def _explorer(self) -> Explorer | None:
        found: Explorer | None = getattr(self.model, "explorer", None)  # plain agents have no such attribute
        return found

    # -- at the end of a run ------------------------------------------------------------------------------------------

    def map_state(self) -> State | None:
        """The maps over time, for observations that have some."""
        return None if self._maps is None else self._maps.state()

    def summary(self) -> dict[str, Any]:
        """The content of done.json, without the total time."""
        bridge = getattr(self.model, "_polaug", None)
        share = 0.0 if bridge is None else bridge.coach.guide_steps / max(bridge.coach.steps, 1)
        statistics = {} if self._explorer is None else self._explorer.statistics()
        return {
            "steps": self.num_timesteps, "episodes": self._ended, "explorer_share": round(share, 4),
            "evaluation_seconds": round(self.evaluation_seconds, 3),
            "compile_seconds": round(compile_seconds() - self._compiled, 3), "statistics": statistics,
            "agent": agent_settings(self.model),
        }  # fmt: skip
