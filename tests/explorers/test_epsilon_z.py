"""`epsilon_z` repeats its random actions, for heavy-tailed times that end with the episode."""

from itertools import groupby

import numpy as np
import pytest
from gymnasium import spaces
from tests.explorers.chain import STATES, step

import polaug
from polaug.errors import InvalidInputError

ACTIONS = spaces.Discrete(1000)  # so many that repeats by chance are rare


def make(**options):
    return polaug.make_explorer("epsilon_z", STATES, ACTIONS, seed=0, **options)


def actions(explorer, n, *, end_every=None):
    taken = []
    for t in range(1, n + 1):
        action = int(explorer.act(np.zeros(1, dtype=int))[0])
        explorer.observe(step(0, action, 0.0, 0, truncated=bool(end_every) and t % end_every == 0))
        taken.append(action)
    return taken


def runs(taken):
    return [len(list(same)) for _, same in groupby(taken)]


def test_actions_are_repeated_for_zeta_distributed_times():
    lengths = np.array(runs(actions(make(), 6000))[:-1])
    assert lengths.max() > 20
    # P(n) ∝ n^−2: a share 6/π² ≈ 0.61 lasts one step, 0.15 two
    assert np.mean(lengths == 1) == pytest.approx(0.61, abs=0.05)
    assert np.mean(lengths == 2) == pytest.approx(0.15, abs=0.04)


def test_a_larger_exponent_repeats_less():
    assert np.mean(runs(actions(make(exponent=4.0), 2000))) < np.mean(runs(actions(make(exponent=1.5), 2000)))


def test_repetition_has_a_longest_time():
    # So few steps that no two repetitions in a row are of the same action by chance.
    assert max(runs(actions(make(longest=3), 300))) == 3
    assert max(runs(actions(make(longest=10_000), 300))) > 3


def test_a_repetition_ends_with_its_episode():
    taken = actions(make(exponent=1.05, longest=10_000), 100, end_every=2)
    pairs = np.array(taken).reshape(-1, 2)
    assert np.mean(pairs[:, 0] == pairs[:, 1]) > 0.8  # long repetitions within an episode
    assert (pairs[1:, 0] != pairs[:-1, 1]).all()  # none across its end


def test_environments_repeat_independently():
    explorer = make()
    first = explorer.act(np.zeros(8, dtype=int))
    assert len(set(first.tolist())) > 1


def test_an_exponent_without_a_distribution_is_refused():
    with pytest.raises(InvalidInputError, match="exponent"):
        make(exponent=1.0)
