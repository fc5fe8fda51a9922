"""How long one member of the committee plays an episode that goes on: one that never ends would be its own for ever."""

from __future__ import annotations

from statistics import median

_SHORTEST = 1000  # steps of a spell
_MEDIANS = 5  # or so many times the length that episodes usually have, if that is longer
_RECENT = 40  # episodes that say what is usual


class Spells:
    """The length after which a member is judged by its return so far and the next one is chosen."""

    def __init__(self, lengths: list[int] | None = None) -> None:
        self.lengths: list[int] = lengths or []
        """Of the last episodes."""
        self.longest = _SHORTEST
        """Steps of a spell."""
        self._measure()

    def ended(self, length: int) -> None:
        """An episode ended, after all its spells."""
        self.lengths = [*self.lengths, length][-_RECENT:]
        self._measure()

    def _measure(self) -> None:
        if self.lengths:
            self.longest = max(_SHORTEST, int(_MEDIANS * median(self.lengths)))
