"""Episodes that go on and on: the committee judges spells of them, and whole ones as soon as it can."""

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.exploration.spells import Spells
from polaug.testing import states_equal


def build():
    return polaug.make_explorer("committee", spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(2), seed=0)


def play(explorer, steps, end=None, seed=0):
    """Steps of one environment, at 0 or −1 each; the last one is the `end`. Gives the actions and the return."""
    rng, actions, total = np.random.default_rng(seed), [], 0.0
    for t in range(steps):
        seen, then = rng.uniform(-1, 1, (2, 1, 2)).astype(np.float32)
        actions.append(explorer.act(seen))
        reward = -float(rng.random() < 0.5)
        total += reward
        ends = (np.array([t == steps - 1 and end == kind]) for kind in ("terminated", "truncated"))
        explorer.observe(polaug.Transitions(seen, actions[-1], np.array([reward]), then, *ends))
    return np.array(actions), total


def plays(explorer):
    return sum(standing.plays for standing in explorer._contest.standings.values())


def test_a_spell_is_a_thousand_steps_or_five_usual_episodes():
    spells = Spells()
    assert spells.longest == 1000
    for length in (10, 300, 300):
        spells.ended(length)
    assert spells.longest == 1500
    assert Spells(spells.lengths).longest == 1500


def test_an_endless_episode_is_judged_by_spells():
    explorer = build()
    play(explorer, 3500)
    assert plays(explorer) == len(explorer._contest._recent) == 3
    assert sum(standing.flying for standing in explorer._contest.standings.values()) == 1
    assert all(-600 < total < -400 for total in explorer._contest._recent)


def test_an_episode_of_a_thousand_steps_is_whole():
    explorer = build()
    totals = [play(explorer, 1000, "truncated", seed)[1] for seed in range(2)]
    assert explorer._contest._recent == totals
    assert plays(explorer) == 2


@pytest.mark.parametrize("end", ["truncated", "terminated"])
def test_once_an_episode_has_ended_whole_ones_are_compared(end):
    """The spell of the first one would look better than anything that comes later."""
    explorer = build()
    totals = [play(explorer, 1600, end, seed)[1] for seed in range(2)]
    assert explorer._contest._recent == totals
    assert explorer._contest._best == max(totals)
    assert [total for s in explorer._contest.standings.values() for total in s.returns + s.searched] == totals[1:]
    assert all(standing.flying == 0 for standing in explorer._contest.standings.values())


@pytest.mark.parametrize(("end", "judged"), [("truncated", 1), ("terminated", 2)])
def test_the_rest_of_an_unusually_long_episode_counts_if_it_ended_by_itself(end, judged):
    explorer = build()
    for seed in range(4):
        play(explorer, 20, "terminated", seed)
    play(explorer, 1300, end)
    assert len(explorer._contest._recent) == 4 + judged
    assert all(standing.flying == 0 for standing in explorer._contest.standings.values())


def test_a_second_spell_goes_on_from_its_state():
    explorer, resumed = build(), build()
    play(explorer, 1200)
    resumed.load_state_dict(explorer.state_dict())
    first, second = play(explorer, 1000, "truncated", 1), play(resumed, 1000, "truncated", 1)
    assert np.array_equal(first[0], second[0])
    assert states_equal(explorer.state_dict(), resumed.state_dict())
    assert explorer._spells.lengths == [2200]
