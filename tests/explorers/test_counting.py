"""`counting` pays more for what was seen less."""

import numpy as np
import pytest
from gymnasium import spaces

import polaug

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float64)
ACTIONS = spaces.Discrete(2)


def make(space=BOX, **options):
    return polaug.make_explorer("counting", space, ACTIONS, seed=1, **options)


def arrivals(states):
    """Transitions that lead to `states` (n, d)."""
    n, none = len(states), np.zeros(len(states), dtype=bool)
    return polaug.Transitions(states, np.zeros(n, dtype=int), np.zeros(n), states, none, none)


def cloud(n=400, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2)) * 0.3


def test_a_new_state_is_worth_more_than_a_worn_one():
    explorer = make()
    explorer.observe(arrivals(cloud()))
    worn, new = explorer.bonus(arrivals(np.array([[0.0, 0.0], [5.0, -4.0]])))
    assert new > worn > 0.0


def test_the_bonus_falls_with_the_root_of_the_count():
    explorer = make(spaces.Discrete(5), beta=2.0)
    for n in range(1, 10):
        explorer.observe(arrivals(np.array([3])))
        assert explorer.bonus(arrivals(np.array([3])))[0] == pytest.approx(2.0 / np.sqrt(n))


def test_the_batch_is_counted_first_and_queried_after():
    explorer = make(spaces.Discrete(5), beta=1.0)
    batch = arrivals(np.array([2, 2, 2, 2]))
    explorer.observe(batch)
    assert explorer.bonus(batch) == pytest.approx(0.5)  # all four see the count of four


def test_asking_does_not_count():
    explorer = make()
    explorer.observe(arrivals(cloud()))
    first = explorer.bonus(arrivals(cloud()))
    assert np.array_equal(first, explorer.bonus(arrivals(cloud())))


def test_the_count_is_the_least_over_the_tables():
    explorer = make(tables=3)
    explorer.observe(arrivals(cloud()))
    state = np.zeros((1, 2))
    true = explorer.counts(state)[0]
    slots = explorer._slots(state)[0]
    for k in (0, 2):  # collisions in all tables but one
        explorer._counts[k][int(slots[k])] += 1000
    assert explorer.counts(state)[0] == true


def test_scale_and_offset_do_not_matter_once_the_scale_is_known():
    plain, moved = make(), make()
    for k in range(10):
        plain.observe(arrivals(cloud(seed=k)))
        moved.observe(arrivals(cloud(seed=k) * 1000 + 1e6))
    probe = cloud(200, seed=99)
    ours, theirs = plain.counts(probe), moved.counts(probe * 1000 + 1e6)
    assert np.mean(ours == theirs) > 0.98  # rounding at 1e6 may move a state across a plane
    assert len(set(ours.tolist())) > 5


def test_a_count_survives_every_change_of_scale():
    """One of ten steps leads to the same state, the others ever farther: the scale is refreshed again and again."""
    explorer, state = make(), np.array([[0.3, -0.2]])
    rng, visits, changes = np.random.default_rng(0), 0, 0
    for t in range(1, 3001):
        scale = explorer._hash._scaler.half_width.copy()
        here = t % 10 == 0
        visits += here
        explorer.observe(arrivals(state if here else rng.normal(size=(1, 2)) * (1 + t / 100)))
        changes += not np.array_equal(scale, explorer._hash._scaler.half_width)
        if t > 20:
            assert explorer.counts(state)[0] >= 0.9 * visits
    assert changes > 10


def test_counts_are_as_many_as_observations_after_any_change_of_scale():
    explorer = make()
    for k in range(1, 41):
        explorer.observe(arrivals(cloud(10, seed=k) * k))
        assert all(sum(table.values()) == 10 * k for table in explorer._counts)


@pytest.mark.parametrize(
    ("space", "states"),
    [
        (spaces.Discrete(500, start=-3), np.arange(-3, 497)),
        (spaces.MultiDiscrete([20, 30]), np.stack(np.divmod(np.arange(600), 30), axis=1)),
        (spaces.MultiBinary(5), (np.arange(32)[:, None] >> np.arange(5) & 1).astype(np.int8)),
    ],
    ids=["Discrete", "MultiDiscrete", "MultiBinary"],
)
def test_every_category_has_a_count_of_its_own(space, states):
    explorer = make(space)
    times = np.arange(len(states)) % 7
    for k in range(6):
        explorer.observe(arrivals(states[times > k]))
    assert np.array_equal(explorer.counts(states.reshape(len(states), -1)), times)


def test_combinations_that_are_never_seen_twice_are_hashed():
    rng, explorer = np.random.default_rng(0), make(spaces.MultiBinary(100), bits=4)
    explorer.observe(arrivals(rng.integers(2, size=(500, 100), dtype=np.int8)))
    assert explorer.counts(rng.integers(2, size=(50, 100), dtype=np.int8)).min() > 0


def test_it_pays_and_does_not_steer():
    explorer = make()
    assert explorer.pays
    assert not explorer.steers
    assert explorer.q_values(np.zeros((1, 2))) is None
    assert make(beta=0.0).bonus(arrivals(np.zeros((1, 2)))) == 0.0
