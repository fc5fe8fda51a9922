"""The bandit between the arms of a portfolio: which one plays the next episode. Pure functions of the arms' returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from polaug.explorers.record import Phase
from polaug.snapshot import saved


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditOptions:
    """Settings of the bandit."""

    decay: float = 0.8
    """Weight of a return relative to the next return of the same arm."""
    bonus: float = 0.3
    """Bonus of an arm that was never tried, as a share of the range of returns. It falls with the tries."""
    prior: float = 0.1
    """Bonus of the first arm, because it explores; as a share of the range of returns."""
    recent: int = 40
    """Number of recent episodes that set the range of returns, and number of returns kept for each arm."""
    retry: float = 1.3
    """Growth of the data after which all arms are tried again if even the best arm falls short of the best return."""
    failing: int = 10
    """Number of last episodes of the arms to inspect. The reserve arm plays if most tied the worst return."""
    margin: float = 0.2
    """Difference of returns that counts, as a share of their range. The best arm falls short if it is further below the
    best return. Veto: an arm is skipped if model rollouts put it further below the best arm.
    """


@saved()
@dataclass(slots=True)
class Arm:
    """Statistics of an arm."""

    plays: int = 0
    pending: int = 0  # episodes under way
    last: int = 0  # step at which it last finished one, or was passed over
    at: list[int] = field(default_factory=list)  # steps at which its last plays ended
    returns: list[float] = field(default_factory=list)


def score(arm: Arm, recent: list[float], options: BanditOptions) -> float:
    """Discounted mean of an arm's last returns, in units of the range of all recent ones."""
    own = np.array(arm.returns)
    if not len(own):
        return 0.0
    everyone = np.sort(np.concatenate([recent, own]))
    low, high = everyone[len(everyone) // 10], everyone[-1]
    low = everyone[0] if low == high else low  # nearly all as good as any: the others are all the worse
    height = np.clip((own - low) / (high - low), -1.0, 1.0) if high > low else np.zeros(len(own))
    weights = options.decay ** np.arange(len(own))[::-1]
    return float(weights @ height / weights.sum())


def best(arms: Mapping[str, Arm], recent: list[float], options: BanditOptions) -> str | None:
    """The arm with the highest score among those that were tried."""
    tried = [name for name, arm in arms.items() if arm.returns]
    return max(tried, key=lambda name: score(arms[name], recent, options), default=None)


def are_failing(own: list[float], recent: list[float], found: bool, options: BanditOptions) -> bool:
    """Whether most of the arms' last episodes (`own`) tied the worst return, although a better one was seen or the task
    was never found.
    """
    if len(own) < options.failing:
        return False
    worst = min([*own, *recent])
    near = worst + 1e-9 * abs(worst)
    return bool(2 * np.count_nonzero(np.array(own) <= near) > len(own)) and (not found or max([*own, *recent]) > near)


def choose(
    arms: Mapping[str, Arm], recent: list[float], steps: int, phase: Phase, costly: bool, options: BanditOptions,
    predicted: Callable[[str], float | None],
) -> str:  # fmt: skip
    """The arm that plays next.

    The first arm explores. It plays alone in the blind phase, and most episodes of the searching phase unless every
    step costs. `predicted` gives an arm's return in model rollouts, None if it is unknown.
    """
    first, *others = arms
    if not others or phase is Phase.BLIND:
        return first
    if phase is Phase.SEARCHING and sum(arms[name].plays + arms[name].pending for name in others) > (
        arms[first].plays + arms[first].pending
    ) * (1.0 if costly else 0.2):
        return first
    if arms[first].plays + arms[first].pending < 2:
        return first
    leader = best(arms, recent, options)
    falls_short = False
    if leader is not None and recent:
        reached = float(np.mean(arms[leader].returns[-5:]))
        falls_short = max(recent) - reached > options.margin * (max(recent) - min(recent))
    highest, chosen = -np.inf, first
    for name, arm in arms.items():
        # A play counts by the share of today's data that the arm knew then.
        tries = sum(arm.at) / max(steps, 1) + arm.pending
        worth = score(arm, recent, options) + options.bonus / math.sqrt(1.0 + tries)
        worth += options.prior if name == first else 0.0
        # An arm is due again when the data have grown 1.5, 2, 3, 5, … times since its last try, or not even that much.
        growth = 1.0 + 2.0 ** min(arm.plays - 2, 50)
        due = steps > (min(growth, options.retry) if falls_short else growth) * arm.last and not arm.pending
        if name != first and not arm.plays and not (due and falls_short):
            continue  # the leader is not left for an untried arm while it does well
        if due:
            if _hopeless(name, arms, recent, options, predicted):
                arm.last = steps
                continue
            worth += 10.0
        if worth > highest:
            highest, chosen = worth, name
    return chosen


def _hopeless(
    name: str, arms: Mapping[str, Arm], recent: list[float], options: BanditOptions,
    predicted: Callable[[str], float | None],
) -> bool:  # fmt: skip
    """Whether model rollouts predict a much lower return for this arm than for the best other one."""
    rival = best({other: arm for other, arm in arms.items() if other != name}, recent, options)
    if rival is None or not recent:
        return False
    ordered = np.sort(recent)
    bar = np.mean(arms[rival].returns[-5:]) - options.margin * (ordered[-1] - ordered[len(ordered) // 10])
    expected = predicted(name)
    return expected is not None and bool(expected < bar)
