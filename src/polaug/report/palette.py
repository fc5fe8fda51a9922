"""Colours and dashes of the methods: the same on the page and in figures for print."""

from __future__ import annotations

from collections.abc import Iterable

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Okabe and Ito's palette, which colour-blind readers can tell apart; grey for black, lost on a dark page."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""Lines differ in their dashes too, for print and for more than seven methods."""


def look(k: int) -> tuple[str, str]:
    """Colour and dashes of the k-th method; 28 differ, since 7 and 4 share no factor."""
    return COLOURS[k % len(COLOURS)], DASHES[k % len(DASHES)]


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods as the page lists them: by algorithm, the plain one before its augmentations."""
    return sorted(set(methods), key=lambda name: (name.partition("+")[0], "+" in name, name))
