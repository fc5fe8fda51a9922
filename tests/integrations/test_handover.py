"""Who drives, from returns alone."""

import numpy as np
import pytest
import torch

from polaug.config import Augmentation
from polaug.integrations.champion import Champion
from polaug.integrations.handover import Handover


def drive(explorer_return, agent_return, episodes=200, length=50, n=1, **settings):
    """Play episodes whose return depends on the driver (a number, or a function of the steps so far)."""
    handover = Handover(Augmentation(**settings), steers=True, automatic=True, tau_e=None, warm_up=0)
    handover.begin(n)
    rng = np.random.default_rng(0)

    def value(returns):
        return (returns(handover.steps) if callable(returns) else returns) + rng.normal()

    for _ in range(episodes):
        for t in range(length):
            last = t == length - 1
            rewards = np.array([value(explorer_return if d else agent_return) * last for d in handover.drivers])
            handover.step(rewards, np.full(n, last))
    return handover


def test_a_better_explorer_drives_first_and_teaches():
    handover = drive(100.0, 0.0, episodes=20)
    assert handover.teaching > 0.5
    assert 0.5 < handover.explorer_steps / handover.steps <= 0.8


def test_an_explorer_that_does_not_improve_leaves_the_wheel_to_the_agent():
    handover = drive(100.0, 0.0, episodes=600)
    assert handover.share < 0.2
    assert handover.teaching >= 0.3  # it still knows better


def test_a_bad_explorer_costs_its_patience_and_few_trials():
    handover = drive(0.0, 100.0, episodes=1000, patience=1000)
    assert handover.explorer_steps < 1000 + 0.05 * handover.steps
    assert handover.teaching == 0.0
    assert handover.retired


def test_an_agent_that_overtakes_ends_the_lessons():
    handover = drive(100.0, lambda t: t / 100, episodes=600)
    assert handover.teaching == 0.0
    assert handover.agent_leads


def examined(episodes, noisy):
    """The share of exams among the agent's last 100 episodes, below an explorer that leads and does not improve."""
    agent = {"weight": torch.zeros(1)}
    champion = Champion(lambda: agent, agent.update)
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0, champion=champion)
    handover.begin(1)
    rng, exams = np.random.default_rng(0), []
    for k in range(episodes):
        mean = 100.0 if handover.drivers[0] else 0.0 if handover.exams[0] else noisy(k / episodes)
        if not handover.drivers[0]:
            exams.append(bool(handover.exams[0]))
        for t in range(50):
            handover.step(np.array([(mean + rng.normal()) * (t == 49)]), np.array([t == 49]))
    return handover, np.mean(exams[-100:])


def test_an_agent_that_gets_better_by_itself_is_left_to_it_once_the_explorer_stands_still():
    """Half of its first episodes are exams, which an on-policy loss cannot use; later few, and no lessons."""
    early, often = examined(60, lambda done: 0.0)
    late, seldom = examined(800, lambda done: 60.0 * done)
    assert early.teaching > 0.0
    assert often > 0.4
    assert late.explorer_leads
    assert late.teaching == 0.0
    assert seldom < 0.3


def test_an_agent_that_falls_apart_gets_its_teacher_back():
    handover = drive(100.0, lambda t: 150.0 if t < 20_000 else 0.0, episodes=600)
    assert handover.teaching >= 0.3


def test_equals_are_not_called_leaders():
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    handover.begin(1)
    for _ in range(40):
        handover.step(np.array([500.0]), np.array([True]))
    assert not handover.explorer_leads
    assert not handover.agent_leads


def test_drivers_change_only_between_episodes_and_are_spread_over_environments():
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    handover.begin(8)
    assert 4 <= handover.drivers.sum() < 8
    before = handover.drivers.copy()
    for _ in range(500):
        assert handover.step(np.ones(8), np.zeros(8, bool)) == []
    assert (handover.drivers == before).all()


def spells(length, episodes, n=1, truncated=True):
    """Lengths of what is judged, of episodes of `length` steps; 10¹² is never reached."""
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    handover.begin(n)
    judged = []
    for t in range(episodes * min(length, 10_000)):
        over = np.full(n, (t + 1) % length == 0)
        judged += [spell.length for spell in handover.step(np.ones(n), over, over & truncated)]
    return judged, handover


@pytest.mark.parametrize("length", [20, 999, 1000])
def test_episodes_of_up_to_a_thousand_steps_are_judged_whole(length):
    assert spells(length, 3)[0] == 3 * [length]


def test_an_episode_without_an_end_is_judged_in_spells():
    judged, handover = spells(10**12, 1)
    assert judged == 10 * [1000]
    assert 0 < handover.explorer_steps < handover.steps == 10_000
    assert np.isfinite([handover.explorer_return, handover.exam_return]).all()


def test_a_longer_time_limit_is_learnt_and_returns_of_parts_are_forgotten():
    judged, handover = spells(1500, 4, n=2)
    assert judged == [1000, 1000, 500, 500] + 6 * [1500]
    assert set(np.concatenate([handover._explorer.returns, handover._exams.returns, handover._agent.returns])) == {1500}
    assert spells(1500, 2, truncated=False)[0] == [1000, 500, 1000, 500]  # a task that is over says no limit
    judged, handover = spells(6500, 2)
    assert judged == 2 * [*6 * [1000], 500]
    assert set(handover._explorer.returns) == {1000}  # the rest of an episode says nothing about who drove it


def test_spells_go_on_to_the_bit():
    first = spells(10**12, 1)[1]
    first.step(np.ones(1), np.zeros(1, bool))
    second = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    second.load_state_dict(first.state_dict())
    assert second.step(np.ones(1), np.ones(1, bool), np.ones(1, bool)) == (
        first.step(np.ones(1), np.ones(1, bool), np.ones(1, bool))
    )
    for key, array in first.state_dict().items():
        np.testing.assert_array_equal(array, second.state_dict()[key], err_msg=key)


@pytest.mark.parametrize(
    ("steers", "tau_e", "expected"), [(False, None, 0), (True, 0, 0), (True, 30, 30), (True, 10**6, 400)]
)
def test_fixed_hand_overs(steers, tau_e, expected):
    handover = Handover(Augmentation(), steers=steers, automatic=True, tau_e=tau_e, warm_up=0)
    handover.begin(1)
    for _ in range(400):
        handover.step(np.ones(1), np.ones(1, bool))
    assert handover.explorer_steps == expected


def test_the_warm_up_is_the_explorers():
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=100)
    handover.begin(1)
    for _ in range(100):
        handover.step(np.zeros(1), np.ones(1, bool))
    assert handover.explorer_steps == 100


def test_its_state_goes_on_to_the_bit():
    first = drive(10.0, 0.0, episodes=30)
    second = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    second.load_state_dict(first.state_dict())
    for handover in (first, second):
        for k in range(200):
            handover.step(np.array([float(k % 7)]), np.array([k % 20 == 19]))
    for key, array in first.state_dict().items():
        np.testing.assert_array_equal(array, second.state_dict()[key], err_msg=key)


def test_what_was_taught_is_repeated_less_and_less():
    handover = drive(100.0, 100.0, episodes=100)
    weights = [handover.holding(at) for at in (handover.steps, handover.steps - 2_000)]
    assert 1.0 > weights[0] > weights[1] > 0.0
    assert handover.holding(0) == 0.0  # nothing was taught
    assert handover.holding(handover.steps - 100_000) == 0.0
    assert drive(0.0, 100.0, episodes=600).holding(1) == 0.0  # it has outgrown the lessons


def test_lessons_do_not_wait_for_the_first_exam_and_are_examined():
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    handover.begin(1)
    while not handover.exams.any():
        assert handover.steps < 2_000
        handover.step(np.array([1.0]), np.array([handover.steps % 100 == 99]))
        if handover.steps == 150:
            assert handover.teaching > 0.0


@pytest.mark.parametrize(("learns", "let_go"), [(False, True), (True, False)])
def test_an_agent_that_falls_again_and_again_is_let_go_where_the_explorer_has_learnt_nothing(learns, let_go):
    """It is good for a while after each lesson, and ruined by its own updates."""
    agent = {"weight": torch.zeros(1)}
    champion = Champion(lambda: agent, lambda best: agent["weight"].copy_(best["weight"]), drifts=True)
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0, champion=champion)
    handover.begin(1)
    agent["weight"] += 1.0  # it is taught
    rng = np.random.default_rng(0)
    for k in range(400):
        if handover.drivers[0]:
            mean = 100.0 if learns and k > 20 else 0.0
        else:
            mean = -100.0 if k % 40 >= 30 and not champion.untaught else 100.0 if learns else 0.0
        for t in range(50):
            handover.step(np.array([(mean + rng.normal()) * (t == 49)]), np.array([t == 49]))
    assert champion.returns_to_it >= 2
    assert handover.explorer_learnt == learns
    assert champion.untaught == let_go
    assert float(agent["weight"]) == (0.0 if let_go else 1.0)
    if let_go:
        assert handover.teaching == 0.0
        assert handover.holding(handover.steps - 1) == 0.0
