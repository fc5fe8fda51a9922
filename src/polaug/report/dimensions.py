"""Names for the numbers of an observation: of Gymnasium's well-known environments their own, otherwise by place."""

from __future__ import annotations

from polaug.study.results import Run

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
"""By id without its version, in the order of the observations."""


def dimension_name(run: Run, place: int) -> str:
    """What the number at `place` of a run's observations is called."""
    stem = str(run.config.get("env_id", "")).rpartition("-v")[0]
    names = KNOWN.get(stem, ())
    return names[place] if place < len(names) else f"observation[{place}]"
