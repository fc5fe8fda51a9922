"""The paper's study (section 4): its two tasks, its six methods and our variants, with every episode counted.

paper_tables.py makes the numbers of figure 1, paper_figures.py draws figures 1, 2b and 3b.
"""

from __future__ import annotations

from collections.abc import Iterable

from polaug.study.study import Study
from polaug.study.tasks import PAPER

PUBLISHED = ("ppo", "dqn", "ppo+pa-paper", "dqn+pa-paper", "ppo+counting", "atta2c")
"""The methods of the paper's figures 2b and 3b; `-paper` is Policy Augmentation as printed."""
OURS = ("ppo+pa", "dqn+pa", "atta2c-curious")
"""Our variants: today's Policy Augmentation, and AttA2C as its own paper describes it."""
METHODS = (*PUBLISHED, *OURS)

PUBLISHED_STEPS = 2_500_000
"""The paper's budget; the figures show only the first 100 episodes of it."""


def paper_study(
    seeds: int | Iterable[int] = 10,
    episodes: int | None = 100,
    steps: int | None = 40_000,
    *,
    every: int = 1_000,
    eval_episodes: int = 10,
    methods: Iterable[str] = METHODS,
) -> Study:
    """Each run goes on until it has both so many episodes and so many steps."""
    return Study.of(PAPER, methods, seeds, episodes=episodes, steps=steps, every=every, eval_episodes=eval_episodes)
