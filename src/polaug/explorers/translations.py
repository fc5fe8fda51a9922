"""Completes the table of next states: where an untried action should lead, if actions are translations.

Every state s gets a position z(s) and every action a displacement d(a) so that z(s') = z(s) + d(a) for the transitions
seen, as TransE completes (head, relation, tail) (Bordes et al., 2013), here in whole numbers. Displacements begin
independent. A loop that closes in another position than it began says that some sum of displacements is 0; a sum that
enough loops say becomes a relation (left + right = 0), and one displacement is eliminated by it. Ids play no part.
"""

from __future__ import annotations

from typing import TypeAlias

from polaug.snapshot import saved

Vector: TypeAlias = tuple[int, ...]

MOST_ACTIONS = 32
"""With more actions loops of the same few close too rarely to learn from, and positions would fill the memory."""

_LOOPS = 3  # must say the same relation: one or two are a coincidence
_MOST_SUMS = 64  # different ones that are counted; the counts are those of Misra and Gries (1982)


@saved("displacements", "_positions", "_at", "_votes")
class Translations:
    """Positions of states and displacements of `actions` actions.

    States that no transition has joined yet lie in different `components`, whose positions have nothing to do with
    each other. Steps that stay where they are (a wall) say nothing about a displacement.
    """

    def __init__(self, actions: int) -> None:
        self._actions = actions
        self.displacements: list[Vector] = [tuple(int(a == b) for b in range(actions)) for a in range(actions)]
        self._positions: dict[int, tuple[int, Vector]] = {}  # component and position of each state
        self._at: dict[tuple[int, Vector], int] = {}  # the state at each; the first one where there are several
        self._votes: dict[Vector, int] = {}  # loops that say so, by what a sum of displacements was

    def predict(self, s: int, action: int) -> int:
        """The state where `action` should lead from s; −1 if no known state is there."""
        if s not in self._positions:
            return -1
        component, z = self._positions[s]
        return self._at.get((component, _plus(z, self.displacements[action])), -1)

    def origin(self, s: int, action: int) -> int:
        """The state from which `action` should lead to s; −1 if no known state is there."""
        if s not in self._positions:
            return -1
        component, z = self._positions[s]
        return self._at.get((component, _plus(z, self.displacements[action], -1)), -1)

    def learn(self, s: int, action: int, to: int) -> list[int]:
        """Take in a pair tried for the first time, or leading elsewhere; gives the states that have moved."""
        if s == to:
            return []
        moved = [s] if self._place(s, len(self._positions), (0,) * self._actions) else []
        component, z = self._positions[s]
        z = _plus(z, self.displacements[action])
        if to not in self._positions:
            free = (component, z) not in self._at
            self._place(to, component if free else len(self._positions), z)
            return [*moved, to]
        other, place = self._positions[to]
        if other != component:
            return moved + self._join(component, other, _plus(z, place, -1))
        return moved + self._vote(_plus(z, place, -1))

    def _place(self, s: int, component: int, z: Vector) -> bool:
        if s in self._positions:
            return False
        self._positions[s] = (component, z)
        self._at.setdefault((component, z), s)
        return True

    def _join(self, component: int, other: int, offset: Vector) -> list[int]:
        """Two components have met: the smaller one moves by the offset between them."""
        members: dict[int, list[int]] = {component: [], other: []}
        for s, (c, _) in self._positions.items():
            if c in members:
                members[c].append(s)
        into, joining, sign = component, other, 1
        if len(members[other]) > len(members[component]):
            into, joining, sign = other, component, -1
        for s in members[joining]:
            z = self._positions[s][1]
            if self._at.get((joining, z)) == s:
                del self._at[joining, z]
            self._positions[s] = (into, _plus(z, offset, sign))
            self._at.setdefault(self._positions[s], s)
        return members[joining]

    def _vote(self, total: Vector) -> list[int]:
        """A loop has closed, and its displacements sum up to `total`."""
        if not any(total):
            return []
        if next(x for x in total if x) < 0:
            total = tuple(-x for x in total)
        if total in self._votes or len(self._votes) < _MOST_SUMS:
            self._votes[total] = self._votes.get(total, 0) + 1
        else:
            self._votes = {key: n - 1 for key, n in self._votes.items() if n > 1}
        if self._votes.get(total, 0) < _LOOPS or 1 not in map(abs, total):
            return []
        self._eliminate(total)
        return list(self._positions)

    def _eliminate(self, relation: Vector) -> None:
        """Hold `relation` to be 0: one displacement follows from the others."""
        column = max(k for k, x in enumerate(relation) if abs(x) == 1)

        def reduced(z: Vector) -> Vector:
            return _plus(z, relation, -z[column] * relation[column])

        self.displacements = [reduced(d) for d in self.displacements]
        self._positions = {s: (component, reduced(z)) for s, (component, z) in self._positions.items()}
        self._at = {}
        for s, place in self._positions.items():
            self._at.setdefault(place, s)
        self._votes = {}


def _plus(z: Vector, d: Vector, sign: int = 1) -> Vector:
    return tuple(x + sign * y for x, y in zip(z, d, strict=True))
