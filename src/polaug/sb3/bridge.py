"""The connection between Stable-Baselines3 and the coach: converts steps, adds bonuses and stores the state.

It uses raw observations and rewards, also with VecNormalize, and separates terminations from time limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polaug.coach import Coach, Episode
from polaug.config import Augmentation
from polaug.errors import PolaugError, StateError
from polaug.explorers import Explorer, Transitions
from polaug.features.spaces import mapped
from polaug.sb3.averaged import Averaged
from polaug.sb3.hindsight import Hindsight, uses_hindsight
from polaug.sb3.pupils import AgentCallables, family_of
from polaug.sb3.saving import other_settings
from polaug.sb3.sbx import Twin, is_sbx
from polaug.sb3.spaces import check_actions
from polaug.sb3.vec_normalize import check_finite, check_payable, raw_observation_space
from polaug.state import State, part, prefixed

_VERSION = 12  # of the saved state


class Bridge:
    """The augmentation of an agent. `attach` builds the coach once there is an environment."""

    def __init__(self, settings: Augmentation, state: State | None = None) -> None:
        self.settings = settings
        self._pending = state  # loaded before there is an environment
        self.coach: Coach
        self.averaged: Averaged | None = None
        self.twin: Twin | None = None
        self.endings: dict[int, Any] = {}
        """Raw last observations of the episodes that ended with the latest step, with VecNormalize."""
        self._observations: Any = None
        self._hindsight = Hindsight()
        self._unpaid: tuple[Any, ...] | None = None  # VecNormalize's returns and their statistics before the step
        self._replaced = 0  # updates of the agent that the latest teaching replaces
        self.taught = 0
        """Number of teaching phases since the agent was built or loaded."""

    # -- building ---------------------------------------------------------------------------------------------------

    @property
    def attached(self) -> bool:
        """Whether there is an environment and the coach is built."""
        return hasattr(self, "coach")

    @property
    def explorer(self) -> Explorer:
        """The guide."""
        return self.coach.guide

    def attach(self, model: Any) -> None:
        """Build the coach for `model`, once it has an environment."""
        self._all_is_taught = family_of(type(model)) == "value_based"
        foreign = is_sbx(type(model))
        self._has_actor = family_of(type(model)) == "actor_critic" and not foreign
        if self.averaged is None and self._all_is_taught and not foreign:
            self.averaged = Averaged(AgentCallables(model).value_parameters)
        if model.env is None:
            return
        space = raw_observation_space(model)
        check_actions(model.action_space)
        self._relabels = uses_hindsight(model)
        if self.attached:
            return
        self._seed = self._choose_seed(model)
        self.twin = Twin(model) if foreign else None
        pupil = AgentCallables(model).pupil() if self.twin is None else self.twin.pupil()
        self.coach = Coach(pupil, space, model.action_space, self.settings, n_envs=model.n_envs, seed=self._seed)
        if self._pending is not None:
            self._restore(self._pending)
            self._pending = None

    def _choose_seed(self, model: Any) -> int:
        """The seed of the settings, or else of the saved run, of the agent, or a random one."""
        if self.settings.seed is not None:
            return self.settings.seed
        if self._pending is not None and "seed" in self._pending:
            return int(str(self._pending["seed"]))
        fresh = np.random.SeedSequence().generate_state(1)[0]
        return int(fresh if model.seed is None else model.seed)

    def settled(self) -> AbstractContextManager[None]:
        """Context in which the network of a value-based agent is its mean."""
        return nullcontext() if self.averaged is None else self.averaged.in_place()

    def loaded(self, state: State) -> None:
        """Replace the mean, which the agent's file holds, by the network that continues to learn."""
        if self.averaged is not None and "averaged.counters" in state:
            try:
                self.averaged.load_state_dict(part("averaged", state))
            except (KeyError, TypeError) as fault:
                raise StateError(f"augmentation: damaged ({fault!r}). Load another file.") from fault

    # -- a step -----------------------------------------------------------------------------------------------------

    def look(self, model: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Store the raw observations of the next step.

        Returns where the guide drives (n,), and where the agent drives without noise (n,).
        """
        normalizer = model.get_vec_normalize_env()
        self._observations = model._last_obs if normalizer is None else normalizer.get_original_obs()
        if len(self.coach.drivers) != model.n_envs:
            self.begin(model.n_envs)
        self._unpaid = None
        if self.explorer.pays and normalizer is not None and normalizer.training and normalizer.norm_reward:
            known = normalizer.ret_rms
            self._unpaid = (normalizer.returns.copy(), known.mean, known.var, known.count)
        return self.coach.drivers, self.coach.evaluating

    def begin(self, n_envs: int) -> None:
        """All environments have been reset."""
        self._hindsight.restart()
        self.coach.begin(n_envs)

    def guide_actions(self, masks: Any = None) -> NDArray[Any]:
        """The guide's actions for all environments."""
        return self.coach.guide_actions(self._observations, masks)

    def after_step(self, model: Any, step: dict[str, Any], actions: NDArray[Any]) -> list[Episode]:
        """Process the environments' results. `step` holds SB3's new_obs, rewards, dones and infos."""
        if self._observations is None:
            return []
        dones, infos = np.asarray(step["dones"], dtype=np.bool_), step["infos"]
        normalizer = model.get_vec_normalize_env()
        following = step["new_obs"] if normalizer is None else normalizer.get_original_obs()
        rewards = np.asarray(step["rewards"] if normalizer is None else normalizer.get_original_reward(), dtype=float)
        truncated = np.zeros(len(dones), np.bool_)
        if True in dones.tolist():
            following = mapped(np.array, following)
            for env in np.flatnonzero(dones).tolist():
                truncated[env] = bool(infos[env].get("TimeLimit.truncated", False))
                last = infos[env].get("terminal_observation") if normalizer is None else self.endings.get(env)
                if last is not None:
                    _put(following, env, last)
        if self.explorer.pays and normalizer is None:
            check_payable(step["rewards"])
        # Checked here, because the guide learns from the agent's steps later.
        clipped = normalizer is not None
        check_finite("rewards", rewards, clipped=clipped)
        if "features" not in self.settings.explorer_options:  # a feature function may handle missing values
            for part_ in following.values() if isinstance(following, dict) else [following]:
                check_finite("observations", np.asarray(part_), clipped=clipped)
        actions = np.asarray(actions, dtype=model.action_space.dtype)  # SB3 samples MultiBinary actions as floats
        transitions = Transitions(self._observations, actions, rewards, following, dones & ~truncated, truncated)
        self._observations = None
        episodes = self.coach.observe(transitions, teach=False)
        if self._relabels:
            for relabelled in self._hindsight.follow(model, transitions, dones, infos):
                self.coach.observe_hindsight(relabelled)
        if self.explorer.pays:
            self._pay(normalizer, step["rewards"], rewards, self.explorer.bonus(transitions), dones)
        for episode in episodes:
            if dones[episode.environment]:  # otherwise a segment of an unfinished episode
                infos[episode.environment]["actor"] = "explorer" if episode.kind == "guide" else "agent"
        if self.averaged is not None:
            self.averaged.follow(len(dones))
        return episodes

    def _pay(
        self, normalizer: Any, paid: NDArray[Any], raw: NDArray[Any], bonus: NDArray[Any], dones: NDArray[np.bool_]
    ) -> None:
        """Add the bonus in place, in units of raw rewards, before SB3 stores the rewards.

        VecNormalize has normalised the step without the bonus. Its statistics are restored and updated with the bonus:
        otherwise a bonus on a task without rewards would be divided by a spread of 0.
        """
        if normalizer is None:
            paid += bonus.astype(paid.dtype)
            return
        if self._unpaid is not None:
            before, known = self._unpaid[0], normalizer.ret_rms
            known.mean, known.var, known.count = self._unpaid[1:]
            returns = before * normalizer.gamma + raw + bonus
            known.update(returns)
            normalizer.returns = np.where(dones, 0.0, returns)
        paid[:] = normalizer.normalize_reward(raw + bonus)
        normalizer.old_reward = raw + bonus  # what off-policy agents store

    def teach_if_due(self) -> bool:
        """Teach if teaching is due. Returns whether there were updates."""
        if not self.coach.teaching_due:
            return False
        telling = self.coach.decision.teaching > 0.0
        if self.twin is not None:
            self.twin.pull()
        self.coach.teach()
        if not self.coach.updates:  # the guide has no labels yet
            return False
        self.taught += 1
        if telling and self.averaged is not None:
            self.averaged.restart()
        self._replaced = self.coach.updates if self._all_is_taught else 0
        return True

    def due(self, gradient_steps: int) -> int:
        """Number of `gradient_steps` that a value-based agent still makes: each teaching update replaces one."""
        left = max(gradient_steps - self._replaced, 0)
        self._replaced -= gradient_steps - left
        return left

    @contextmanager
    def damped(self) -> Iterator[None]:
        """Context of an actor-critic agent's own updates, of which the actor keeps the share 1 − weight of teaching.

        A critic that has hardly learnt would undo what the actor is taught. The critic's own updates stay whole.
        """
        weight = self.coach.teaching_weight if self.attached and self._has_actor else 0.0
        if weight == 0.0:
            yield
            return
        actor = self.coach.pupil.parameters()
        before = [parameter.detach().clone() for parameter in actor]
        yield
        with torch.no_grad():
            for parameter, old in zip(actor, before, strict=True):
                parameter.lerp_(old, weight)

    # -- state ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The state as plain arrays."""
        head: State = {"version": np.array(_VERSION), "augmentation": np.array(self.settings.to_json())}
        averaged = {} if self.averaged is None else prefixed("averaged", self.averaged.state_dict())
        if not self.attached:
            return head if self._pending is None else self._pending | head | averaged
        own = {"seed": np.array(str(self._seed)), "replaced": np.array(self._replaced)}
        twin = {} if self.twin is None else prefixed("twin", self.twin.state_dict())
        return head | own | averaged | twin | prefixed("coach", self.coach.state_dict())

    def _restore(self, state: State) -> None:
        if "seed" not in state:
            return  # saved without an environment
        version = int(state.get("version", np.array(0)))
        if version != _VERSION:
            raise StateError(f"augmentation: saved by another version of polaug (format {version}, not {_VERSION}). "
                             "Use that version, or pass augmentation=None for the plain agent.")  # fmt: skip
        try:
            self._replaced = int(state["replaced"])
            self.coach.load_state_dict(part("coach", state))
            if self.twin is not None:
                self.twin.load_state_dict(part("twin", state))
        except (KeyError, TypeError, IndexError, ValueError) as fault:  # StateError is a ValueError
            other = other_settings(str(state.get("augmentation")), self.settings)
            if other is None and isinstance(fault, StateError):
                raise
            raise other or StateError(f"augmentation: damaged ({fault!r}). Load another file.") from fault

    def check_seen(self, before: int) -> None:
        """Raise an error if the coach saw no step of a training."""
        if self.coach.steps == before:
            raise PolaugError("augmentation: the coach saw no step of this training, so the agent trained without it. "
                              "Report the agent's class, or pass augmentation=None.")  # fmt: skip


def _put(observations: Any, env: int, last: Any) -> None:
    """Replace row `env`."""
    if isinstance(observations, dict):
        for key, column in observations.items():
            column[env] = last[key]
    else:
        observations[env] = last
