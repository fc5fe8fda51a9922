"""Guides: explorers, functions, policies and demonstrations, all wrapped as an `Explorer`.

Of several guides each is tried, and the one with the best returns drives and teaches.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polaug.config import Augmentation
from polaug.errors import ExplorerError, UnsupportedSpaceError, invalid, shown
from polaug.explorers import Explorer, Transitions, make_explorer
from polaug.explorers.base import Batch, BoolArray, FloatArray, IntArray
from polaug.state import State, part, prefixed
from polaug.streams import subseed

_WINDOW = 8  # returns by which several guides are compared

Act = Callable[[Any], Any]


class FunctionGuide(Explorer):
    """A function of one observation or of a batch. The first call detects which."""

    def __init__(self, observation_space: Any, action_space: Any, function: Act, *, name: str, seed: int = 0) -> None:
        super().__init__(observation_space, action_space, seed=seed)
        self.name = name
        self._function = function
        self._batched: bool | None = None

    def act(self, observations: Any, masks: Any = None) -> NDArray[Any]:
        """The function's actions, checked against the action space. A masked action is replaced by a legal one."""
        n = _length(observations)
        if self._batched is None:
            self._batched = self._takes_batches(observations)
        if self._batched:
            actions = np.asarray(self._call(observations))
        else:
            actions = np.stack([np.asarray(self._call(_row(observations, k))) for k in range(n)])
        wanted = (n, *_action_shape(self.action_space))
        if actions.shape != wanted:
            raise invalid(f"guide {self.name!r}", f"must return actions of shape {wanted}", actions,
                          "Return one action for each observation.")  # fmt: skip
        given, legal = actions, actions.dtype.kind in "biuf"
        if legal:
            actions = given.astype(self.action_space.dtype)
            legal = actions.dtype.kind == "f" or np.array_equal(actions, given)  # no half of an action
        for action in actions:
            if not legal or not self.action_space.contains(action if action.ndim else action[()]):
                raise invalid(f"guide {self.name!r}", f"must return actions of {shown(self.action_space)}",
                              np.asarray(action).tolist(), "Clip or round the actions.")  # fmt: skip
        return actions if masks is None else self.actions.legal(masks, n).repaired(actions, self._rng)

    def greedy(self, observations: Any, masks: Any = None) -> NDArray[Any] | None:
        """Same as `act`: a function does not explore."""
        return self.act(observations, masks)

    def _takes_batches(self, observations: Any) -> bool:
        """Whether the function takes a batch. The test batch has a length that no axis of an observation has."""
        k = 2 + max((length for shape in _shapes(observations) for length in shape), default=0)
        try:
            answer = np.asarray(self._function(_repeated(observations, k)))
        except Exception:  # a function of single observations may raise any exception here
            return False
        return answer.shape == (k, *_action_shape(self.action_space))

    def _call(self, observations: Any) -> Any:
        try:
            return self._function(observations)
        except Exception as fault:
            raise ExplorerError(f"guide {self.name!r}: failed with {type(fault).__name__}: {fault}. You can still "
                                "save the agent. Fix the guide or pass another one.") from fault  # fmt: skip

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return self.actions.to_indices(self.act(states))

    def _learn(self, batch: Batch) -> None:
        pass


class DemonstrationGuide(FunctionGuide):
    """Chooses the action of the nearest demonstrated observation, with each dimension in standard deviations.

    Parameters
    ----------
    observations, actions : array_like (n, ...)
        The recorded observations and actions.
    """

    def __init__(self, observation_space: Any, action_space: Any, observations: Any, actions: Any, *, seed: int = 0):
        super().__init__(observation_space, action_space, self._nearest, name="demonstrations", seed=seed)
        remedy = "Pass data that was recorded in this environment."
        try:
            flat, taken = self._flatten(observations), np.asarray(actions)
            self.actions.to_indices(taken)
        except (ValueError, TypeError) as fault:
            raise invalid("guide", f"demonstrations must belong to this environment ({fault})", observations,
                          remedy) from fault  # fmt: skip
        if len(flat) != len(taken) or not len(flat):
            raise invalid("guide", "demonstrations must have one action for each observation", taken, remedy)
        self._batched = True
        self._centre, self._width = flat.mean(axis=0), np.where(flat.std(axis=0) > 0, flat.std(axis=0), 1.0)
        self._places, self._taken = (flat - self._centre) / self._width, taken

    def _nearest(self, observations: Any) -> NDArray[Any]:
        places = (self._flatten(observations) - self._centre) / self._width
        squares = np.square(self._places).sum(axis=1) - 2.0 * places @ self._places.T
        nearest: NDArray[Any] = self._taken[squares.argmin(axis=1)]
        return nearest


class BestOf(Explorer):
    """Several guides. Thompson sampling on their mean returns chooses the guide for each episode.

    The guide with the best mean teaches. All guides learn from every transition.
    """

    def __init__(self, guides: Sequence[Explorer], *, seed: int = 0) -> None:
        first = guides[0]
        super().__init__(first.observation_space, first.action_space, seed=seed)
        self.guides = list(guides)
        self._returns: list[list[float]] = [[] for _ in guides]
        self._chosen, self._drives = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        self._totals = np.zeros(0)

    @property
    def best(self) -> Explorer:
        """The guide with the best mean return; the first guide until one has finished an episode."""
        means = [float(np.mean(returns)) if returns else -np.inf for returns in self._returns]
        return self.guides[int(np.argmax(means))]

    def drive_only(self, where: BoolArray) -> None:
        """Mark the environments that the guides drive. Only their episodes count."""
        self._drives = np.asarray(where, dtype=np.bool_)

    def act(self, observations: Any, masks: Any = None) -> NDArray[Any]:
        """The actions of the guide that was chosen for each environment's episode."""
        n = _length(observations)
        if len(self._chosen) != n:
            self._chosen, self._totals = np.array([self._draw() for _ in range(n)]), np.zeros(n)
        if len(self._drives) != n:
            self._drives = np.ones(n, np.bool_)
        actions: NDArray[Any] | None = None
        for k in np.unique(self._chosen).tolist():
            rows = self._chosen == k
            self.guides[k].drive_only(rows & self._drives)
            given = np.asarray(self.guides[k].act(observations, masks))
            mask = rows.reshape(-1, *[1] * (given.ndim - 1))
            actions = given if actions is None else np.where(mask, given, actions)
        assert actions is not None  # there is an environment
        return actions

    def _draw(self) -> int:
        spread = np.ptp([total for returns in self._returns for total in returns] or [0.0])
        draws = []
        for returns in self._returns:
            error = max(float(np.std(returns)), 0.05 * spread) / np.sqrt(len(returns)) if returns else np.inf
            draws.append(float(np.mean(returns)) + error * self._rng.standard_normal() if returns else np.inf)
        return int(np.argmax(draws))

    def observe(self, transitions: Transitions) -> None:
        """Let all guides learn, and record the returns of episodes that a guide drove."""
        for guide in self.guides:
            guide.observe(transitions)
        n = len(transitions.rewards)
        self.steps += n
        if len(self._chosen) != n:
            return
        self._totals += np.asarray(transitions.rewards, dtype=float)
        ended = np.asarray(transitions.terminated) | np.asarray(transitions.truncated)
        for env in np.flatnonzero(ended).tolist():
            if len(self._drives) == n and self._drives[env]:
                returns = self._returns[self._chosen[env]]
                returns.append(float(self._totals[env]))
                del returns[:-_WINDOW]
            self._totals[env], self._chosen[env] = 0.0, self._draw()

    def observe_past(self, steps: Sequence[Transitions]) -> None:
        """Let all guides learn from steps of the agent."""
        for guide in self.guides:
            guide.observe_past(steps)
        self.steps += sum(len(step.rewards) for step in steps)

    def observe_hindsight(self, episode: Transitions) -> None:
        """Let all guides learn from a relabelled episode."""
        for guide in self.guides:
            guide.observe_hindsight(episode)

    def reset(self) -> None:
        """Drop unfinished episodes."""
        for guide in self.guides:
            guide.reset()
        self._chosen, self._drives, self._totals = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0)

    def q_values(self, observations: Any) -> FloatArray | None:
        """Those of the best guide."""
        return self.best.q_values(observations)

    def greedy(self, observations: Any, masks: Any = None) -> NDArray[Any] | None:
        """Those of the best guide."""
        return self.best.greedy(observations, masks)

    def uncertainty(self, observations: Any) -> FloatArray | None:
        """The uncertainty of the first guide that has one."""
        return next((u for guide in self.guides if (u := guide.uncertainty(observations)) is not None), None)

    def statistics(self) -> dict[str, float]:
        """The mean return of each guide."""
        own = {f"guide_{k}_return": float(np.mean(r)) for k, r in enumerate(self._returns) if r}
        return super().statistics() | own

    def _choose(self, flat: FloatArray, states: Any) -> IntArray:
        return self.actions.to_indices(self.act(states))

    def _learn(self, batch: Batch) -> None:
        pass

    def _state(self) -> State:
        own: State = {"chosen": self._chosen.copy(), "drives": self._drives.copy(), "totals": self._totals.copy()}
        for k, guide in enumerate(self.guides):
            own |= prefixed(f"guide_{k}", guide.state_dict()) | {f"returns_{k}": np.array(self._returns[k])}
        return own

    def _load(self, state: State) -> None:
        for k, guide in enumerate(self.guides):
            guide.load_state_dict(part(f"guide_{k}", state))
        self._returns = [state[f"returns_{k}"].tolist() for k in range(len(self.guides))]
        self._chosen, self._drives = state["chosen"].astype(np.int64), state["drives"].astype(np.bool_)
        self._totals = state["totals"].astype(float)


def make_guide(settings: Augmentation, observation_space: Any, action_space: Any, *, seed: int) -> Explorer:
    """Build the guide of `settings`.

    Parameters
    ----------
    settings : Augmentation
        Its `guide`, or its `explorer` with `explorer_options` if `guide` is None.
    observation_space, action_space : gymnasium.Space
        Of the environment.
    seed : int
        Seed of the explorers.
    """
    given = settings.guide
    if given is None:
        return _explorer(settings.explorer, observation_space, action_space, seed, settings)
    if isinstance(given, list) and not _is_episodes(given):
        if not given:
            raise invalid("guide", "must name at least one guide", given, 'Pass for example [f, "portfolio"].')
        guides = [_guide(each, observation_space, action_space, subseed(seed, "guide", k), settings)
                  for k, each in enumerate(given)]  # fmt: skip
        return guides[0] if len(guides) == 1 else BestOf(guides, seed=seed)
    return _guide(given, observation_space, action_space, seed, settings)


def _guide(given: Any, observation_space: Any, action_space: Any, seed: int, settings: Augmentation) -> Explorer:
    spaces = observation_space, action_space
    if isinstance(given, Explorer):
        for name, own, wanted in (("observation", given.observation_space, observation_space),
                                  ("action", given.action_space, action_space)):  # fmt: skip
            if own != wanted:
                raise invalid("guide", f"its {name} space must be the environment's {shown(wanted)}", own,
                              "Build it with the spaces of this environment.")  # fmt: skip
        return given
    a_class = inspect.isclass(given) and not issubclass(given, Explorer)
    if a_class or (isinstance(given, str) and given.endswith(".zip")):
        raise invalid("guide", "must be an object that acts, or an explorer's name", given,
                      'Pass a loaded policy: guide=PPO.load("expert.zip").')  # fmt: skip
    if isinstance(given, str) or inspect.isclass(given):
        return _explorer(given, *spaces, seed, settings)
    recorded = _demonstrations(given)
    if recorded is not None:
        return DemonstrationGuide(*spaces, *recorded, seed=seed)
    if hasattr(given, "predict"):
        return FunctionGuide(*spaces, _predictor(given), name=type(given).__name__, seed=seed)
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return FunctionGuide(*spaces, given, name=name, seed=seed)
    raise invalid("guide", "must be an explorer or its name, a function, a policy or demonstrations", given,
                  "Pass for example a function f(observations) -> actions.")  # fmt: skip


def _explorer(given: Any, observation_space: Any, action_space: Any, seed: int, settings: Augmentation) -> Explorer:
    options = dict(settings.explorer_options)
    if isinstance(given, str):
        if given == "paper":  # Algorithm 1 itself has a τ_e and a τ_q
            taus = {"tau_e": settings.tau_e, "tau_q": settings.tau_q}
            options = {name: tau for name, tau in taus.items() if tau is not None} | options
        try:
            return make_explorer(given, observation_space, action_space, seed=seed, **options)
        except UnsupportedSpaceError as fault:
            where = 'Here that is augmentation=polaug.Augmentation(explorer_options={"features": f}).'
            raise UnsupportedSpaceError(f"{fault} {where}" if "features=" in str(fault) else str(fault)) from None
    explorer = given(observation_space, action_space, seed=seed, **options)
    if not isinstance(explorer, Explorer):
        raise invalid("explorer", "must return a polaug.Explorer", explorer, "Subclass polaug.Explorer.")
    return explorer


def _predictor(policy: Any) -> Act:
    """Anything with Stable-Baselines3's `predict`."""

    def act(observations: Any) -> Any:
        answer = policy.predict(observations, deterministic=True)
        return answer[0] if isinstance(answer, tuple) else answer

    return act


def _demonstrations(given: Any) -> tuple[Any, Any] | None:
    """(observations, actions) of recorded data: a mapping, a pair of arrays, or a list of episodes.

    An episode is a mapping or has the attributes `observations` (`obs`, of the package imitation) and `actions`. It may
    have one observation more than actions, the last one.
    """
    if _is_episodes(given):
        parts = [_demonstrations(episode) for episode in given]
        found = [each for each in parts if each is not None]
        if not found or len(found) < len(parts):
            return None
        parts_seen = [each[0] for each in found]
        if isinstance(parts_seen[0], dict):
            joined: Any = {key: np.concatenate([o[key] for o in parts_seen]) for key in parts_seen[0]}
        else:
            joined = np.concatenate(parts_seen)
        return joined, np.concatenate([each[1] for each in found])
    if hasattr(given, "iterate_episodes"):  # a Minari data set
        return _demonstrations(list(given.iterate_episodes()))
    observations: Any
    actions: Any
    if isinstance(given, tuple) and len(given) == 2 and not callable(given[0]):
        observations, actions = given
    elif isinstance(given, Mapping) and "actions" in given:
        observations, actions = given.get("observations", given.get("obs")), given["actions"]
    elif hasattr(given, "actions") and (hasattr(given, "observations") or hasattr(given, "obs")):
        observations, actions = getattr(given, "observations", getattr(given, "obs", None)), given.actions
    else:
        return None
    if observations is None:
        return None
    taken = np.asarray(actions)
    if isinstance(observations, Mapping):
        return {key: np.asarray(column)[: len(taken)] for key, column in observations.items()}, taken
    seen = np.asarray(observations)
    return (seen[:-1] if len(seen) == len(taken) + 1 else seen), taken


def _action_shape(space: Any) -> tuple[int, ...]:
    return tuple(space.shape)


def _is_episodes(given: Any) -> bool:
    if not isinstance(given, (list, tuple)) or not given:
        return False
    return all(isinstance(each, Mapping) or (hasattr(each, "actions") and not isinstance(each, Explorer))
               for each in given)  # fmt: skip


def _length(observations: Any) -> int:
    rows = next(iter(observations.values())) if isinstance(observations, dict) else observations
    return len(rows)


def _row(observations: Any, k: int) -> Any:
    if isinstance(observations, dict):
        return {key: column[k] for key, column in observations.items()}
    return np.asarray(observations)[k]


def _repeated(observations: Any, k: int) -> Any:
    """A batch of k, all the first observation."""
    if isinstance(observations, dict):
        return {key: np.stack([column[0]] * k) for key, column in observations.items()}
    return np.stack([np.asarray(observations)[0]] * k)


def _shapes(observations: Any) -> list[tuple[int, ...]]:
    """Of one observation, or of each of its parts."""
    columns = observations.values() if isinstance(observations, dict) else [observations]
    return [np.shape(column)[1:] for column in columns]
