"""The decision is a pure function of the records."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polaug.coach import Episode, Records, decide
from polaug.config import Augmentation

SETTINGS = Augmentation()


def recorded(guide=(), agent=(), noisy=(), lengths=(10, 10), prior=0.9):
    records = Records(8, prior)
    for kind, totals, length in (
        ("guide", guide, lengths[0]),
        ("agent", agent, lengths[1]),
        ("noisy", noisy, lengths[1]),
    ):
        for total in totals:
            records.add(Episode(0, float(total), length, kind), 1)
    return records


def test_an_untried_guide_drives_most_steps_and_teaches_nothing_as_long_as_all_returns_are_alike():
    decision = decide(recorded(guide=[-200] * 4, agent=[-200] * 4), SETTINGS, 1)
    assert decision.guide_share == SETTINGS.guide_share
    assert decision.teaching == 0.0
    assert decide(recorded(guide=[-200] * 3 + [-110], agent=[-200]), SETTINGS, 1).teaching == 0.9


def test_a_guide_that_still_searches_keeps_its_share_but_does_not_teach():
    records = recorded(guide=[-0.01] * 8, agent=[0.0] * 8, noisy=[-0.005] * 8)  # DeepSea before its goal is found
    decision = decide(records, SETTINGS, 1, searching=True)
    assert decision.guide_share == SETTINGS.guide_share
    assert decision.teaching == 0.0
    assert decide(records, SETTINGS, 1).guide_share == SETTINGS.trial_share


def test_an_agent_that_is_better_gets_all_but_the_trials():
    decision = decide(recorded(guide=[0, 1, 0, 1], agent=[9, 10, 9, 10]), SETTINGS, 1)
    assert decision.p_guide < SETTINGS.trial_share
    assert decision.guide_share == SETTINGS.trial_share
    assert decision.teaching == 0.0


def test_teaching_is_weighted_by_p_above_its_threshold():
    decision = decide(recorded(guide=[9, 10, 9, 10], agent=[8, 11, 9, 10]), SETTINGS, 1)
    assert 0.3 < decision.p_guide < 0.7
    assert decision.teaching == decision.p_guide == decision.guide_share
    eager = dataclasses.replace(SETTINGS, trial_share=0.72)
    assert decide(recorded(guide=[9, 10, 9, 10], agent=[8, 11, 9, 10]), eager, 1).teaching == 0.0


def test_an_agent_whose_noisy_episodes_beat_the_guide_is_not_taught_by_it():
    decision = decide(recorded(guide=[9, 10, 9, 10], agent=[9, 9, 10, 9], noisy=[25, 20, 30, 22]), SETTINGS, 1)
    assert decision.teaching == 0.0


@pytest.mark.parametrize("lengths", [(10, 10), (10, 200), (500, 10)])
def test_shares_are_of_steps_whatever_the_length_of_episodes(lengths):
    decision = decide(recorded(guide=[10, 9, 11], agent=[0, 1, 0], lengths=lengths), SETTINGS, 1)
    q, (mine, other) = decision.guide_episodes, lengths
    assert q * mine / (q * mine + (1 - q) * other) == pytest.approx(decision.guide_share)


TOTALS = st.lists(st.integers(-100, 100), min_size=2, max_size=8)


@settings(max_examples=100, deadline=None)
@given(guide=TOTALS, agent=TOTALS, more=st.integers(1, 50))
def test_p_rises_with_the_guides_returns_and_falls_with_the_agents(guide, agent, more):
    ends = [(-300, 300), (300, -300)]  # so that the range of returns stays the same

    def p(guide, agent):
        records = Records(8)
        for (one, other), kind in itertools.product(ends, ("guide", "agent")):
            records.add(Episode(0, float(one), 1, kind), 1)
            records.add(Episode(0, float(other), 1, kind), 1)
        for kind, totals in (("guide", guide), ("agent", agent)):
            for total in totals * 4:  # push the ends out of the window
                records.add(Episode(0, float(total), 1, kind), 1)
        return decide(records, SETTINGS, 1).p_guide

    base = p(guide, agent)
    assert 0.0 <= base <= 1.0
    assert p([total + more for total in guide], agent) >= base
    assert p(guide, [total + more for total in agent]) <= base
    assert p(agent, guide) == pytest.approx(1.0 - base, abs=1e-9)


def test_it_does_not_depend_on_the_unit_of_rewards():
    guide, agent = [3, 5, 4, 6], [2, 4, 5, 3]
    decisions = [
        decide(recorded(np.array(guide) * unit, np.array(agent) * unit), SETTINGS, 1) for unit in (1e-3, 1.0, 1e3)
    ]
    for decision in decisions[1:]:
        assert decision.p_guide == pytest.approx(decisions[0].p_guide)
