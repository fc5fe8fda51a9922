"""The paper's study (section 4): its two tasks, its six methods and polaug's variants, with every episode counted.

tables.py makes the numbers of figure 1, figures.py draws figures 1, 2b and 3b.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from polaug.study.study import Study
from polaug.study.tasks import PAPER

PUBLISHED = ("ppo", "dqn", "ppo+pa-paper", "dqn+pa-paper", "ppo+counting", "atta2c")
"""The methods of the paper's figures 2b and 3b; `-paper` is Policy Augmentation as printed."""
OURS = ("ppo+pa", "dqn+pa", "atta2c-curious")
"""Variants of polaug: today's Policy Augmentation, and AttA2C as its paper describes it."""
METHODS = (*PUBLISHED, *OURS)


def paper_study(
    seeds: int | Iterable[int] = 10,
    episodes: int | None = 100,
    steps: int | None = 40_000,
    *,
    methods: Iterable[str] = METHODS,
    **evaluation: Any,
) -> Study:
    """Each run has at least this number of episodes and of steps."""
    return Study.of(PAPER, methods, seeds, episodes=episodes, steps=steps, **evaluation)
