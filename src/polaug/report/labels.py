"""How things look and what they are called: colours and dashes of methods, names of observations, short numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from polaug.study.results import Run

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Okabe and Ito's palette for colour-blind readers, with grey in place of black for dark pages."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""Lines differ in their dashes too, for print and for more than seven methods."""
ARMS = ("#DDCC77", "#7A7AC0", "#8C9A3B", "#882255", "#AA4499", "#A07855", "#5E8C8C", "#B0A0C8", "#6B4E71")
"""Colours of an explorer's arms; none is a method's."""
VISITS = ("#D1E6F1", "#00324F")
"""From one visit to most of them."""

_CAR = ("position", "velocity")
_LANDER = ("x", "y", "x velocity", "y velocity", "angle", "angular velocity", "left leg", "right leg")
KNOWN: dict[str, tuple[str, ...]] = {
    "MountainCar": _CAR,
    "MountainCarContinuous": _CAR,
    "polaug/PaperMountainCar": _CAR,
    "CartPole": ("cart position", "cart velocity", "pole angle", "pole angular velocity"),
    "Acrobot": ("cos θ₁", "sin θ₁", "cos θ₂", "sin θ₂", "velocity of θ₁", "velocity of θ₂"),
    "Pendulum": ("cos θ", "sin θ", "angular velocity"),
    "LunarLander": _LANDER,
    "LunarLanderContinuous": _LANDER,
}
"""Names of the numbers of an observation, by environment id without its version."""


def dimension_name(run: Run, place: int) -> str:
    """What the number at `place` of a run's observations is called."""
    names = KNOWN.get(str(run.config.get("env_id", "")).rpartition("-v")[0], ())
    return names[place] if place < len(names) else f"observation[{place}]"


def arm_colours(names: Iterable[str]) -> list[str]:
    """The colour of each arm."""
    return [ARMS[k % len(ARMS)] for k, _ in enumerate(names)]


def line_style(k: int) -> tuple[str, str]:
    """Colour and dashes of the k-th method; 28 differ, since 7 and 4 share no factor."""
    return COLOURS[k % len(COLOURS)], DASHES[k % len(DASHES)]


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods as the page lists them: by algorithm, the plain one before its augmentations."""
    return sorted(set(methods), key=lambda name: (name.partition("+")[0], "+" in name, name))


def short(values: Any, digits: int = 5) -> Any:
    """Nested lists of numbers with so many digits; what is not finite becomes None, whole numbers stay whole."""
    array = np.asarray(values, dtype=np.float64)
    size = np.where(np.isfinite(array) & (array != 0), np.abs(array), 1.0)
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.where(np.isfinite(scale), np.round(array * scale) / scale, array)
    return _plain(rounded.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 2**53 else float(f"{value:.10g}")
