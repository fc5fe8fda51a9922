"""The completed Q: fast kernel and matrix form agree, observed pairs keep their word, unknown states are hoped for."""

import gymnasium as gym
import numpy as np
import pytest

import polaug
from polaug.exploration import imagination, look_ahead
from polaug.exploration.base import Batch
from polaug.exploration.geometry import farthest_points, polynomial, polynomial_size


def trained(env_id, steps=600, seed=0):
    env = gym.make(env_id)
    explorer = polaug.make_explorer("model", env.observation_space, env.action_space, seed=seed)
    observation, _ = env.reset(seed=seed)
    states = []
    for _ in range(steps):
        states.append(observation)
        action = explorer.act(observation[None])[0]
        following, reward, terminated, truncated, _ = env.step(action)
        step = (observation[None], action[None], np.array([float(reward)]), following[None])
        explorer.observe(polaug.Transitions(*step, np.array([terminated]), np.array([truncated])))
        observation = env.reset()[0] if terminated or truncated else following
    return explorer, np.array(states)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("kernel", ["compiled", "python"])
def test_looking_ahead_equals_the_matrix_form(env_id, kernel):
    explorer, states = trained(env_id)
    look = look_ahead.look_ahead if kernel == "compiled" else look_ahead.look_ahead.py_func
    laws, vision = explorer._member._visions[0]
    many = states[-look_ahead.FEW - 4 :].astype(float)  # of a few the matrix form would be a loop too
    z = np.clip((many - laws.centre) * laws.inverse, -3.0, 3.0)
    expected = look_ahead.values_of(laws, vision, z, 0.99)
    for row, wanted in zip(z, expected, strict=True):
        q = np.zeros(len(wanted))
        look(laws, vision, row, 0.99, q, np.zeros(len(q)), np.zeros((len(q), len(row))), True)
        np.testing.assert_allclose(q, wanted, rtol=1e-4, atol=1e-4 * (vision.optimum - vision.low))


def test_the_model_predicts_the_dynamics_of_cartpole():
    explorer, _ = trained("CartPole-v1", steps=1200)
    dynamics = explorer._member.dynamics
    variance = dynamics._store.next_states[: dynamics._store.size].var(axis=0)
    assert np.all(dynamics._error < 0.01 * variance)


def test_more_dimensions_have_more_waves_up_to_a_bound():
    def waves(d):
        space, actions = gym.spaces.Box(-1.0, 1.0, (d,)), gym.spaces.Discrete(2)
        return len(polaug.make_explorer("model", space, actions)._member.dynamics._phases)

    assert waves(1) == waves(4) < waves(6) < waves(8) == waves(20)


@pytest.mark.parametrize(("name", "few", "many"), [("optimistic", (1_500, 2_000), (4_500, 5_500)),
                                                   ("model", (1_000, 2_000), (8_000, 10_000))])  # fmt: skip
def test_refits_become_rarer_the_more_there_is(name, few, many):
    """So that a step costs the same: a refit costs in proportion to what is stored."""
    env = gym.make("CartPole-v1")
    explorer = polaug.make_explorer(name, env.observation_space, env.action_space, seed=0)
    rng, fits = np.random.default_rng(0), []
    for _ in range(many[1] // 50):
        states = rng.uniform(-0.2, 0.2, (50, 4)).astype(np.float32)
        step = (states, rng.integers(2, size=50), np.ones(50), states + 0.01, np.zeros(50, bool), np.zeros(50, bool))
        explorer.observe(polaug.Transitions(*step))
        at = explorer._fit_at if name == "optimistic" else explorer._member._fit_at
        if not fits or at != fits[-1]:
            fits.append(at)

    def interval(window):
        return np.mean(np.diff([at for at in fits if window[0] <= at <= window[1]]))

    assert interval(many) >= 2.0 * interval(few)


def test_a_noise_dimension_loses_its_relevance():
    class Noisy(gym.ObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float64)

        def observation(self, observation):
            return np.append(observation, self.env.unwrapped.np_random.normal())

    gym.register("NoisyCartPole-v0", entry_point=lambda: Noisy(gym.make("CartPole-v1")))
    explorer, _ = trained("NoisyCartPole-v0", steps=600)
    relevance = explorer._member.dynamics.laws.relevance
    assert relevance[4] < 0.3
    assert np.all(relevance[:4] > 0.7)


def test_visits_wear_off_the_novelty():
    explorer, _ = trained("MountainCar-v0", steps=300)
    laws, vision = explorer._member._visions[0]
    vision = vision._replace(known=0.1, novel=1.0)  # not those of a search that has seen all around it
    z = np.array([1.2, 0.7])  # a corner of what was seen
    far = z / laws.inverse + laws.centre
    novelty = [np.zeros(3), np.zeros(3)]
    look_ahead.look_ahead(laws, vision, np.clip(z, -3, 3), 0.99, np.zeros(3), novelty[0], np.zeros((3, 2)), True)
    for _ in range(30):
        look_ahead.count_visit(laws, vision, far)
    look_ahead.look_ahead(laws, vision, np.clip(z, -3, 3), 0.99, np.zeros(3), novelty[1], np.zeros((3, 2)), True)
    assert novelty[0].max() > 0.5
    assert novelty[1].max() < novelty[0].max()


def test_farthest_points_cover():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 3))
    order, radius = farthest_points(z, 40, 0)
    assert len(set(order.tolist())) == 40
    distances = np.linalg.norm(z[:, None] - z[order][None], axis=2).min(axis=1)
    assert distances.max() == pytest.approx(radius[-1])
    assert np.all(np.diff(radius) <= 1e-12)


@pytest.mark.parametrize("d", [1, 3, 8, 9])
def test_polynomial_has_all_products_up_to_eight_dimensions(d):
    z = np.random.default_rng(0).standard_normal((4, d))
    p = polynomial(z)
    assert p.shape == (4, polynomial_size(d))
    np.testing.assert_array_equal(p[:, : 1 + d], np.column_stack([np.ones(4), z]))
    if d <= 8:
        products = [z[:, a] * z[:, b] for a in range(d) for b in range(a, d)]
        np.testing.assert_allclose(p[:, 1 + d :], np.column_stack(products))


def test_values_above_the_bound_keep_their_order():
    explorer, states = trained("MountainCar-v0", steps=400)
    member = explorer._member
    raw = states[:50].astype(float)
    laws, vision = member._visions[0]
    member._visions = [(laws, vision._replace(mean=vision.mean + 1e3, low=-1e6, optimum=1e6))]
    lifted = member.values(raw)
    assert (lifted.max(axis=1) <= 1e-9).all()  # no reward is positive, so no value can be
    assert (lifted.std(axis=1) > 0).all()
    member._visions = [(laws, vision._replace(low=-1e6, optimum=1e6))]
    np.testing.assert_array_equal(lifted.argmax(axis=1), member.values(raw).argmax(axis=1))


def test_a_search_never_takes_everything_for_known():
    """Small steps lead to near neighbours only: without a threshold of its own, all of them would count as known."""
    near, far = np.array([0.0, 0.01, 0.03]), np.array([0.0, 0.01, 0.6])
    known, novel = imagination.thresholds(near, imagination.LOST)
    assert known < 0.03
    assert novel == pytest.approx(0.03)
    assert imagination.thresholds(far, imagination.LOST) == (0.1, 1.0)
    assert imagination.thresholds(near, imagination.SEARCHING) == (0.1, 1.0)
    assert imagination.thresholds(near, imagination.FOUND) == (0.1, 1.0)
    assert imagination.thresholds(np.zeros(3), imagination.LOST) == (0.1, 1.0)


def test_rewards_that_are_all_alike_for_long_are_a_sign_of_idling():
    explorer, _ = trained("MountainCarContinuous-v0", steps=150)
    member = explorer._member
    assert member._at_stake  # effort has cost something, nothing has paid yet
    assert not member._found

    def pays(reward, times, ended=False, asked=True):
        for k in range(times):
            member._ask(0)
            member._asked[0] = asked
            state, action = np.zeros((1, 2)), np.zeros(1, dtype=np.int64)
            last = np.array([ended and k == times - 1])
            step = (state, action, np.zeros((1, 3)), np.array([reward]), state, last & False, last, state, state)
            member._watch_for_idling(Batch(*step))

    pays(-0.05, 1)
    pays(0.0, 300, ended=True)  # it came from worse to better, and stayed there
    assert not member._lost
    pays(0.0, 150, ended=True)  # too short to tell
    pays(0.0, 300, asked=False)  # somebody else stood still
    assert not member._lost
    pays(0.0, 201)
    assert member._lost
    until = member._lost_until
    pays(0.0, 150, ended=True)
    pays(0.0, 300)
    assert member._lost_until == until  # a search has its time, and then some rest
    member._store.steps = until + 2_000
    assert not member._lost
    pays(0.0, 10, ended=True)
    pays(0.0, 201)
    assert member._lost_until == until + 3_000
    member._returns.best_reward = 100.0
    member._returns.survey(np.append(np.zeros(200), 100.0))
    assert member._found
    assert not member._lost  # who has found something may stand still
