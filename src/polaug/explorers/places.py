"""Tells apart places that look alike by dead reckoning: a state is an observation and the position on the way there.

An action turns by a quarter, steps in a direction relative to the heading, or does not move. Which it is, is learnt:
equal positions must look alike as often as possible. While no such effects explain what was seen, or no pair of
observation and action has led to two observations, a state is an observation.

The effects also complete the table of next states, as translations.py does with fewer kinds of actions: an untried
action should lead to the state that was met at the position where it should lead.
"""

from __future__ import annotations

import itertools
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from polaug.compiled import compiled
from polaug.errors import StateError
from polaug.snapshot import saved

IntArray: TypeAlias = NDArray[np.int64]
Pose: TypeAlias = tuple[int, int, int]
"""x, y and heading, from where the episode began."""
Step: TypeAlias = tuple[int, int, int, int, bool, float, bool]
"""Episode's environment, observation, action, next observation, over, reward, terminated."""

START: Pose = (0, 0, 0)
_EFFECTS = np.array(
    [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (0, 1, 0), (0, 0, 1), (0, -1, 0), (0, 0, -1)], dtype=np.int64
)
"""(turn, ahead, aside) of an action."""
_LONGEST = 5_000  # steps from which effects are learnt
_ENOUGH = 100  # returns to a position
_UNEXPLAINED = 0.5  # of those that look otherwise if nothing ever moves may still do so
_CHANCE = 2  # returns that look as before by chance: more must speak for an effect
_JOINTLY = 3  # actions whose effects are searched together: those that change most
_SIZE = 64  # positions are counted modulo this number while effects are searched


@saved("effects", "views", "_log", "_tried", "_free", "_first", "_poses", "_where")
class Places:
    """Numbers the states of environments with `actions` actions, and predicts next states.

    Attributes
    ----------
    effects : array (A, 3) or None
        Turn, ahead and aside of each action; None while states are observations.
    views : list of int
        The observation of each state.
    """

    def __init__(self, actions: int) -> None:
        self._actions = actions
        self.effects: IntArray | None = None
        self.views: list[int] = []
        self._log: list[Step] = []  # steps so far, while effects may still be found
        self._tried = 0  # length of the log at the latest search
        self._free: dict[int, None] = {}  # pairs, view · A + action, that are not blocked, in order
        self._first = 0  # number of the first environment in the log; greater after each restart
        self._poses: list[Pose] = []
        self._where: list[Pose] = []  # of each state
        self._restored()

    def _restored(self) -> None:
        if self.effects is not None and self.effects.shape != (self._actions, 3):
            raise StateError(f"effects: must have shape ({self._actions}, 3). The state is damaged.")
        places = list(zip(self.views, self._where, strict=True))
        self._states = {place: s for s, place in enumerate(places)}
        self._at = {pose: s for s, (_, pose) in enumerate(places)}  # the latest state met at each pose
        self._alike: dict[int, list[int]] = {}
        for s, (view, _) in enumerate(places):
            self._alike.setdefault(view, []).append(s)

    # -- states -----------------------------------------------------------------------------------------------------

    def restart(self, n: int) -> None:
        """Other episodes begin in n environments."""
        self._first += len(self._poses)
        self._poses = [START] * n

    def state(self, environment: int, view: int) -> int:
        """The state of an environment with observation `view`; the next free number if it was never met."""
        if self.effects is None:
            return view
        pose = self._poses[environment] if environment < len(self._poses) else START
        return self._states.get((view, pose), len(self.views))

    def alike(self, view: int) -> list[int]:
        """The states with an observation."""
        return [view] if self.effects is None else self._alike.get(view, [])

    def follow(self, environment: int, step: Step) -> tuple[int, int]:
        """A step of an environment; gives the states before and after it."""
        _, view, action, then, over, _, _ = step
        if self.effects is None:
            if len(self._log) <= _LONGEST:
                self._log.append((self._first + environment, *step[1:]))
            return view, then
        before = self._poses[environment]
        after = self._moved(before, action, view, then)
        self._poses[environment] = START if over else after
        return self._number(view, before), self._number(then, after)

    def _number(self, view: int, pose: Pose) -> int:
        s = self._states.setdefault((view, pose), len(self.views))
        if s == len(self.views):
            self.views.append(view)
            self._where.append(pose)
            self._alike.setdefault(view, []).append(s)
        self._at[pose] = s
        return s

    def _moved(self, pose: Pose, action: int, view: int, then: int) -> Pose:
        if view != then:
            self._free[view * self._actions + action] = None
        assert self.effects is not None
        # A step that never changed this observation is blocked; one that did may lead to where it looks alike.
        steps = bool(self.effects[action, 0]) or view * self._actions + action in self._free
        return self._beyond(pose, action) if steps else pose

    def _beyond(self, pose: Pose, action: int) -> Pose:
        assert self.effects is not None
        turn, ahead, aside = self.effects[action].tolist()
        dx, dy = _turned(ahead, aside, pose[2])
        return pose[0] + dx, pose[1] + dy, (pose[2] + turn) % 4

    # -- completion -------------------------------------------------------------------------------------------------

    def predict(self, s: int, action: int) -> int:
        """The state where `action` should lead from s; −1 if no known state is there."""
        if self.effects is not None and not self.effects[action].any():
            return s
        return self._at.get(self._beyond(self._where[s], action), -1)

    def origin(self, s: int, action: int) -> int:
        """The state from which `action` should lead to s; −1 if no known state is there."""
        assert self.effects is not None
        turn, ahead, aside = self.effects[action].tolist()
        if not (turn or ahead or aside):
            return s
        x, y, heading = self._where[s]
        dx, dy = _turned(ahead, aside, (heading - turn) % 4)
        return self._at.get((x - dx, y - dy, (heading - turn) % 4), -1)

    def learn(self, s: int, action: int, to: int) -> list[int]:
        """A pair was tried for the first time: predictions of these states may have changed."""
        return [s, to] if s != to else [s]

    # -- effects ----------------------------------------------------------------------------------------------------

    def explain(self) -> list[tuple[Step, tuple[int, int]]]:
        """Search for effects if the log has doubled. If they are found now: all steps and the states they joined."""
        if self.effects is not None or len(self._log) < max(2 * self._tried, _ENOUGH) or len(self._log) > _LONGEST:
            return []
        self._tried = len(self._log)
        explanation = found(np.array([step[:5] for step in self._log], dtype=np.int64), self._actions)
        if explanation is None:
            return []
        self.effects, free = explanation
        self._free = dict.fromkeys(view * self._actions + action for view, action in free)
        log, self._log = self._log, []
        first, n = self._first, len(self._poses)
        self._poses = [START] * (first + n)
        states = [self.follow(step[0], step) for step in log]
        self._poses = self._poses[first:]
        return list(zip(log, states, strict=True))


def found(steps: IntArray, actions: int) -> tuple[IntArray, list[tuple[int, int]]] | None:
    """The effects (A, 3) that explain `steps` (T, 5), and the pairs of observation and action that are not blocked."""
    pairs = steps[:, 1] * actions + steps[:, 2]
    changed = steps[:, 1] != steps[:, 3]
    if len(np.unique(pairs)) == len(np.unique(np.column_stack([pairs, steps[:, 3]]), axis=0)):
        return None  # the observations alone explain everything
    rows = np.column_stack([steps, np.isin(pairs, pairs[changed])])
    order = np.argsort(-np.bincount(steps[changed, 2], minlength=actions), kind="stable").tolist()
    marks = np.zeros((_SIZE, _SIZE, 4, 2), dtype=np.int64)
    best, counts = np.zeros((actions, 3), dtype=np.int64), (0, 0)
    for group in [order[:_JOINTLY], *([a] for a in order[_JOINTLY:])]:
        for effects in itertools.product(_EFFECTS, repeat=len(group)):
            tried = best.copy()
            tried[group] = effects
            now = agreement(rows, tried, marks)
            if now[1] > counts[1] + (_CHANCE if len(group) == 1 else 0):
                best, counts = tried, now
    # A step that seems to be blocked may lead to where it looks alike.
    unchanged, times = np.unique(pairs[rows[:, 5] == 0], return_counts=True)
    for pair in unchanged[np.argsort(-times, kind="stable")].tolist():
        if best[pair % actions, 1:].any():
            rows[pairs == pair, 5] = 1
            now = agreement(rows, best, marks)
            if now[1] > counts[1] + _CHANCE:
                counts = now
            else:
                rows[pairs == pair, 5] = 0
    made, right = counts
    all_made, all_right = agreement(rows, np.zeros_like(best), marks)
    if made < _ENOUGH or (made - right) * all_made > _UNEXPLAINED * (all_made - all_right) * made:
        return None
    return best, [divmod(pair, actions) for pair in np.unique(pairs[rows[:, 5] > 0]).tolist()]


@compiled
def agreement(steps: IntArray, effects: IntArray, marks: IntArray) -> tuple[int, int]:
    """How often a position was come back to, and how often it looked as before, or as before that (an open door).

    `steps` (T, 6): environment, observation, action, next observation, over, not blocked. `marks` (X, Y, 4, 2) is
    overwritten.
    """
    marks[:] = -1
    poses = np.zeros((steps[:, 0].max() + 1, 3), dtype=np.int64)
    size, made, right = marks.shape[0], 0, 0
    for t in range(len(steps)):
        i, action = steps[t, 0], steps[t, 2]
        x, y, heading = poses[i, 0], poses[i, 1], poses[i, 2]
        if steps[t, 5]:
            ahead, aside = effects[action, 1], effects[action, 2]
            for _ in range(heading):
                ahead, aside = -aside, ahead
            x, y = (x + ahead) % size, (y + aside) % size
        heading = (heading + effects[action, 0]) % 4
        if steps[t, 1] != steps[t, 3]:
            there, known = steps[t, 3], marks[x, y, heading]
            if known[0] >= 0:
                made += 1
                right += there == known[0] or there == known[1]
            if there != known[0]:
                known[0], known[1] = there, known[0]
        if steps[t, 4]:
            x, y, heading = 0, 0, 0
        poses[i, 0], poses[i, 1], poses[i, 2] = x, y, heading
    return made, right


def _turned(ahead: int, aside: int, heading: int) -> tuple[int, int]:
    for _ in range(heading):
        ahead, aside = -aside, ahead
    return ahead, aside
