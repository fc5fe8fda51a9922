"""Environments that are reset in the middle of an episode: the next one is no continuation of it."""

import numpy as np
import pytest
from gymnasium import spaces

import polaug

FOLLOWING = {
    "portfolio": lambda e: e._recent,
    "model": lambda e: [e.experience.record.returns.low],
    "optimistic": lambda e: [e._returns.low],
    "paper": lambda e: e._returns,
    "tabular": lambda e: [e._table._best],
}


def build(name):
    space = spaces.Discrete(8) if name == "tabular" else spaces.Box(-1.0, 1.0, (2,))
    options = {"restart_below": -1e9, "max_iterations": 2} if name == "paper" else {}
    options |= {"gamma": 0.999} if name in ("model", "optimistic") else {}
    return polaug.make_explorer(name, space, spaces.Discrete(2), seed=0, **options)


def play(explorer, steps, ends, n=2):
    """`steps` of n environments at −1 each, whose last one `ends` them."""
    space = explorer.observation_space
    space.seed(explorer.steps)  # real numbers do not come back
    for t in range(steps):
        seen, then = (np.stack([space.sample() for _ in range(n)]) for _ in range(2))
        over = np.full(n, ends and t == steps - 1)
        actions = explorer.act(seen)
        explorer.observe(polaug.Transitions(seen, actions, np.full(n, -1.0), then, over, np.zeros(n, bool)))


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_cut_episode_is_not_glued_to_the_next(name):
    explorer = build(name)
    play(explorer, 11, ends=False)  # before the model's first fit, which looks at episodes under way
    explorer.reset()
    play(explorer, 10, ends=True)
    assert min(FOLLOWING[name](explorer)) >= -10.0
    assert max(FOLLOWING[name](explorer)) < -9.0


def test_a_cut_episode_of_the_portfolio_is_nobodys():
    explorer = build("portfolio")
    for _ in range(4):
        play(explorer, 30, ends=True)
    play(explorer, 7, ends=False)
    plays = {name: arm.plays for name, arm in explorer._arms.items()}
    assert sum(arm.pending for arm in explorer._arms.values()) == 2
    explorer.reset()
    assert {name: arm.plays for name, arm in explorer._arms.items()} == plays
    assert all(arm.pending == 0 for arm in explorer._arms.values())
    assert not explorer._search._playing


def test_another_number_of_environments_leaves_no_episode_under_way():
    explorer = build("portfolio")
    for _ in range(4):
        play(explorer, 30, ends=True)
    play(explorer, 7, ends=False, n=4)
    play(explorer, 10, ends=True, n=1)
    assert list(explorer._segments) == []
    assert all(arm.pending == 0 for arm in explorer._arms.values())
    assert min(explorer._recent) == -30.0
    assert explorer._recent[-1] == -10.0  # and not with the seven steps of before


def test_a_look_at_other_states_is_no_episode():
    explorer = build("portfolio")
    for _ in range(4):
        play(explorer, 30, ends=True)
    play(explorer, 7, ends=False)
    explorer.act(np.zeros((5, 2), np.float32))
    explorer.act(np.zeros((1, 2), np.float32))
    play(explorer, 3, ends=True)
    assert all(arm.pending == 0 for arm in explorer._arms.values())
    assert explorer._recent[-2:] == [-10.0] * 2


def test_a_portfolio_that_counts_categories_resets_its_table():
    explorer = polaug.make_explorer("portfolio", spaces.Discrete(8), spaces.Discrete(2), seed=0)
    play(explorer, 20, ends=False)
    explorer.reset()
    play(explorer, 10, ends=True)
    assert explorer._table._table._best == -10.0


def test_a_repetition_ends_with_its_episode():
    explorer = build("epsilon_z")
    explorer._rng = np.random.default_rng(1)
    play(explorer, 5, ends=False)
    explorer._left[:] = 100
    explorer.reset()
    assert not explorer._left.any()
