"""`rnd` pays less and less for what it has seen, and in units of its own discounted sums."""

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.explorers.rnd import RNDExplorer
from polaug.testing import states_equal

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float64)
ACTIONS = spaces.Discrete(2)


def make(space=BOX, **options):
    return polaug.make_explorer("rnd", space, ACTIONS, seed=1, **options)


def arrivals(states):
    """Transitions that lead to `states` (n, d)."""
    n, none = len(states), np.zeros(len(states), dtype=bool)
    return polaug.Transitions(states, np.zeros(n, dtype=int), np.zeros(n), states, none, none)


def cloud(n=64, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def test_familiarity_shrinks_the_bonus_and_novelty_keeps_it():
    explorer = make()
    probe, far = arrivals(cloud(seed=99)), arrivals(np.array([[5.0, -5.0], [-4.0, 6.0]]))
    explorer.observe(arrivals(cloud(128)))
    early = explorer.bonus(probe).mean()
    for k in range(60):
        explorer.observe(arrivals(cloud(seed=k)))
    assert 0.0 < explorer.bonus(probe).mean() < 0.1 * early
    assert explorer.bonus(far).min() > 10 * explorer.bonus(probe).mean()
    known, new = explorer.uncertainty(cloud(seed=99)), explorer.uncertainty(far.observations)
    assert 0.0 <= known.min() < known.mean() < 0.5 < new.min() <= new.max() <= 1.0
    assert make().uncertainty(cloud()) is None


def test_a_category_never_seen_is_worth_more():
    explorer = make(spaces.Discrete(6))
    for _ in range(100):
        explorer.observe(arrivals(np.array([0, 1, 2, 3, 4] * 4)))
    bonus = explorer.bonus(arrivals(np.arange(6)))
    assert bonus[5] > 5 * bonus[:5].max()


def test_the_bonus_is_the_error_in_units_of_the_discounted_sums():
    class Noted(RNDExplorer):
        noted = ()

        def _error(self, batch):
            self.noted = (*self.noted, super()._error(batch))
            return self.noted[-1]

    explorer = Noted(BOX, ACTIONS, seed=1, beta=2.0, gamma=0.9, every=20)
    ends = np.array([True, False, False, True])
    for k in range(12):
        step = arrivals(cloud(4, seed=k))
        explorer.observe(
            polaug.Transitions(step.observations, step.actions, step.rewards, step.next_observations, ends, ~ends)
        )
    sums, running = [], np.zeros(4)
    for error in explorer.noted:  # the ends of episodes do not cut the sums
        running = 0.9 * running + error
        sums.append(running)
    probe = arrivals(cloud(3, seed=50))
    bonus = explorer.bonus(probe)
    assert bonus == pytest.approx(2.0 * explorer.noted[-1] / np.std(sums))
    assert explorer.statistics()["updates"] == 2


def test_nothing_is_paid_before_the_first_update():
    explorer = make(every=100)
    for k in range(99):
        explorer.observe(arrivals(cloud(1, seed=k)))
        assert not explorer.bonus(arrivals(cloud())).any()
    explorer.observe(arrivals(cloud(1, seed=99)))
    assert (explorer.bonus(arrivals(cloud())) > 0.0).all()


def test_the_target_stays_and_only_the_predictor_learns():
    explorer = make()
    before = {name: network.parameters.copy() for name, network in explorer._networks.items()}
    explorer.observe(arrivals(cloud(200)))
    assert np.array_equal(before["target"], explorer._networks["target"].parameters)
    assert not np.array_equal(before["predictor"], explorer._networks["predictor"].parameters)


def test_transitions_waiting_for_an_update_are_saved():
    explorer, twin = make(every=50), make(every=50)
    for k in range(30):
        explorer.observe(arrivals(cloud(1, seed=k)))
    twin.load_state_dict(explorer.state_dict())
    for k in range(30, 60):
        for one in (explorer, twin):
            one.observe(arrivals(cloud(1, seed=k)))
    assert explorer.statistics()["updates"] == 1
    assert states_equal(explorer.state_dict(), twin.state_dict())


def test_scale_and_offset_do_not_matter():
    plain, moved = make(), make()
    for k in range(10):
        plain.observe(arrivals(cloud(seed=k)))
        moved.observe(arrivals(cloud(seed=k) * 1000 + 1e4))
    probe = cloud(seed=99)
    np.testing.assert_allclose(plain.bonus(arrivals(probe)), moved.bonus(arrivals(probe * 1000 + 1e4)), rtol=1e-3)


def test_it_pays_and_does_not_steer():
    explorer = make()
    assert explorer.pays
    assert not explorer.steers
    assert explorer.q_values(np.zeros((1, 2))) is None
    explorer.observe(arrivals(np.zeros((0, 2))))
    assert explorer.steps == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [("beta", -1.0), ("gamma", 1.0), ("learning_rate", 0.0), ("hidden", 0), ("every", 0), ("clip", np.nan)],
)
def test_bad_options_are_refused(option, value):
    with pytest.raises(InvalidInputError, match=option):
        make(**{option: value})
    with pytest.raises(UnknownNameError, match="Did you mean 'hidden'"):
        make(hiden=3)
