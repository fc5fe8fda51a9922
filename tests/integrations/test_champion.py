"""The agent at its best is remembered, and comes back when exams say that it is gone."""

import numpy as np
import pytest
import torch

from polaug.errors import StateError
from polaug.integrations.champion import Champion


class Agent:
    """One parameter; its exams are that parameter plus noise."""

    def __init__(self):
        self.parameters = {"w": torch.zeros(1)}

    def write(self, parameters):
        for name, tensor in parameters.items():
            self.parameters[name].copy_(tensor)


def examined(champion, agent, level, n, seed=0, start=0):
    agent.parameters["w"].fill_(level)
    rng = np.random.default_rng(seed)
    return [champion.enter(level + rng.normal(), start + 100 * k, 100.0) for k in range(n)]


def test_a_clear_fall_brings_the_best_parameters_back():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    assert not any(examined(champion, agent, 50.0, 8))
    assert sum(examined(champion, agent, 20.0, 6, start=800)) == 1
    assert champion.returns_to_it == 1
    assert champion._read()["w"] == 50.0


def test_noise_and_small_losses_are_let_pass():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 8)
    assert not any(examined(champion, agent, 48.0, 20, start=800))
    assert agent.parameters["w"] == 48.0


def test_a_better_agent_is_crowned():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 20.0, 8)
    champion.changed(wholly=True)
    assert champion.on_trial
    assert not any(examined(champion, agent, 50.0, 8, start=800))
    assert champion.exams.mean() > 45.0
    champion.changed(wholly=True)
    assert any(examined(champion, agent, 20.0, 6, start=1600))
    assert agent.parameters["w"] == 50.0


def test_the_champion_is_not_the_agents_own_memory():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 6)
    agent.parameters["w"] += 1.0
    assert champion.state_dict()["best.w"] == 50.0


def test_old_exams_say_nothing_about_the_present():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 8)
    fallen = [examined(champion, agent, 20.0, 1, start=10_000 * k)[0] for k in range(1, 8)]
    assert not any(fallen)


def test_a_champion_of_another_measure_is_never_brought_back():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 8)
    champion.abdicate()
    assert champion.on_trial
    assert not len(champion.exams)
    assert not any(examined(champion, agent, 20.0, 6, start=800))


def test_its_state_goes_on_to_the_bit_and_is_checked():
    first, second = Agent(), Agent()
    champion, twin = (Champion(lambda a=a: a.parameters, a.write, drifts=True) for a in (first, second))
    examined(champion, first, 50.0, 7)
    twin.load_state_dict(champion.state_dict())
    outcomes = [examined(c, a, 20.0, 5, start=700) for c, a in ((champion, first), (twin, second))]
    assert outcomes[0] == outcomes[1]
    for key, array in champion.state_dict().items():
        np.testing.assert_array_equal(array, twin.state_dict()[key], err_msg=key)
    with pytest.raises(StateError, match="not those of this agent"):
        twin.load_state_dict(champion.state_dict() | {"best.w": np.zeros(3)})


def test_updates_that_ruin_the_agent_slow_down_until_they_make_it_better():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 8)
    paces = [champion.pace]
    for fall in range(2):
        start = 6_000 * (fall + 1)  # earlier exams are no longer fresh
        assert any(any(examined(champion, agent, 10.0, 1, start=start + 100 * k)) for k in range(6))
        examined(champion, agent, 50.0, 4, start=start + 1_000)
        paces.append(champion.pace)
    assert paces == [1, 2, 4]
    examined(champion, agent, 90.0, 6, start=30_000)
    assert champion.pace == 1
    steady = Champion(lambda: agent.parameters, agent.write, drifts=False)
    examined(steady, agent, 50.0, 8)
    steady.changed(wholly=True)
    examined(steady, agent, 10.0, 6, start=2_000)
    assert steady.returns_to_it == 1
    assert steady.pace == 1  # its updates are few and large: each stands trial by itself


def test_a_policy_gradient_whose_noisy_episodes_get_better_is_left_alone():
    for noisy, brought_back in ((-300.0, True), (-100.0, False)):
        agent = {"weight": torch.zeros(1)}
        champion = Champion(lambda agent=agent: agent, lambda best, agent=agent: agent.update(best))
        for step in range(3):
            champion.enter(-110.0, step, 1000.0, noisy=-300.0)
        champion.changed(wholly=True)
        agent["weight"] = torch.ones(1)
        fell = [champion.enter(-900.0, 10 + step, 1000.0, noisy=noisy) for step in range(4)]
        assert any(fell) == brought_back
        assert float(agent["weight"]) == (0.0 if brought_back else 1.0)


def test_after_six_returns_in_vain_a_policy_gradient_is_left_alone():
    agent = {"weight": torch.zeros(1)}
    champion = Champion(lambda: agent, agent.update)
    exams = [-110.0] * 3 + ([-900.0] * 3 + [-110.0] * 4) * 10  # it falls, is brought back, is itself for a while
    for step, total in enumerate(exams):
        if total < -500.0 and exams[step - 1] > -500.0:  # an update
            champion.changed(wholly=True)
            agent["weight"] = torch.ones(1)
        champion.enter(total, step, 1000.0)
    assert champion.returns_to_it == 6
    assert champion.gave_up
    assert float(agent["weight"]) == 1.0
    twin = Champion(lambda: agent, agent.update)
    twin.load_state_dict(champion.state_dict())
    assert twin.gave_up


def test_a_very_bad_exam_raises_the_alarm_until_the_next_speaks():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    assert not champion.alarmed(100.0)
    examined(champion, agent, 50.0, 8)
    assert not champion.alarmed(100.0)
    champion.enter(5.0, 900, 100.0)
    assert champion.alarmed(100.0)
    champion.enter(50.0, 1_000, 100.0)
    assert not champion.alarmed(100.0)


def fall_twice(champion, agent):
    examined(champion, agent, 50.0, 8)
    for fall in range(2):
        assert not champion.falls_back
        start = 6_000 * (fall + 1)
        assert any(any(examined(champion, agent, 10.0, 1, start=start + 100 * k)) for k in range(6))
        examined(champion, agent, 50.0, 4, start=start + 1_000)


def test_letting_go_gives_the_agent_back_as_it_was_before_its_lessons():
    agent, twin = Agent(), Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    agent.parameters["w"].fill_(7.0)  # loaded, or trained, before the first lesson
    champion.before_lesson()
    fall_twice(champion, agent)
    champion.before_lesson()  # the next
    assert champion.falls_back
    other = Champion(lambda: twin.parameters, twin.write, drifts=True)
    other.load_state_dict(champion.state_dict())
    twin.parameters["w"].fill_(50.0)
    for each, parameters in ((champion, agent.parameters), (other, twin.parameters)):
        each.let_go()
        assert parameters["w"] == 7.0
        assert each.untaught
        assert each.pace == 1
        assert not each.falls_back
    assert not any(examined(champion, agent, -90.0, 12, start=40_000))
    champion.before_lesson()  # taught again, and looked after again
    assert not champion.untaught
    examined(champion, agent, 50.0, 8, start=60_000)
    assert any(examined(champion, agent, 10.0, 4, start=62_000))


def test_an_agent_that_was_never_taught_has_nothing_to_forget():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    fall_twice(champion, agent)
    assert champion.returns_to_it == 2
    assert not champion.falls_back


def test_accidents_of_different_champions_are_not_added_up():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    champion.before_lesson()
    for k, level in enumerate((20.0, 60.0, 100.0)):
        examined(champion, agent, level, 8, start=20_000 * k)
        assert any(examined(champion, agent, level - 80.0, 4, start=20_000 * k + 1_000))
    assert champion.returns_to_it == 3
    assert not champion.falls_back


def test_a_collapse_right_after_a_return_is_not_the_champions():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 8)
    assert any(examined(champion, agent, 0.0, 4, start=800))
    examined(champion, agent, 0.0, 1, start=1_300)
    assert champion.exams.min() > 40.0


def test_a_policy_gradient_that_is_let_go_stays_as_it_is():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write)
    champion.before_lesson()
    assert champion.taught
    assert not any(key.startswith("initial") for key in champion.state_dict())
    agent.parameters["w"].fill_(7.0)
    champion.let_go()
    assert agent.parameters["w"] == 7.0
    assert not champion.taught
    other = Champion(lambda: agent.parameters, agent.write)
    other.load_state_dict(champion.state_dict())
    for each in (champion, other):
        assert each.untaught
        assert each.gave_up
    examined(champion, agent, 50.0, 8)
    assert not any(examined(champion, agent, -90.0, 12, start=40_000))  # and is not brought back


def stationary(returns, exams=300, seed=0):
    """An agent that never changes, whose exams have these returns by chance."""
    agent, rng = Agent(), np.random.default_rng(seed)
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    paces = []
    for k in range(exams):
        champion.enter(float(rng.choice(returns)), 100 * k, max(returns) - min(returns))
        paces.append(champion.pace)
    return champion, np.array(paces)


def test_chance_alone_does_not_stop_an_agent_from_learning():
    slowed = [(stationary([0.0, 1.0], seed=seed)[1] >= 8).mean() for seed in range(20)]
    assert np.mean(slowed) < 0.3  # 0.8 if very bad exams were never the champion's, and no return forgiven


def test_sound_exams_make_up_for_a_return():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    examined(champion, agent, 50.0, 8)
    assert any(examined(champion, agent, 20.0, 6, start=800))
    assert champion.pace == 2
    examined(champion, agent, 50.0, 12, start=1_400)
    assert champion.pace == 1


def test_the_parameters_that_are_crowned_are_like_those_that_were_examined():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    for total, step in ((500.0, 0), (12.0, 500)):  # a lesson came in between
        agent.parameters["w"].fill_(total)
        champion.enter(total, step, 488.0)
        champion.changed(wholly=False)
    assert not len(champion.exams)
    agent.parameters["w"].fill_(490.0)
    champion.enter(490.0, 1_000, 488.0)
    assert champion.state_dict()["best.w"] == 490.0


def test_a_regret_is_for_good():
    agent = Agent()
    champion = Champion(lambda: agent.parameters, agent.write, drifts=True)
    champion.before_lesson()
    assert champion.can_let_go
    agent.parameters["w"].fill_(5.0)
    champion.let_go()
    champion.regret(worth_it=True)
    assert agent.parameters["w"] == 5.0
    assert not champion.can_let_go
    champion.before_lesson()
    assert not champion.can_let_go
