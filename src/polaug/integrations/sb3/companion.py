"""The one object that an augmented agent carries: explorer, hand-over and teacher, and what they have seen.

It reads raw observations and rewards, also under VecNormalize, and tells terminations from time limits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.errors import ExplorerError, PolaugError, StateError, UnsupportedSpaceError, invalid
from polaug.exploration import Explorer, Transitions, make_explorer
from polaug.integrations.champion import Champion, Parameters
from polaug.integrations.handover import Handover
from polaug.integrations.sb3.averaged import Averaged
from polaug.integrations.sb3.raw import check_actions, check_finite, check_payable, raw_observation_space
from polaug.integrations.sb3.saving import other_settings
from polaug.integrations.sb3.students import family_of, parameters_of, put_parameters, student_of, value_parameters
from polaug.integrations.standing import Episode
from polaug.state import State, generator_state, part, prefixed, restored_generator
from polaug.transfer import Transfer, make_transfer
from polaug.transfer.as_published import TAU_E, TAU_Q

Result = TypeVar("Result")
_LONGEST_QUEUE = 500
_LABELLED = 1.5  # own updates that cost as much as a minibatch of a lesson, its labels included
_TELLING = 0.5  # weight of a lesson after which an agent is no longer what it was
_VERSION = 9  # of the saved state


class Companion:
    """Built with settings; `attach` builds the rest as soon as there is an environment."""

    def __init__(self, settings: Augmentation, state: State | None = None) -> None:
        if not isinstance(settings, Augmentation):
            raise invalid("augmentation", "must be a polaug.Augmentation or None", settings, "Pass Augmentation().")
        self.settings = settings
        self._pending = state  # loaded, but there is no environment to build the explorer for yet
        self.explorer: Explorer
        self.handover: Handover
        self.transfer: Transfer
        self.averaged: Averaged | None = None
        self.endings: dict[int, Any] = {}
        """Raw last observations of the episodes that ended with the latest step, under VecNormalize."""
        self._observations: Any = None
        self._driven = False  # whether the explorer drives anywhere in the step under way
        self._unpaid: tuple[Any, ...] | None = None  # VecNormalize's returns and their statistics before that step
        self._queue: list[Transitions] = []  # steps of the agent that the explorer has not looked at yet
        self._learns = True  # whether it still learns from them; decided anew when an episode ends
        self._half_seen = False  # whether it has been shown an episode that has not ended yet
        self._since_lesson = self._taught_at = self._updates = 0
        self._anew_at = 0  # step at which the agent was let go
        self._owed = 0  # own updates that the last lesson is in place of
        self._idle = False  # whether there is nothing to teach
        self._log: dict[str, float] = {}
        self.lessons = 0
        """How many there have been, since it was built or loaded."""

    # -- building ---------------------------------------------------------------------------------------------------

    @property
    def attached(self) -> bool:
        """There is an environment, and everything is built."""
        return hasattr(self, "transfer")

    def attach(self, model: Any) -> None:
        """Build explorer, hand-over and transfer for `model`, once it has an environment."""
        if self.averaged is None and family_of(type(model)) == "value_based":
            self.averaged = Averaged(partial(value_parameters, model))
        if model.env is None:
            return
        space = raw_observation_space(model)
        if self.attached:
            return
        check_actions(model.action_space)
        settings = self.settings
        self._seed = seed = self._choose_seed(model)
        options = dict(settings.explorer_options)
        self._freezes_itself = settings.explorer == "paper"  # its Q̂ at τ_q, and not its Q (Eq. 1)
        if isinstance(settings.explorer, str):
            if self._freezes_itself:  # Algorithm 1 itself has a τ_e and a τ_q
                taus = {"tau_e": settings.tau_e, "tau_q": settings.tau_q}
                options = {name: tau for name, tau in taus.items() if tau is not None} | options
            try:
                explorer = make_explorer(settings.explorer, space, model.action_space, seed=seed, **options)
            except UnsupportedSpaceError as fault:
                where = 'Here that is augmentation=polaug.Augmentation(explorer_options={"features": f}).'
                raise UnsupportedSpaceError(f"{fault} {where}" if "features=" in str(fault) else str(fault)) from None
        else:
            explorer = settings.explorer(space, model.action_space, seed=seed, **options)
            if not isinstance(explorer, Explorer):
                raise invalid("explorer", "must give a polaug.Explorer", explorer, "Derive it from polaug.Explorer.")
        transfer = make_transfer(settings, student_of(model), explorer, np.random.default_rng([seed, 4]))
        self._tau_q = settings.tau_q
        tau_e = settings.tau_e
        if not transfer.hands_over_by_itself:
            tau_e = TAU_E if tau_e is None else tau_e
            self._tau_q = TAU_Q if self._tau_q is None else self._tau_q
        family = family_of(type(model))
        self._all_is_taught, drifts = family == "value_based", family != "policy_gradient"
        # In place of the random actions that fill a buffer at first, but not for longer than it is trusted blindly.
        warm_up = min(int(model.learning_starts), settings.patience) if drifts else 0
        # Partial functions, not closures: in a copy of the model they are of the copy.
        read, write = partial(self._examined, model), partial(self._replace, model)
        self.champion = Champion(read, write, drifts=drifts)
        handover = Handover(settings, steers=explorer.steers, searches=explorer.searches, tau_e=tau_e, warm_up=warm_up,
                            automatic=transfer.hands_over_by_itself, experienced=model.num_timesteps > 0,
                            champion=self.champion)  # fmt: skip
        self.explorer, self.handover, self.transfer = explorer, handover, transfer
        if self._pending is not None:
            self._restore(self._pending)
            self._pending = None

    def _choose_seed(self, model: Any) -> int:
        """The setting's; where there is none, that of the saved run that goes on, the agent's, or a fresh one."""
        if self.settings.seed is not None:
            return self.settings.seed
        if self._pending is not None and "seed" in self._pending:
            return int(str(self._pending["seed"]))
        fresh = np.random.SeedSequence().generate_state(1)[0]
        return int(fresh if model.seed is None else model.seed)

    def _examined(self, model: Any) -> Parameters:
        """The parameters that exams are driven by."""
        with self.settled():
            return parameters_of(model)

    def _replace(self, model: Any, parameters: Parameters) -> None:
        put_parameters(model, parameters)
        if self.averaged is not None:
            self.averaged.restart()

    def settled(self) -> AbstractContextManager[None]:
        """Meanwhile the agent is what it has been on average of late, if it is of a kind that wavers."""
        return nullcontext() if self.averaged is None else self.averaged.in_place()

    def loaded(self, state: State) -> None:
        """The agent has the parameters of its file: the mean, in the place of the network that goes on learning."""
        if self.averaged is not None and "averaged.counters" in state:
            try:
                self.averaged.load_state_dict(part("averaged", state))
            except (KeyError, TypeError) as fault:
                raise StateError(f"augmentation: damaged ({fault!r}). Load another file.") from fault

    def restart(self, n: int) -> None:
        """All of n environments have been reset: episodes under way end without a result."""
        self.catch_up()  # these steps belong to the old episodes
        self.handover.begin(n)
        self.transfer.restart()
        self._guarded("reset", self.explorer.reset)
        self._half_seen = False

    # -- a step -----------------------------------------------------------------------------------------------------

    def look(self, model: Any) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Remember the raw observations that actions are about to be chosen for.

        Gives where the explorer drives (n,), and where the agent takes an exam (n,).
        """
        normalizer = model.get_vec_normalize_env()
        self._observations = model._last_obs if normalizer is None else normalizer.get_original_obs()
        if len(self.handover.drivers) != model.n_envs:
            self.handover.begin(model.n_envs)
        self._driven = True in self.handover.drivers.tolist()
        self._unpaid = None
        if self.explorer.pays and normalizer is not None and normalizer.training and normalizer.norm_reward:
            known = normalizer.ret_rms
            self._unpaid = (normalizer.returns.copy(), known.mean, known.var, known.count)
        return self.handover.drivers.copy(), self.handover.exams.copy()

    def act(self) -> NDArray[Any]:
        """The explorer's actions for all environments."""
        self.catch_up()
        drivers = self.handover.drivers.copy()
        if len(drivers) > 1:
            self._guarded("drive_only", lambda: self.explorer.drive_only(drivers))
        return self._guarded("act", lambda: self.explorer.act(self._observations))

    def after_step(self, model: Any, step: dict[str, Any], actions: NDArray[Any]) -> list[Episode]:
        """Take in what the environments answered; `step` holds SB3's new_obs, rewards, dones and infos."""
        if self._observations is None:
            return []
        dones, infos = np.asarray(step["dones"], dtype=np.bool_), step["infos"]
        normalizer = model.get_vec_normalize_env()
        following = step["new_obs"] if normalizer is None else normalizer.get_original_obs()
        rewards = np.asarray(step["rewards"] if normalizer is None else normalizer.get_original_reward(), dtype=float)
        terminated, truncated = dones, np.zeros(len(dones), np.bool_)
        if True in dones.tolist():
            following = np.array(following)
            for env in np.flatnonzero(dones).tolist():
                truncated[env] = bool(infos[env].get("TimeLimit.truncated", False))
                last = infos[env].get("terminal_observation") if normalizer is None else self.endings.get(env)
                if last is not None:
                    following[env] = last
            terminated = dones & ~truncated
        if self.explorer.pays and normalizer is None:
            check_payable(step["rewards"])
        # Now, not when the explorer gets to it: it looks at the agent's steps much later.
        check_finite("rewards", rewards)
        if "features" not in self.settings.explorer_options:  # which may know what to do with missing readings
            check_finite("observations", np.asarray(following))
        actions = np.asarray(actions, dtype=model.action_space.dtype)  # SB3 samples MultiBinary actions as floats
        transitions = Transitions(self._observations, actions, rewards, following, terminated, truncated)
        self._show(transitions)
        if self.explorer.pays:
            bonus = self._guarded("bonus", lambda: self.explorer.bonus(transitions))
            self._pay(normalizer, step["rewards"], rewards, bonus, dones)
        self.transfer.watch(transitions)
        alone = self.champion.untaught
        episodes = self.handover.step(rewards, dones, truncated)
        if episodes:
            self._learns, self._idle = not self.handover.retired, False
            if self._taught_at:
                self.handover.let_go(self._taught_at)
            if self.champion.untaught and self._taught_at:
                self._taught_at, self._anew_at = 0, self.handover.steps
                if self.champion.drifts:  # what a curious explorer and its pupil did leads astray for good
                    model.replay_buffer.reset()
                self.transfer.forget()
            elif alone and not self.champion.untaught:  # it has back what it was taught
                self._anew_at = 0
        for episode in episodes:
            if episode.exam and self.handover.teaching > 0.0:
                self.transfer.examined(episode.total, self.handover.scale, behind=self.handover.far_behind)
            if dones[episode.environment]:  # else a spell of one that goes on
                infos[episode.environment]["actor"] = "explorer" if episode.by_explorer else "agent"
        self._observations = None
        self._since_lesson += len(dones)
        if self.averaged is not None:
            self.averaged.follow(len(dones))
        return episodes

    def _show(self, transitions: Transitions) -> None:
        """Let the explorer learn: at once from its own steps, in bulk from the agent's, and not at all when retired
        or after τ_q.
        """
        early = self._tau_q is None or self.handover.steps < self._tau_q
        fixed = not (early or self._freezes_itself)
        # Episodes of several environments lie across each other: whatever is left out is the middle of some of them.
        several = len(transitions.rewards) > 1
        if self.explorer.pays or (self._driven and not fixed):
            self.catch_up()
            self._guarded("observe", lambda: self.explorer.observe(transitions))
        elif not (self._driven or fixed) and (several or (self._learns and early)):
            seen, then = np.array(transitions.observations), np.array(transitions.next_observations)
            self._queue.append(replace(transitions, observations=seen, next_observations=then))  # may be reused
            if len(self._queue) >= _LONGEST_QUEUE:
                self.catch_up()
        else:
            if self._half_seen and not fixed:  # an episode without end has changed hands: the rest will not be seen
                self.catch_up()
                self._guarded("reset", self.explorer.reset)
            self._half_seen = False
            return
        self._half_seen = not (transitions.terminated | transitions.truncated).all()

    def catch_up(self) -> None:
        """Let the explorer learn from the agent's steps that are still in the queue."""
        if self._queue:
            queue, self._queue, before = self._queue, [], self.explorer.steps
            try:
                self._guarded("observe", lambda: self.explorer.observe_past(queue))
            except BaseException:  # also Ctrl-C: what the explorer has not taken in is not lost
                self._queue = queue[(self.explorer.steps - before) // len(queue[0].rewards) :]
                raise

    def _pay(
        self, normalizer: Any, paid: NDArray[Any], raw: NDArray[Any], bonus: NDArray[Any], dones: NDArray[np.bool_]
    ) -> None:
        """Add the bonus in place, before SB3 stores the rewards: GAE and replay see it, in units of raw rewards.

        VecNormalize has seen the step without it. It takes the step back and sees what was paid, or else a bonus
        where there are no rewards would be measured by their spread, which is nothing.
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

    def lesson_due(self) -> bool:
        """Enough steps since the last lesson, and something to teach."""
        if self._since_lesson < self.settings.teach_every or self._idle:
            return False
        held = self.transfer.holds and self.handover.holding(self._taught_at) > 0.0
        self._idle = not held and self.handover.teaching <= 0.0  # and so it stays until an episode has ended
        return not self._idle

    def teach(self) -> None:
        """One lesson."""
        self._since_lesson = 0
        self.lessons += 1
        self.catch_up()
        weight = self.handover.teaching
        if weight > 0.0:
            self._taught_at = self.handover.steps
            self.champion.before_lesson()
            self._log = self._guarded("teach", lambda: self.transfer.teach(weight))
            if weight > _TELLING and self.averaged is not None:
                self.averaged.restart()
        else:
            self._log = self.transfer.repeat(self.handover.holding(self._taught_at))
        # A lesson takes the place of as many of the agent's own updates as it costs, where these train nothing else (an
        # actor's critic): together they cost what the own ones alone did.
        price = _LABELLED if weight > 0.0 else 1.0
        self._owed = int(price * self._log.get("lesson_batches", 0)) if self._all_is_taught else 0
        self.champion.changed(wholly=False)

    def due(self, gradient_steps: int) -> int:
        """How many of the updates that the agent is about to make are left: a lesson was in the place of some, or
        earlier ones have ruined it, and all are left out for once.
        """
        replaced = min(self._owed, gradient_steps)
        self._owed -= replaced
        if replaced == gradient_steps:
            return 0
        self._updates += 1
        return 0 if self._updates % self.champion.pace else gradient_steps - replaced

    @property
    def steps_anew(self) -> int | None:
        """Steps since the agent started anew, as if it had never been taught; None if it has not."""
        return self.handover.steps - self._anew_at if self._anew_at else None

    def statistics(self) -> dict[str, float]:
        """Scalars to log."""
        handover = self.handover
        rows = {
            "explorer_share": handover.explorer_steps / max(handover.steps, 1), "target_share": handover.share,
            "explorer_acts": float(handover.drivers.mean()), "explorer_return": handover.explorer_return,
            "agent_return": handover.agent_return, "exam_return": handover.exam_return, "teaching": handover.teaching,
        }  # fmt: skip
        rows |= {f"explorer_{name}": value for name, value in self.explorer.statistics().items()} | self._log
        return {name: value for name, value in rows.items() if np.isfinite(value)}

    def _guarded(self, what: str, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except PolaugError:
            raise
        except Exception as fault:
            given = self.settings.explorer
            name = given if isinstance(given, str) else type(self.explorer).__name__
            raise ExplorerError(f"explorer {name!r}: {what} failed with {type(fault).__name__}: {fault}. The agent can "
                                "be saved as it is; mend the explorer or pass another.") from fault  # fmt: skip

    # -- state ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Plain arrays."""
        head: State = {"version": np.array(_VERSION), "augmentation": np.array(self.settings.to_json())}
        if not self.attached:
            averaged = {} if self.averaged is None else prefixed("averaged", self.averaged.state_dict())
            return head if self._pending is None else self._pending | head | averaged
        return (
            head
            | {"since_lesson": np.array(self._counters())}
            | {"generator": generator_state(self.transfer.rng), "seed": np.array(str(self._seed))}
            | prefixed("queue", {} if not self._queue else asdict(Transitions.joined(self._queue)))
            | prefixed("explorer", self.explorer.state_dict())
            | prefixed("handover", self.handover.state_dict())
            | prefixed("transfer", self.transfer.state_dict())
            | prefixed("champion", self.champion.state_dict())
            | prefixed("averaged", {} if self.averaged is None else self.averaged.state_dict())
        )

    def _counters(self) -> list[int]:
        flags = int(self._learns) + 2 * int(self._idle) + 4 * int(self._half_seen)
        return [self._since_lesson, self._taught_at, flags, len(self._queue), self._updates, self._owed, self._anew_at]

    def _restore(self, state: State) -> None:
        if "since_lesson" not in state:
            return  # saved before it ever met an environment
        version = int(state.get("version", np.array(0)))
        if version != _VERSION:
            raise StateError(f"augmentation: saved by another polaug (format {version}, this one reads {_VERSION}). "
                             "Load it with that one, or with augmentation=None to have the plain agent.")  # fmt: skip
        try:
            self.explorer.load_state_dict(part("explorer", state))
            self.handover.load_state_dict(part("handover", state))
            self.transfer.load_state_dict(part("transfer", state))
            self.champion.load_state_dict(part("champion", state))
            self.transfer.rng = restored_generator(state["generator"])
            counters = [int(number) for number in state["since_lesson"]]
            self._since_lesson, self._taught_at, flags, queued, self._updates, self._owed, self._anew_at = counters
            self._learns, self._idle, self._half_seen = (bool(flags & bit) for bit in (1, 2, 4))
            queue = part("queue", state)
            steps = {name: np.split(rows, queued) for name, rows in queue.items()}
            self._queue = [Transitions(**{name: steps[name][t] for name in steps}) for t in range(queued)]
        except (KeyError, TypeError, IndexError, ValueError) as fault:  # StateError is a ValueError
            other = other_settings(str(state.get("augmentation")), self.settings)
            if other is None and isinstance(fault, StateError):
                raise
            raise other or StateError(f"augmentation: damaged ({fault!r}). Load another file.") from fault
