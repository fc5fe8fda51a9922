"""The coach carries out decisions: it lets the guide drive, keeps the records and teaches the pupil.

The coach is independent of training libraries. At every step a loop calls `act`, steps the environments and calls
`observe`, which also teaches. `polaug.sb3` does so inside Stable-Baselines3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polaug.coach.decide import Decision, decide
from polaug.coach.guide import make_guide
from polaug.coach.pupil import Pupil
from polaug.coach.records import Episode, Records
from polaug.coach.teaching import make_transfer
from polaug.coach.teaching.as_published import TAU_E, TAU_Q
from polaug.coach.teaching.memory import columns_of, rows_from
from polaug.config import Augmentation
from polaug.errors import ExplorerError, PolaugError, StateError, invalid
from polaug.explorers import Transitions
from polaug.state import State, generator_state, part, prefixed, restored_generator
from polaug.streams import stream

Result = TypeVar("Result")

SEGMENT = 1_000
"""A longer episode is recorded in segments of so many steps, and the driver may change between them."""

_LONGEST_QUEUE = 500  # the guide learns from the agent's steps in bulk, at the latest after so many


class Coach:
    """Decides what drives each episode, the guide or the agent, and teaches the agent.

    Parameters
    ----------
    pupil : Pupil
        The agent; see `Pupil.of_values` and `Pupil.of_policy`.
    observation_space, action_space : gymnasium.Space
        The spaces of a single environment.
    augmentation : Augmentation, optional
        The settings. None: the defaults.
    n_envs : int
        Number of environments that are stepped together.
    seed : int
        Seed of the guide, the coach and the teaching.

    Examples
    --------
    In a training loop::

        coach = polaug.Coach(pupil, envs.single_observation_space, envs.single_action_space, n_envs=4, seed=1)
        ...
        actions = coach.act(observations, actions)          # the guide's actions where the guide drives
        next_observations, rewards, terminated, truncated, infos = envs.step(actions)
        coach.observe(polaug.Transitions(observations, actions, rewards, last_observations, terminated, truncated))
        ...
        own = coach.own                                     # True where an on-policy loss may use the step
    """

    def __init__(
        self,
        pupil: Pupil,
        observation_space: Any,
        action_space: Any,
        augmentation: Augmentation | None = None,
        *,
        n_envs: int = 1,
        seed: int = 0,
    ) -> None:
        settings = self.settings = Augmentation() if augmentation is None else augmentation
        self.pupil = pupil
        self.guide = make_guide(settings, observation_space, action_space, seed=seed)
        self.transfer = make_transfer(settings, pupil, self.guide, stream(seed, "teaching"))
        self._rng = stream(seed, "coach")
        self._tau_e, self._tau_q = settings.tau_e, settings.tau_q
        if not self.transfer.hands_over_by_itself:
            self._tau_e = TAU_E if self._tau_e is None else self._tau_e
            self._tau_q = TAU_Q if self._tau_q is None else self._tau_q
        given = settings.explorer if settings.guide is None else settings.guide
        if isinstance(given, str) and given == "paper":  # it freezes its Q̂ at τ_q by itself, and not its Q (Eq. 1)
            self._tau_q = None
        # An untrained agent is rarely better than its guide. A trained one must not be taught before it is known.
        self.records = Records(settings.window, prior=0.9 if pupil.untrained else 0.0)
        self.steps = self.guide_steps = 0
        self._since_teaching = self._taught = 0
        self._log: dict[str, float] = {}
        self._queue: list[Transitions] = []
        self.drivers: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """(n,) True where the guide drives."""
        self.evaluating: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """(n,) True where the agent drives without exploration noise."""
        self._totals: NDArray[np.float64] = np.zeros(0)
        self._lengths: NDArray[np.int64] = np.zeros(0, np.int64)
        self.own: NDArray[np.bool_] = np.ones(n_envs, np.bool_)
        """(n,) True where the agent took the latest step with its own noisy policy."""
        self.begin(n_envs)

    # -- the driver -------------------------------------------------------------------------------------------------

    def begin(self, n: int, kept: Mapping[int, int] | None = None) -> None:
        """Start an episode in each of n environments. Unfinished episodes are dropped.

        `kept` maps environments whose episode goes on to their number until now. Such an episode keeps its driver and
        its return.
        """
        kept = kept or {}
        before = {env: (self.drivers[old], self.evaluating[old], self._totals[old], self._lengths[old])
                  for env, old in kept.items()}  # fmt: skip
        self.catch_up()
        self._guarded("reset", self.guide.reset)
        self.transfer.restart()
        self.drivers, self.evaluating = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._totals, self._lengths, self.own = np.zeros(n), np.zeros(n, np.int64), np.ones(n, np.bool_)
        for env in range(n):
            if env in before:
                self.drivers[env], self.evaluating[env], self._totals[env], self._lengths[env] = before[env]
            else:
                self._assign(env)

    @property
    def decision(self) -> Decision:
        """The current decision."""
        return decide(self.records, self.settings, self.steps, self.guide.searching)

    def _assign(self, env: int) -> None:
        """Draw the driver of the episode that starts in environment `env`."""
        decision = self.decision
        share = decision.guide_episodes if self._tau_e is None else float(self.steps < self._tau_e)
        self.drivers[env] = self.guide.steers and self._rng.random() < share
        # Where the guide never drives there is nothing to compare the agent with.
        judged = self.guide.steers and self.transfer.hands_over_by_itself and self._tau_e != 0
        self.evaluating[env] = judged and not self.drivers[env] and self._rng.random() < decision.evaluation_share

    def act(self, observations: Any, actions: Any, masks: Any = None) -> NDArray[Any]:
        """The actions to execute (n, ...), given the agent's noisy `actions`.

        Where the guide drives, these are the guide's actions. In evaluation episodes they are the agent's without
        exploration noise.
        """
        chosen = np.array(actions)
        if self.drivers.any():
            chosen[self.drivers] = self.guide_actions(observations, masks)[self.drivers]
        if self.evaluating.any():
            chosen[self.evaluating] = np.asarray(self.pupil.act(observations))[self.evaluating]
        return chosen

    def guide_actions(self, observations: Any, masks: Any = None) -> NDArray[Any]:
        """The guide's actions for all environments. They are executed only where the guide drives."""
        self.catch_up()
        if len(self.drivers) > 1:
            self._guarded("drive_only", lambda: self.guide.drive_only(self.drivers.copy()))
        return self._guarded("act", lambda: self.guide.act(observations, masks))

    # -- transitions ----------------------------------------------------------------------------------------------

    def observe(self, transitions: Transitions, *, teach: bool = True) -> list[Episode]:
        """Record one step of each environment and return the episodes that ended. Teaches if teaching is due.

        For an ended episode, `transitions.next_observations` holds its last observation.
        """
        rewards = np.asarray(transitions.rewards, dtype=float)
        n = len(rewards)
        if n != len(self.drivers):
            raise invalid("transitions", f"must have one row for each of the {len(self.drivers)} environments", n,
                          "Pass n_envs to polaug.Coach.")  # fmt: skip
        self._show(transitions)
        self.transfer.watch(transitions)
        self.own = ~(self.drivers | self.evaluating)
        self.steps += n
        self._since_teaching += n
        self.guide_steps += int(self.drivers.sum())
        self._totals += rewards
        self._lengths += 1
        over = np.asarray(transitions.terminated) | np.asarray(transitions.truncated) | (self._lengths >= SEGMENT)
        episodes = [self._end(env) for env, ends in enumerate(over.tolist()) if ends]
        if teach and self.teaching_due:
            self.teach()
        return episodes

    def _end(self, env: int) -> Episode:
        kind = "guide" if self.drivers[env] else "agent" if self.evaluating[env] else "noisy"
        episode = Episode(env, float(self._totals[env]), int(self._lengths[env]), kind)
        self.records.add(episode, self.steps)
        self._totals[env], self._lengths[env] = 0.0, 0
        self._assign(env)
        return episode

    def _show(self, transitions: Transitions) -> None:
        """Let the guide learn: from its own steps at once, from the agent's in bulk, and from none after τ_q."""
        if self._tau_q is not None and self.steps >= self._tau_q and not self.guide.pays:
            return
        if self.guide.pays or self.drivers.any():
            self.catch_up()
            self._guarded("observe", lambda: self.guide.observe(transitions))
            return
        self._queue.append(_copied(transitions))
        if len(self._queue) >= _LONGEST_QUEUE:
            self.catch_up()

    def observe_hindsight(self, episode: Transitions) -> None:
        """Let the guide learn from an episode whose goal was replaced by what it reached; its rows are the steps."""
        if self._tau_q is None or self.steps < self._tau_q:
            self._guarded("observe_hindsight", lambda: self.guide.observe_hindsight(episode))

    def catch_up(self) -> None:
        """Let the guide learn from the queued steps of the agent."""
        if self._queue:
            queue, self._queue, before = self._queue, [], self.guide.steps
            try:
                self._guarded("observe", lambda: self.guide.observe_past(queue))
            except BaseException:  # also Ctrl-C: keep the steps that the guide has not learnt
                self._queue = queue[(self.guide.steps - before) // len(queue[0].rewards) :]
                raise

    # -- teaching ---------------------------------------------------------------------------------------------------

    @property
    def teaching_due(self) -> bool:
        """Whether `teach_every` steps have passed and there is something to teach."""
        if self._since_teaching < self.settings.teach_every:
            return False
        if self.decision.teaching > 0.0:  # a guide without labels is asked again at the next step
            return self._guarded("greedy", lambda: self.transfer.ready)
        return self._taught > 0 and self.transfer.holds and self.settings.keep > 0.0

    @property
    def teachings_due(self) -> int:
        """Number of teaching phases that the steps since the last one allow, for loops with long rollouts."""
        return self._since_teaching // self.settings.teach_every if self.teaching_due else 0

    def teach(self) -> dict[str, float]:
        """Teach now and return scalars to log. Nothing else in the coach changes the agent's parameters."""
        self._since_teaching = 0
        self.catch_up()
        weight = self.decision.teaching
        if weight > 0.0:
            self._log = self._guarded("teach", lambda: self.transfer.teach(weight))
            self._taught += 1
        else:
            self._log = self.transfer.repeat(self.settings.keep)
        return self._log

    @property
    def updates(self) -> int:
        """Number of gradient steps of the latest teaching."""
        return int(self._log.get("updates", 0.0))

    @property
    def teaching_weight(self) -> float:
        """Weight of the teaching now, 0 if the latest one had no labels. An actor's own updates have the rest."""
        return self.decision.teaching if self.updates else 0.0

    def statistics(self) -> dict[str, float]:
        """Scalars to log."""
        decision, records = self.decision, self.records
        rows = {
            "p_guide": decision.p_guide, "guide_share": self.guide_steps / max(self.steps, 1),
            "target_share": decision.guide_share, "guide_drives": float(self.drivers.mean()),
            "teaching": decision.teaching, "guide_return": records.mean("guide"),
            "agent_return": records.mean("agent"), "noisy_return": records.mean("noisy"),
        }  # fmt: skip
        rows |= {f"guide_{name}": value for name, value in self.guide.statistics().items()}
        rows |= {f"teaching_{name}": value for name, value in self._log.items()}
        return {name: value for name, value in rows.items() if np.isfinite(value)}

    def _guarded(self, what: str, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except PolaugError:
            raise
        except Exception as fault:
            given = self.settings.explorer if self.settings.guide is None else self.settings.guide
            name = given if isinstance(given, str) else getattr(self.guide, "name", type(self.guide).__name__)
            raise ExplorerError(f"guide {name!r}: {what} failed with {type(fault).__name__}: {fault}. You can still "
                                "save the agent. Fix the guide or pass another one.") from fault  # fmt: skip

    # -- state ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The state as plain arrays, also in the middle of an episode."""
        counters = [self.steps, self.guide_steps, self._since_teaching, self._taught, len(self._queue), self.updates]
        own: State = {
            "counters": np.array(counters, np.int64), "drivers": self.drivers.copy(),
            "evaluating": self.evaluating.copy(), "totals": self._totals.copy(), "lengths": self._lengths.copy(),
            "own": self.own.copy(), "generator": generator_state(self._rng),
            "teaching_generator": generator_state(self.transfer.rng),
        }  # fmt: skip
        if self._queue:
            joined = Transitions.joined(self._queue)
            own |= columns_of("queue.observations", joined.observations)
            own |= columns_of("queue.next_observations", joined.next_observations)
            own |= {f"queue.{name}": np.asarray(getattr(joined, name)) for name in _FLAT}
        parts = (("records", self.records), ("guide", self.guide), ("transfer", self.transfer))
        for name, each in parts:
            own |= prefixed(name, each.state_dict())
        return own

    def load_state_dict(self, state: State) -> None:
        """Restore a `state_dict`."""
        counters = [int(number) for number in state["counters"]]
        if len(counters) != 6:
            raise StateError("coach: wrong shapes. The state is damaged.")
        drivers, evaluating = state["drivers"].astype(np.bool_), state["evaluating"].astype(np.bool_)
        totals, lengths = state["totals"].astype(float), state["lengths"].astype(np.int64)
        if len({array.shape for array in (drivers, evaluating, totals, lengths, state["own"])}) > 1:
            raise StateError("coach: its arrays do not fit together. The state is damaged.")
        for name, each in (("records", self.records), ("guide", self.guide), ("transfer", self.transfer)):
            each.load_state_dict(part(name, state))
        self._rng = restored_generator(state["generator"])
        self.transfer.rng = restored_generator(state["teaching_generator"])
        self.steps, self.guide_steps, self._since_teaching, self._taught, queued, updates = counters
        self._log = {"updates": float(updates)}
        self.drivers, self.evaluating, self._totals, self._lengths = drivers, evaluating, totals, lengths
        self.own = state["own"].astype(np.bool_)
        self._queue = []
        if queued:
            columns = {name: state[f"queue.{name}"] for name in _FLAT}
            rows = {name: rows_from(f"queue.{name}", state) for name in ("observations", "next_observations")}
            n = len(columns["rewards"]) // queued
            for t in range(queued):
                at = slice(t * n, (t + 1) * n)
                self._queue.append(Transitions(**{k: _rows(v, at) for k, v in (columns | rows).items()}))


_FLAT = ("actions", "rewards", "terminated", "truncated")


def _rows(columns: Any, at: slice) -> Any:
    return {key: column[at] for key, column in columns.items()} if isinstance(columns, dict) else columns[at]


def _copied(transitions: Transitions) -> Transitions:
    """Environments may reuse their arrays."""

    def copied(rows: Any) -> Any:
        return {k: np.array(column) for k, column in rows.items()} if isinstance(rows, dict) else np.array(rows)

    return Transitions(
        copied(transitions.observations), np.array(transitions.actions), np.array(transitions.rewards),
        copied(transitions.next_observations), np.array(transitions.terminated), np.array(transitions.truncated),
    )  # fmt: skip
