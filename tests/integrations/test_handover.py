"""Who drives, from returns alone."""

import itertools

import numpy as np
import pytest
import torch

from polaug.config import Augmentation
from polaug.integrations.champion import Champion
from polaug.integrations.handover import Handover
from polaug.integrations.standing import Episode


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


def alike(episodes, found=None, searches=True, length=50):
    """Play episodes whose returns are all the same, but for the explorer's from the step `found` on."""
    settings = Augmentation(patience=1000)
    handover = Handover(settings, steers=True, automatic=True, searches=searches, tau_e=None, warm_up=0)
    handover.begin(1)
    for _ in range(episodes):
        reached = found is not None and handover.steps >= found and bool(handover.drivers[0])
        for t in range(length):
            handover.step(np.array([float(reached and t == length - 1)]), np.array([t == length - 1]))
    return handover


def test_while_all_returns_are_alike_the_curious_one_goes_on_and_nobody_is_taught():
    handover = alike(100)
    assert handover.explorer_steps > 0.6 * handover.steps
    assert handover.share == 0.75
    assert handover.teaching == 0.0
    assert not handover.retired
    assert alike(100, found=4_000).teaching > 0.5  # it is followed as soon as it has found something


def test_lessons_wait_for_a_second_return_only_where_nothing_has_happened():
    for rewards, taught_at_once in (([-1.0] * 50, False), ([-1.0, -2.0] * 25, True)):
        handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
        handover.begin(1)
        for t, reward in enumerate(rewards):
            handover.step(np.array([reward]), np.array([t == 49]))
        twin = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
        twin.load_state_dict(handover.state_dict())
        assert (handover.teaching > 0.0) == (twin.teaching > 0.0) == taught_at_once


def test_a_search_in_vain_ends():
    handover = alike(1_000)
    assert handover.explorer_steps < 10_000 + 0.1 * handover.steps
    assert handover.share < 0.1
    assert handover.retired
    other = alike(1_000, searches=False)  # it has no reason to find anything
    assert other.explorer_steps < 1_000 + 0.1 * other.steps


def test_patience_holds_for_six_episodes_however_long_they_are():
    """Four of 900 steps tell little about an explorer that pays for its search where to do nothing costs nothing."""
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0)
    handover.begin(1)
    rng, tried = np.random.default_rng(0), 0
    for _ in range(14):
        driven = bool(handover.drivers[0])
        tried += driven
        for t in range(900):
            handover.step(np.array([(-50.0 * driven + rng.normal()) * (t == 899)]), np.array([t == 899]))
    assert tried >= 6
    assert handover._lost


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


@pytest.mark.parametrize("who", ["drivers", "exams"])
def test_spells_go_on_to_the_bit(who):
    first = spells(10**12, 1)[1]
    for _ in range(50_000):  # until the explorer drives, or there is an exam
        if getattr(first, who)[0]:
            break
        first.step(np.ones(1), np.zeros(1, bool))
    assert getattr(first, who)[0]
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


def test_an_experienced_agent_is_examined_before_anybody_drives_or_teaches_it():
    handover = Handover(
        Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=500, experienced=True, champion=None
    )
    handover.begin(1)
    for episode in range(6):
        assert handover.exams.all()
        assert not handover.drivers.any()
        assert handover.teaching == 0.0
        twin = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=500)
        twin.load_state_dict(handover.state_dict())
        assert twin.share == handover.share == 0.0
        for t in range(20):
            handover.step(np.array([1.0 + episode]), np.array([t == 19]))
    assert handover.share > 0.0


def test_repeated_lessons_are_doubted_too_where_an_agent_had_to_be_brought_back():
    weights = {"weight": torch.zeros(1)}
    champion = Champion(lambda: weights, lambda best: weights["weight"].copy_(best["weight"]), drifts=True)
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0, champion=champion)
    handover.begin(1)
    handover.step(np.zeros(1), np.ones(1, bool))
    before = handover.holding(1)
    champion._setbacks = 1
    assert handover.holding(1) == pytest.approx(before / 2)
    champion._setbacks = 6
    assert handover.holding(1) == 0.0


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


def taught(explorer, agent, episodes=400, n=1, length=50, drifts=True):
    """An agent, with a replay buffer if it `drifts`, whose weight is 0 before its first lesson and 1 after it.

    `explorer` and `agent` give the mean returns of their episodes from the number of those so far.
    """
    weights = {"weight": torch.zeros(1)}
    champion = Champion(lambda: weights, lambda best: weights["weight"].copy_(best["weight"]), drifts=drifts)
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0, champion=champion)
    handover.begin(n)
    champion.before_lesson()
    weights["weight"] += 1.0
    rng = np.random.default_rng(0)
    for k in range(episodes):
        for t in range(length):
            last, rewards = t == length - 1, np.zeros(n)
            if last:
                means = [explorer(k) if driven else agent(k, champion) for driven in handover.drivers]
                rewards = means + rng.normal(size=n)
            handover.step(rewards, np.full(n, last))
    return handover, champion, float(weights["weight"])


def falls(level):
    """Ruined by its own updates again and again."""
    return lambda k, champion: -100.0 if k >= 80 and k % 40 >= 30 and not champion.untaught else level


def wavers():
    """An explorer that learns nothing."""
    returns = itertools.cycle([-40.0, 40.0])
    return lambda k: next(returns)


@pytest.mark.parametrize(("explorer", "level", "let_go"), [
    (wavers(), 0.0, True),  # has learnt nothing, and others were better at times
    (wavers(), 30.0, False),  # the agent is near the best that was ever seen
    (lambda k: 100.0 if k > 20 else 0.0, 100.0, False),  # has learnt
    (lambda k: 100.0, 100.0, False),  # could do it from the start: nobody was ever better
])  # fmt: skip
def test_an_agent_that_falls_again_and_again_is_let_go_where_the_explorer_has_learnt_nothing(explorer, level, let_go):
    handover, champion, weight = taught(explorer, falls(level))
    assert champion.returns_to_it >= 2
    assert handover.explorer_learnt == (level == 100.0)
    assert champion.untaught == let_go
    assert weight == (0.0 if let_go else 1.0)
    if let_go:
        assert handover.teaching == 0.0
        assert handover.holding(handover.steps - 1) == 0.0


def test_an_agent_far_above_its_teacher_is_never_started_anew():
    handover, champion, weight = taught(wavers(), falls(500.0))
    assert champion.returns_to_it >= 2
    assert handover._grown_up
    assert weight == 1.0


@pytest.mark.parametrize("n", [1, 4, 8])
def test_one_fall_counts_once_in_many_environments(n):
    """Exams under way when the agent is brought back were half driven by parameters that are gone."""
    weights = {"weight": torch.ones(1)}
    champion = Champion(lambda: weights, lambda best: weights["weight"].copy_(best["weight"]), drifts=True)
    handover = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0, champion=champion)
    handover.begin(n)
    rng, ruined = np.random.default_rng(0), np.zeros(n, dtype=bool)
    lengths, ends = np.zeros(n, dtype=int), np.arange(n) * 5 + 30  # episodes end at different times
    for t in range(20_000):
        if t == 10_000:
            weights["weight"].zero_()
        ruined |= float(weights["weight"]) == 0.0  # an episode with a ruined stretch is lost
        lengths += 1
        ended = lengths >= ends
        means = np.where(handover.drivers & (t < 200), -300.0, np.where(ruined & ~handover.drivers, -200.0, 50.0))
        handover.step(np.where(ended, means + rng.normal(size=n), 0.0), ended)
        lengths[ended], ruined[ended] = 0, False
    assert champion.returns_to_it == 1
    assert float(weights["weight"]) == 1.0


def test_a_very_bad_exam_is_followed_by_another_at_once():
    def after(total, episodes):
        """Whether an exam with this return is followed by another."""
        handover, _, _ = taught(lambda k: 0.0, lambda k, champion: 0.0, episodes=episodes, length=5)
        while not handover.exams[0]:
            handover.step(np.zeros(1), np.ones(1, dtype=bool))
        handover.step(np.full(1, total), np.ones(1, dtype=bool))
        return bool(handover.exams[0])

    many = range(100, 276, 25)  # before it is let go
    assert all(after(-500.0, episodes) for episodes in many)
    assert not any(after(0.0, episodes) for episodes in many)


@pytest.mark.parametrize(("explorer", "level", "ago", "let_go"), [
    (wavers(), 0.0, 3_000, True),
    (wavers(), 0.0, 1_000, False),  # its lessons may go on
    (wavers(), 40.0, 3_000, False),  # near the best that was ever seen
    (lambda k: 100.0 if k > 20 else 0.0, 60.0, 3_000, False),  # its teacher has learnt, and leads
])  # fmt: skip
def test_an_agent_starts_anew_after_the_lessons_of_a_teacher_that_has_learnt_nothing(explorer, level, ago, let_go):
    handover, champion, weight = taught(explorer, lambda k, champion: level, episodes=200)
    assert weight == 1.0
    handover.let_go(handover.steps - ago)
    assert champion.untaught == let_go
    if let_go:
        assert not len(handover._exams.returns)  # these were another agent's
        handover.let_go(handover.steps - ago)  # once is enough


def test_a_policy_gradient_is_let_go_as_it_is_and_hardly_disturbed_from_then_on():
    handover, champion, _ = taught(wavers(), lambda k, champion: 0.0, episodes=200, drifts=False)
    exams = handover._exams.returns.copy()
    handover.let_go(handover.steps - 3_000)
    assert champion.untaught
    assert np.array_equal(handover._exams.returns, exams)  # it is the same agent
    assert handover.share == handover._exam_share == 0.01
    assert handover.teaching == handover.holding(handover.steps - 1) == 0.0


def test_neither_a_lucky_streak_nor_a_better_start_is_learning():
    def learnt(returns, best=400.0):
        handover, _, _ = taught(lambda k: 0.0, lambda k, champion: 0.0, episodes=0)
        for total in returns:
            handover._record(Episode(0, total, 50, by_explorer=True, exam=False))
        for total in (best, -300.0, -300.0, -300.0):  # the agent was that good once
            handover._record(Episode(0, total, 50, by_explorer=False, exam=False))
        return handover.explorer_learnt

    rng = np.random.default_rng(0)
    noisy = np.concatenate([[-380.0, -348.0, -273.0], rng.normal(-250.0, 100.0, size=300)])
    assert noisy[3:].reshape(-1, 4).mean(axis=1).max() > -150.0
    assert not learnt(noisy)
    assert not learnt(noisy, best=noisy.max())
    better = np.concatenate([[-200.0, -200.0, -180.0], rng.normal(-110.0, 12.0, size=8)])
    assert learnt(better, best=-85.0)
    assert not learnt(better)  # somebody has shown that this was not much
    assert not learnt(np.full(20, -200.0))
    assert not learnt([])


def standing(explorer, agent=(), exams=()):
    """A hand-over that has seen these returns."""
    handover, _, _ = taught(lambda k: 0.0, lambda k, champion: 0.0, episodes=0)
    for returns, by_explorer, exam in ((explorer, True, False), (agent, False, False), (exams, False, True)):
        for total in returns:
            handover._record(Episode(0, float(total), 50, by_explorer=by_explorer, exam=exam))
    return handover


def test_a_high_mean_of_episodes_that_differ_widely_is_luck():
    wide = np.tile([-250.0, 250.0], 4) + 60.0  # far on the way from -200 to 310, but some were below the first
    assert not standing([-200.0, -200.0, -180.0, *wide], agent=[330.0]).explorer_learnt
    assert standing([-200.0, -200.0, -180.0, *np.full(8, 150.0)], agent=[330.0]).explorer_learnt


def test_half_of_the_way_is_not_enough_unless_the_pupil_went_on():
    half = [-200.0, -200.0, -200.0, *np.full(8, 0.0)]
    once = [200.0, -200.0, -200.0, -200.0]
    assert not standing(half, agent=once).explorer_learnt
    assert standing(half, agent=once, exams=np.full(8, 100.0)).explorer_learnt


def test_nobody_is_let_go_when_the_beginning_was_judged_in_another_way():
    handover, champion, _ = taught(wavers(), lambda k, champion: 0.0, episodes=200)
    handover._learn_limit(2_000)
    for _ in range(8):
        handover._record(Episode(0, 0.0, 2_000, by_explorer=False, exam=True))
    for _ in range(3):
        handover._record(Episode(0, 500.0, 2_000, by_explorer=False, exam=False))
    assert handover.explorer_learnt  # for all that is known
    handover.let_go(handover.steps - 3_000)
    assert not champion.untaught


def test_an_agent_that_was_taught_something_is_not_let_go():
    """Its explorer was as good from the start, so that it cannot be seen to have learnt."""
    learns = lambda k, champion: -100.0 if k < 60 else 0.0  # noqa: E731 (as the others)
    handover, champion, weight = taught(wavers(), learns, episodes=300)
    assert handover._novice.mean() < -90.0
    assert not handover.explorer_learnt
    handover.let_go(handover.steps - 3_000)
    assert not champion.untaught
    assert weight == 1.0


@pytest.mark.parametrize("drifts", [True, False])
@pytest.mark.parametrize("times", [2, 3])
def test_nobody_is_let_go_where_nothing_happens_at_first(drifts, times):
    """On MountainCar who knows nothing gets -200 again and again, and would never learn."""
    handover, champion, _ = taught(wavers(), lambda k, champion: 0.0, episodes=200, drifts=drifts)
    handover._range[0] = -200.0
    for _ in range(20):  # what comes later does not matter
        handover._record(Episode(0, -200.0, 200, by_explorer=False, exam=False))
    assert not handover._eventless
    handover._opening[:times] = -200.0
    handover.let_go(handover.steps - 3_000)
    assert champion.untaught == (times < 3)


def test_nobody_is_let_go_before_it_is_known_what_an_untaught_agent_does():
    handover, champion, _ = taught(wavers(), lambda k, champion: 0.0, episodes=200)
    handover._novice = handover._novice[:2]
    handover.let_go(handover.steps - 3_000)
    assert not champion.untaught


@pytest.mark.parametrize(("novice", "regretted"), [(-300.0, True), (-10.0, False)])
def test_what_was_taught_comes_back_if_without_it_the_agent_is_far_worse(novice, regretted):
    """Its first noisy episodes may have come after its first lessons; those of one that starts anew did not."""
    handover, champion, _ = taught(wavers(), lambda k, champion: novice if champion.untaught else 0.0, episodes=200)
    handover.let_go(handover.steps - 3_000)
    assert champion.untaught
    weights, state = champion._read(), handover.state_dict()
    assert float(weights["weight"]) == 0.0
    twin = Handover(Augmentation(), steers=True, automatic=True, tau_e=None, warm_up=0, champion=champion)
    twin.load_state_dict(state)
    for _ in range(400):
        agent = not (twin.drivers[0] or twin.exams[0])
        twin.step(np.full(1, novice if champion.untaught and agent else 0.0), np.ones(1, dtype=bool))
    assert champion.untaught != regretted
    assert float(weights["weight"]) == (1.0 if regretted else 0.0)
    twin.let_go(1)
    assert champion.untaught != regretted  # and not again
    if regretted:
        twin._range[1] = 1e6  # one return so lucky that nothing else seems to be worth anything
        for _ in range(20):
            twin.step(np.zeros(1), np.ones(1, dtype=bool))
        twin.let_go(1)
        assert not champion.untaught
        assert float(weights["weight"]) == 1.0


def test_what_was_taught_is_kept_in_the_state_until_it_is_known_what_it_was_worth():
    weights = {"weight": torch.zeros(1)}
    champion, twin = (
        Champion(lambda: weights, lambda best: weights["weight"].copy_(best["weight"]), drifts=True) for _ in range(2)
    )
    champion.before_lesson()
    weights["weight"] += 1.0
    champion.let_go()
    assert float(weights["weight"]) == 0.0
    twin.load_state_dict(champion.state_dict())
    assert twin.may_regret
    twin.regret(worth_it=True)
    assert float(weights["weight"]) == 1.0
    assert twin.taught
    assert [twin.may_regret, twin.untaught, twin.gave_up] == [False] * 3
    champion.regret(worth_it=False)
    assert champion.untaught
    assert not champion.may_regret
