"""Watches a run from SB3's callback: episodes and who drove them, evaluations, clock, bonuses, maps; and ends it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from polaug.exploration import Explorer
from polaug.state import State
from polaug.study.agents import Tape
from polaug.study.evaluation import Evaluator, undisturbed
from polaug.study.explore import Episode
from polaug.study.folder import RunFolder
from polaug.study.maps import MapRecorder
from polaug.study.progress import Progress
from polaug.study.stopwatch import compile_seconds, seconds
from polaug.study.tasks import Task

_SNAPSHOTS = 8  # looks at the maps in a run, evenly spaced: each costs as much as some dozens of steps,
_APART = 1_250  # and so many are between two
_PULSE = 0.25  # seconds between reports of progress
_HELD = 256  # steps that are handed to the maps at once: one by one each finds cold caches, and costs more


class Recorder(BaseCallback):
    """Stands behind the augmentation's own callback, which says who drove and pays the bonus."""

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
        self._steps, self._episodes, self._every = wanted["steps"] or 0, wanted["episodes"] or 0, wanted["every"]
        self._evaluator = Evaluator(task, wanted["eval_episodes"], wanted["seed"])
        self._augmented = np.zeros(tape.num_envs)
        self._held: list[tuple[Any, ...]] = []
        self._ended = 0
        self._last_return, self._last_actor, self._last_mean = float("nan"), "agent", float("nan")
        self._evaluated_at, self._due = -1, self._every
        self._snapshot_due = self._snapshot_every = max(self._every, horizon // _SNAPSHOTS, _APART)
        self._pulse = perf_counter()
        self._started, self._compiled = seconds(), compile_seconds()
        self.over = False
        """Whether steps and episodes are done."""
        self.evaluation_seconds = self.machinery_seconds = self.maps_seconds = 0.0

    # -- SB3's hooks ------------------------------------------------------------------------------------------------

    def _on_training_start(self) -> None:
        # Off-policy schedules run over the steps that were asked for, however many more the episodes need.
        self.model._total_timesteps = self._horizon
        if self.num_timesteps:
            return  # the same run goes on
        space = self._tape.observation_space
        gamma = float(getattr(self.model, "gamma", 0.99))
        self._maps = MapRecorder.of(space, self._tape.action_space, gamma=gamma)
        self._started = seconds()

    def _on_step(self) -> bool:
        began, evaluating = perf_counter(), self.evaluation_seconds
        tape = self._tape
        if self._maps is not None:
            self._held.append((tape.observations, tape.actions.copy(), tape.rewards, tape.dones))
            if len(self._held) == _HELD:
                self._observe()
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
        if self._progress is not None and (self.over or began - self._pulse > _PULSE):
            self._pulse = began
            self._progress(Progress(self.num_timesteps, self._horizon, self._ended, self._last_return,
                                    self._last_actor, self._last_mean))  # fmt: skip
        self.machinery_seconds += perf_counter() - began - (self.evaluation_seconds - evaluating)
        return not self.over

    # -- parts ------------------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        """Tell the maps what was held back; the environments' arrays are new ones at every step."""
        if self._maps is not None:
            for step in self._held:
                self._maps.observe(*step)
        self._held.clear()

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
        self._observe()
        step, compiled = self.num_timesteps, compile_seconds()
        before = seconds()
        trained = before - self._started - self.evaluation_seconds
        returns = self._evaluator.returns(self.model)
        self.evaluation_seconds += seconds() - before
        self._last_mean = float(returns.mean())
        self._folder.row("evaluations.csv", step, self._last_mean, float(returns.std()))
        self._folder.row("clock.csv", step, round(trained, 3))
        while self._due <= step:
            self._due += self._every
        if self._maps is not None and (step >= self._snapshot_due or self.over):
            self._snapshot_due += self._snapshot_every
            before = seconds()
            with undisturbed():
                self._maps.snapshot(step, self._explorer)
            self.maps_seconds += seconds() - before
        self.machinery_seconds -= compile_seconds() - compiled  # `_on_step` counts all that passes

    @property
    def _explorer(self) -> Explorer | None:
        found: Explorer | None = getattr(self.model, "explorer", None)  # plain agents have no such attribute
        return found

    # -- what is left at the end ------------------------------------------------------------------------------------

    def maps(self) -> State | None:
        """The maps over time, for observations that have some."""
        before = seconds()
        state: State | None = None if self._maps is None else self._maps.state()
        self.maps_seconds += seconds() - before
        self.machinery_seconds += seconds() - before
        return state

    def summary(self) -> dict[str, Any]:
        """What done.json says, apart from the time of the whole."""
        companion = getattr(self.model, "_polaug", None)
        handover = None if companion is None else companion.handover
        share = 0.0 if handover is None else handover.explorer_steps / max(handover.steps, 1)
        statistics = {} if self._explorer is None else self._explorer.statistics()
        return {
            "steps": self.num_timesteps, "episodes": self._ended, "explorer_share": round(share, 4),
            "evaluation_seconds": round(self.evaluation_seconds, 3),
            "machinery_seconds": round(self.machinery_seconds + self._tape.seconds, 3),
            "maps_seconds": round(self.maps_seconds, 3),
            "compile_seconds": round(compile_seconds() - self._compiled, 3), "statistics": statistics,
        }  # fmt: skip

    def close(self) -> None:
        """Close the evaluation's environments."""
        self._evaluator.close()
