"""Contract tests for explorers: subclass `ExplorerContract` in a pytest file and define `make`.

    class TestMyExplorer(ExplorerContract):
        def make(self, observation_space, action_space, seed):
            return MyExplorer(observation_space, action_space, seed=seed)

Every test runs on all of `spaces`; set fewer if your explorer supports fewer. The tests do not need pytest.
"""

from __future__ import annotations

import copy
import functools
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from polaug.errors import InvalidInputError, StateError
from polaug.explorers import Explorer, Transitions
from polaug.features.spaces import Space, mapped, stacked
from polaug.streams import stream

SPACES: dict[str, tuple[Space, Space]] = {
    "vector, discrete": (spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3)),
    "unbounded, two actions from 1": (spaces.Box(-np.inf, np.inf, (4,), np.float64), spaces.Discrete(2, start=1)),
    "vector, continuous": (
        spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32)),
        spaces.Box(-2.0, 2.0, (1,)),
    ),
    "vector, two torques": (spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (2,), np.float32)),
    "vector, several choices": (spaces.Box(0.0, 1.0, (2,)), spaces.MultiDiscrete([2, 3])),
    "states, discrete": (spaces.Discrete(16), spaces.Discrete(4)),
    "choices not from 0, torque": (spaces.MultiDiscrete([3, 4], start=[1, -2]), spaces.Box(-1.0, 1.0, (1,))),
    "a grid of whole numbers, switches": (spaces.Box(-5, 5, (2, 2), np.int32), spaces.MultiBinary(2)),
    "many numbers": (spaces.Box(-1.0, 1.0, (40,)), spaces.Discrete(2)),
    "parts with names, one of them a pair": (
        spaces.Dict(
            observation=spaces.Box(-np.inf, np.inf, (2,), np.float32),
            desired_goal=spaces.Tuple((spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(3, start=1))),
        ),
        spaces.Discrete(3),
    ),
}


class Rollout:
    """Reproducible random transitions of `n` environments."""

    def __init__(self, observation_space: Space, n: int, seed: int) -> None:
        self.rng = stream(seed, "testing")
        self.space, self.n = copy.deepcopy(observation_space), n  # a space has a generator of its own
        self.space.seed(seed)
        self.observations = self._sample()

    def _sample(self) -> Any:
        return stacked([self.space.sample() for _ in range(self.n)])

    def step(self, actions: Any) -> Transitions:
        """Transitions to random next observations."""
        following = self._sample()
        ended = self.rng.random((2, self.n)) < 0.08
        transitions = Transitions(
            self.observations, actions, self.rng.standard_normal(self.n), following, ended[0], ended[1] & ~ended[0]
        )
        whole = np.asarray(ended.any(axis=0))
        self.observations = mapped(functools.partial(_where, whole), self._sample(), following)
        return transitions


def _where(rows: NDArray[np.bool_], first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.where(rows.reshape(-1, *[1] * (first.ndim - 1)), first, second).astype(second.dtype)


def states_equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two states have exactly equal arrays."""
    return first.keys() == second.keys() and all(
        np.array_equal(first[key], second[key], equal_nan=first[key].dtype.kind == "f") for key in first
    )


class ExplorerContract(ABC):
    """The tests that every explorer must pass."""

    steps = 80
    follows_episodes: ClassVar[bool] = True
    """False for explorers that store nothing about unfinished episodes: `reset` may do nothing."""
    spaces: ClassVar[dict[str, tuple[Space, Space]]] = SPACES

    @abstractmethod
    def make(self, observation_space: Space, action_space: Space, seed: int) -> Explorer:
        """The explorer under test."""

    def each(self, n: int = 2, seed: int = 0) -> Iterator[tuple[Explorer, Rollout]]:
        """An explorer and a rollout for each space."""
        for observation_space, action_space in self.spaces.values():
            explorer = self.make(observation_space, action_space, seed)
            yield explorer, Rollout(observation_space, n, seed)

    def play(self, explorer: Explorer, rollout: Rollout, steps: int) -> list[Any]:
        """Act and observe for `steps` steps, and return the actions."""
        taken = []
        for _ in range(steps):
            actions = explorer.act(rollout.observations)
            explorer.observe(rollout.step(actions))
            taken.append(actions)
        return taken

    def test_actions_belong_to_the_space(self) -> None:
        """One action for each environment, of the space's type."""
        for n in (1, 3):
            for explorer, rollout in self.each(n):
                for actions in self.play(explorer, rollout, self.steps // n):
                    assert len(actions) == n
                    assert all(explorer.action_space.contains(_plain_action(action)) for action in actions)

    def test_the_same_seed_repeats_to_the_bit(self) -> None:
        """Equal seeds give equal actions and states. In some space another seed gives other actions."""
        differs = False
        for (first, rollout), (second, twin), (third, other) in zip(
            self.each(), self.each(), self.each(seed=1), strict=True
        ):
            a, b = self.play(first, rollout, self.steps), self.play(second, twin, self.steps)
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
            assert states_equal(first.state_dict(), second.state_dict())
            if not differs:
                c = self.play(third, other, self.steps)
                differs = any(not np.array_equal(x, y) for x, y in zip(a, c, strict=True))
        assert differs

    def test_values_are_finite_and_greedy_follows_them(self) -> None:
        """Q̂ is None or has one column for each listed action, and `greedy` maximises it."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, self.steps)
            values, greedy = explorer.q_values(rollout.observations), explorer.greedy(rollout.observations)
            if values is None:
                assert greedy is None
                continue
            assert values.shape == (rollout.n, explorer.actions.n_actions)
            assert np.isfinite(values).all()
            assert greedy is not None
            assert np.array_equal(explorer.actions.to_indices(greedy), values.argmax(axis=1))

    def test_bonus_is_finite_and_paid_only_by_those_who_pay(self) -> None:
        """One non-negative number for each environment, 0 for explorers that do not pay."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, 30)
            bonus = explorer.bonus(rollout.step(explorer.act(rollout.observations)))
            assert bonus.shape == (rollout.n,)
            assert np.isfinite(bonus).all()
            assert (bonus >= 0).all()
            assert explorer.pays or not bonus.any()

    def test_asking_changes_nothing(self) -> None:
        """`q_values`, `greedy`, `bonus` and `statistics` do not change the state, and inputs are not modified."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, 30)
            step = rollout.step(explorer.act(rollout.observations))
            before = explorer.state_dict()
            copies = [copy.deepcopy(getattr(step, name)) for name in step.__slots__]
            explorer.q_values(step.observations)
            explorer.greedy(step.observations)
            explorer.bonus(step)
            assert all(np.isfinite(value) for value in explorer.statistics().values())
            assert states_equal(before, explorer.state_dict())
            explorer.observe(step)
            for kept, name in zip(copies, step.__slots__, strict=True):
                mapped(np.testing.assert_array_equal, getattr(step, name), kept)

    def test_a_masked_action_is_never_chosen(self) -> None:
        """Masked actions are never chosen, and invalid masks raise an error and change nothing."""
        for explorer, rollout in self.each():
            if isinstance(explorer.action_space, spaces.Box):
                masks = np.ones((2, 3), dtype=bool)
                _refused(InvalidInputError, "a mask of torques", explorer.act, rollout.observations, masks)
                continue
            counts = _choices(explorer.action_space)
            for _ in range(20):
                masks = np.concatenate([_mask(count, rollout) for count in counts], axis=1)
                for choose in (explorer.act, explorer.greedy):
                    actions = choose(rollout.observations, masks)
                    assert actions is None or _legal(actions, masks, explorer.action_space), "an illegal action"
                explorer.observe(rollout.step(explorer.act(rollout.observations, masks)))
            before = explorer.state_dict()
            none = masks.copy()
            none[1] = False
            for wrong in (none, masks[:1], masks[:, 1:], masks[0], masks + 0.5, 2 * masks.astype(int)):
                _refused(InvalidInputError, f"masks {wrong}", explorer.act, rollout.observations, wrong)
            assert states_equal(before, explorer.state_dict())

    def test_bad_input_is_refused_and_changes_nothing(self) -> None:
        """NaN, infinity, wrong shapes and actions outside the space raise an error."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, 30)
            good = rollout.step(explorer.act(rollout.observations))
            before = explorer.state_dict()
            for change in _faults(good, explorer):
                fields = {name: getattr(good, name) for name in good.__slots__} | change
                _refused(InvalidInputError, change, explorer.observe, Transitions(**fields))
                assert states_equal(before, explorer.state_dict()), f"{change} changed the explorer"
            deeper = mapped(lambda part: part[:, None, None], good.observations)
            _refused(InvalidInputError, "a wrong shape", explorer.act, deeper)
            assert states_equal(before, explorer.state_dict())

    def test_saved_state_continues_to_the_bit(self) -> None:
        """An explorer that is loaded from a file continues exactly like the saved one."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, self.steps)
            state = explorer.state_dict()
            assert all(array.dtype != object for array in state.values())
            resumed = self.make(explorer.observation_space, explorer.action_space, 5)
            with tempfile.TemporaryDirectory() as folder:
                explorer.save(Path(folder) / "explorer.npz")
                resumed.load(Path(folder) / "explorer.npz")
            assert states_equal(state, resumed.state_dict())
            twin = Rollout(explorer.observation_space, rollout.n, 9)
            again = Rollout(explorer.observation_space, rollout.n, 9)
            a, b = self.play(explorer, twin, 60), self.play(resumed, again, 60)
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))

    def test_reset_ends_episodes_and_nothing_else(self) -> None:
        """A second `reset` changes nothing, also for a new explorer."""
        for explorer, rollout in self.each():
            for _ in range(2):
                once = explorer.state_dict()
                explorer.reset()
                assert states_equal(once, explorer.state_dict())
                self.play(explorer, rollout, 30)
                explorer.reset()

    def test_a_relabelled_episode_is_no_step(self) -> None:
        """Hindsight adds no steps, and the episodes under way go on."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, 30)
            other = Rollout(explorer.observation_space, 5, 1)
            explorer.observe_hindsight(other.step(explorer.actions.to_environment(np.zeros(5, dtype=np.int64))))
            assert explorer.steps == 60
            self.play(explorer, rollout, 5)
            assert explorer.steps == 70

    def test_who_notices_ends_notices_a_reset(self) -> None:
        """An explorer whose state depends on the ends of episodes must drop unfinished ones in `reset`."""
        for explorer, rollout in self.each():
            self.play(explorer, rollout, 30)
            step = rollout.step(explorer.act(rollout.observations))
            before, after = explorer.state_dict(), []
            for cut in (False, True):
                twin = self.make(explorer.observation_space, explorer.action_space, 0)
                twin.load_state_dict(before)
                ends = {"terminated": np.zeros(rollout.n, dtype=bool), "truncated": np.full(rollout.n, cut)}
                twin.observe(replace(step, **ends))
                after.append(twin.state_dict())
            explorer.reset()
            forgets = not states_equal(before, explorer.state_dict())
            assert forgets or not self.follows_episodes or states_equal(*after), "reset() does nothing"

    def test_foreign_and_damaged_states_are_refused(self) -> None:
        """States of another environment, incomplete states and truncated files raise an error."""
        made = [explorer for explorer, rollout in self.each() if self.play(explorer, rollout, 40)]
        older = [explorer for explorer, rollout in self.each(seed=1) if self.play(explorer, rollout, self.steps)]
        for (explorer, foreign), other in zip(pairwise(made), older[:-1], strict=True):
            before, learnt = explorer.state_dict(), other.state_dict()
            _refused(StateError, "another environment", explorer.load_state_dict, foreign.state_dict())
            for key in learnt:
                cut = {name: array for name, array in learnt.items() if name != key}
                _refused(StateError, f"a state without {key}", explorer.load_state_dict, cut)
            assert states_equal(before, explorer.state_dict()), "a refused state changed the explorer"
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "explorer.npz"
                explorer.save(path)
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
                _refused(StateError, "a file cut short", explorer.load, path)
            assert states_equal(before, explorer.state_dict())

    def test_adversarial_rewards_never_yield_a_non_finite_value(self) -> None:
        """Huge, constant and alternating rewards."""
        shapes: tuple[Callable[[int], float], ...] = (
            lambda t: 1e12 * (-1.0) ** t, lambda t: 1e300, lambda t: 0.0, lambda t: 10.0 ** (t % 40 - 20),
        )  # fmt: skip
        for reward in shapes:
            for explorer, rollout in self.each():
                for t in range(self.steps // 2):
                    step = rollout.step(explorer.act(rollout.observations))
                    fields = {name: getattr(step, name) for name in step.__slots__}
                    explorer.observe(Transitions(**fields | {"rewards": np.full(rollout.n, reward(t))}))
                values = explorer.q_values(rollout.observations)
                assert values is None or np.isfinite(values).all()


def _plain_action(action: Any) -> Any:
    return action.item() if isinstance(action, np.generic) and action.shape == () else action


def _faults(good: Transitions, explorer: Explorer) -> Iterator[dict[str, Any]]:
    rewards = np.array(good.rewards)
    for value in (np.nan, np.inf):
        yield {"rewards": np.where(np.arange(len(rewards)) == 1, value, rewards)}
    yield {"rewards": rewards[:1]}
    yield {"terminated": np.zeros(len(rewards) + 1, dtype=bool)}
    yield {"truncated": np.full(len(rewards), 0.5)}
    observations = good.observations
    broken = mapped(_broken, observations)
    if not isinstance(explorer.observation_space, spaces.Box) or observations.dtype.kind == "f":
        yield {"observations": broken}  # bounds of a Box are often wrong, and not enforced
        yield {"next_observations": broken}
    if isinstance(observations, dict):
        yield {"observations": dict(list(observations.items())[1:])}
    yield {"next_observations": mapped(lambda part: part[:1], observations)}
    yield {"actions": np.asarray(good.actions)[:1]}
    taken = np.asarray(good.actions)
    yield {"actions": (taken.astype(np.int64) if taken.dtype.kind in "iu" else taken) + 1000}


def _broken(values: NDArray[Any]) -> NDArray[Any]:
    broken = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
    broken[(1,) + (0,) * (values.ndim - 1)] = np.nan if values.dtype.kind == "f" else 10_000
    return broken


def _choices(space: Space) -> list[int]:
    """The number of choices of each factor of a discrete action space."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(count) for count in space.nvec]
    return [int(space.n)] if isinstance(space, spaces.Discrete) else [2] * int(np.prod(space.shape or 1))


def _mask(count: int, rollout: Rollout) -> NDArray[np.bool_]:
    mask = rollout.rng.random((rollout.n, count)) < 0.5
    mask[np.arange(rollout.n), rollout.rng.integers(count, size=rollout.n)] = True
    return mask


def _legal(actions: NDArray[Any], masks: NDArray[np.bool_], space: Space) -> bool:
    """Whether each factor of each action is allowed by its part of the mask."""
    choices = np.reshape(actions - getattr(space, "start", 0), (len(masks), -1)).astype(np.int64)
    first = np.cumsum([0, *_choices(space)[:-1]])
    return bool(np.take_along_axis(masks, first + choices, axis=1).all())


def _refused(kind: type[Exception], what: object, call: Callable[..., object], *arguments: Any) -> None:
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{what} was accepted")
