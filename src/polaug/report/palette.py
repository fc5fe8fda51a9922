"""Colours and dashes of the methods, the same on the page and in figures for print; colours of what is no method."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Okabe and Ito's palette, which colour-blind readers can tell apart; grey for black, lost on a dark page."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""Lines differ in their dashes too, for print and for more than seven methods."""

MEMBERS = {"model": "#DDCC77", "fitted": "#882255", "linear": "#7A7AC0", "cells": "#8C9A3B"}
"""Members of the committee, each with a colour of its own wherever it is, and none with a method's."""
OTHERS = ("#A07855", "#5E8C8C", "#B0A0C8", "#6B4E71")
"""Members of other people's."""
VISITS = ("#D1E6F1", "#00324F")
"""From one visit to most of them, as on a light page."""


def member_colours(names: Iterable[str]) -> list[str]:
    """The colour of each member of a committee; of ours the same whoever else is there."""
    spare = cycle(OTHERS)
    return [MEMBERS.get(name) or next(spare) for name in names]


def look(k: int) -> tuple[str, str]:
    """Colour and dashes of the k-th method; 28 differ, since 7 and 4 share no factor."""
    return COLOURS[k % len(COLOURS)], DASHES[k % len(DASHES)]


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods as the page lists them: by algorithm, the plain one before its augmentations."""
    return sorted(set(methods), key=lambda name: (name.partition("+")[0], "+" in name, name))
