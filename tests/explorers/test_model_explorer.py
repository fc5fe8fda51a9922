"""`model`: what it predicts, how V is solved, and what is novel or was visited before."""

import gymnasium as gym
import numpy as np
import pytest
from tests.explorers.playing import made, play

import polaug
from polaug.explorers import plan as planned
from polaug.explorers.dynamics import DynamicsOptions, fourier_features
from polaug.explorers.model_step import predict
from polaug.explorers.record import Phase, Record, RecordOptions
from polaug.features.kernels import cosines, exponentials, farthest_points, polynomial, polynomial_size


def trained(env_id, steps=600, seed=0):
    env, explorer = made(env_id, "model", seed)
    play(env, explorer, steps=steps, seed=seed)
    return explorer


def states_of(explorer, n=40):
    buffer = explorer.experience.buffer
    return buffer.states[buffer.size - n : buffer.size].copy()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_looking_ahead_is_the_same_compiled_or_not_and_is_what_the_formula_says(env_id):
    explorer = trained(env_id)
    model, newest, older = explorer.experience.dynamics.model, explorer._newest, explorer._older
    z = planned.in_units(model, states_of(explorer)[-1])
    nowhere = np.zeros((0, len(z))), np.zeros(0)
    arguments = (model, newest, older, z, 0.99, *nowhere, 0.0)
    q = planned.look_ahead(*arguments)
    np.testing.assert_allclose(planned.look_ahead.py_func(*arguments), q, rtol=1e-9)
    following, reward, ends, last_reward = predict(model, z[None])
    half = np.divide(1.0, model.inverse, out=np.zeros_like(model.inverse), where=model.inverse > 0)
    there = following[0] * half + model.centre
    value = 0.5 * (planned.values_at(newest, there) + planned.values_at(older, there))
    expected = (1 - ends[0]) * (reward[0] + 0.99 * value) + ends[0] * last_reward[0]
    np.testing.assert_allclose(q, expected, rtol=1e-6)


def test_a_value_is_the_sum_of_its_radial_basis_functions():
    plan = trained("Acrobot-v1", steps=400)._newest  # beyond four dimensions
    z = np.array([0.3, -0.2, 0.1, 0.5, -0.4, 0.2])
    squares = ((plan.centres - (z * plan.relevance)[:, None]) ** 2).sum(axis=0)
    plain = plan.weights @ np.exp(plan.slopes * squares) + plan.quadratic @ polynomial(z[None])[0]
    expected = np.clip(plan.mean + 0.5 * plain, plan.low, plan.optimum)
    assert planned.value_at(plan, z) == pytest.approx(expected, rel=1e-4)


def test_the_model_predicts_the_dynamics_of_cartpole():
    explorer = trained("CartPole-v1", steps=1200)
    buffer = explorer.experience.buffer
    variance = buffer.next_states[: buffer.size].var(axis=0)
    assert np.all(explorer.experience.dynamics._squares < 0.01 * variance)


def test_more_dimensions_have_more_fourier_features_up_to_a_bound():
    def features(d):
        return fourier_features(d, DynamicsOptions())

    assert features(1) == features(4) < features(6) < features(8) == features(20)


def test_a_dimension_of_noise_loses_its_relevance():
    class Noisy(gym.ObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (5,), np.float64)

        def observation(self, observation):
            return np.append(observation, self.env.unwrapped.np_random.normal())

    relevance = trained(Noisy(gym.make("CartPole-v1")), steps=800).experience.dynamics.frame.relevance
    assert relevance[4] < 0.3
    assert np.all(relevance[:4] > 0.7)


def test_the_engine_that_is_built_beside_takes_over_with_all_transitions():
    """Features change with the range: the new engine has seen what the old one had, and what came meanwhile."""
    env, explorer = made("CartPole-v1", "model")
    play(env, explorer, steps=1500)
    dynamics = explorer.experience.dynamics
    dynamics._reframe()
    assert dynamics._draft is not None  # more transitions than one chunk
    old = dynamics.engine
    play(env, explorer, steps=10)
    assert dynamics._draft is None
    assert dynamics.engine is not old
    assert dynamics.engine.count == explorer.experience.buffer.steps


def test_visits_wear_off_the_novelty():
    explorer = trained("MountainCar-v0", steps=300)
    plan, novelty = explorer._newest, explorer._novelty
    centres = novelty.visited / (plan.relevance * plan.inverse) + plan.centre
    unknown = explorer._uncertainty(centres, None)
    far = centres[unknown.argmax()]
    for _ in range(30):
        novelty.visit(far[None], plan.centre, plan.inverse, plan.relevance)
    assert explorer._uncertainty(far[None], None)[0] < 0.7 * unknown.max()
    novelty.write_certainty(plan.certainty)
    np.testing.assert_allclose(plan.certainty, novelty.certainty, rtol=1e-9)


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


def test_quick_functions_are_right_to_six_digits():
    x = np.linspace(-50.0, 50.0, 10_001)
    quick = x.copy()
    cosines(quick)
    np.testing.assert_allclose(quick, np.cos(x), atol=1e-6)
    x = -np.linspace(0.0, 30.0, 10_001)
    quick = x.copy()
    exponentials(quick)
    np.testing.assert_allclose(quick, np.exp(x), rtol=2e-6)
    far = np.array([-61.0, -1e3, -1e6, -1e300])
    exponentials(far)
    assert (far >= 0).all()
    assert (far < 1e-25).all()


def test_values_above_the_bound_keep_their_order():
    explorer = trained("MountainCar-v0", steps=600)
    explorer._phase = Phase.IMPROVING
    raw, plan = states_of(explorer), explorer._newest
    lifted, free = (plan._replace(mean=mean, low=-1e6, optimum=1e6) for mean in (plan.mean + 1e3, plan.mean))
    explorer._newest = explorer._older = lifted
    values = explorer.values(raw)
    assert (values.max(axis=1) <= 1e-9).all()  # no reward is positive, so no value can be
    explorer._newest = explorer._older = free
    np.testing.assert_array_equal(values.argmax(axis=1), explorer.values(raw).argmax(axis=1))


def test_rewards_that_are_all_alike_for_long_are_a_sign_of_idling():
    record = Record(1, 0.99, RecordOptions())

    class Step:
        def __init__(self, reward, ended):
            self.rewards, self.flat = np.array([reward]), np.zeros((1, 1))
            self.truncated, self.terminated = np.array([ended]), np.array([False])
            self.ended = self.truncated

        def __len__(self):
            return 1

    def pays(reward, times, ended=False):
        for k in range(times):
            record.follow(Step(reward, ended and k == times - 1))

    pays(-0.05, 1)
    pays(0.0, 300, ended=True)  # it came from worse to better, and stayed there
    assert record.phase is Phase.SEARCHING
    pays(0.0, 150, ended=True)  # too short to tell
    assert record.phase is Phase.SEARCHING
    pays(0.0, 201)
    assert record.phase is Phase.BLIND
    pays(0.0, 1000, ended=True)
    assert record.phase is Phase.SEARCHING  # a search has its time,
    pays(0.0, 300, ended=True)
    assert record.phase is Phase.SEARCHING  # and then some rest
    record.returns.best_reward = 100.0
    record.returns.survey(np.append(np.zeros(200), 100.0))
    assert record.phase is Phase.IMPROVING


# -- the revisit penalty ---------------------------------------------------------------------------------------------


@pytest.fixture
def penalising():
    """One that has a plan of MountainCar, where each step costs."""
    env = gym.make("MountainCar-v0")
    explorer = polaug.make_explorer("model", env.observation_space, env.action_space, seed=0)
    rng = np.random.default_rng(0)
    for t in range(60):
        states = rng.uniform([-1.2, -0.07], [0.6, 0.07], (2, 1, 2)).astype(np.float32)
        step(explorer, states[0], states[1], terminated=t % 10 == 9)
    assert explorer.ready
    explorer.reset()
    return explorer


def step(explorer, seen, then, actions=None, terminated=False, truncated=False):
    """One step at −1; gives what the explorer wanted."""
    wanted = explorer.act(seen)
    ends = (np.full(len(seen), flag) for flag in (terminated, truncated))
    explorer.observe(polaug.Transitions(seen, wanted if actions is None else actions, -np.ones(len(seen)), then, *ends))
    return wanted


def places(explorer, environment=0):
    return len(explorer._revisits.of(environment)[0])


HERE = np.zeros((1, 2), np.float32)


@pytest.mark.parametrize("end", ["terminated", "truncated", "reset"])
def test_penalties_end_with_the_episode(penalising, end):
    step(penalising, HERE, HERE)
    assert places(penalising) == 1
    step(penalising, HERE, HERE, **({} if end == "reset" else {end: True}))
    if end == "reset":
        penalising.reset()
    assert places(penalising) == 0


def test_nothing_is_penalised_where_somebody_else_drives(penalising):
    both = np.zeros((2, 2), np.float32)
    for _ in range(3):
        penalising.drive_only(np.array([False, True]))
        step(penalising, both, both)
    assert (places(penalising, 0), places(penalising, 1)) == (0, 1)


def test_standing_still_where_steps_cost_changes_the_values(penalising):
    here = np.zeros(2)

    def values():
        model, gamma = penalising.experience.dynamics.model, 0.99
        plans = penalising._newest, penalising._older
        return planned.optimistic_q(model, *plans, here, gamma, *penalising._revisits.of(0), 0.15)

    first = values()
    for _ in range(5):
        place = (here - penalising._newest.centre) * penalising._newest.inverse * penalising._newest.relevance
        penalising._revisits.visit(0, place, 0.0, -1.0, 0.99)
    assert (values() < first).all()
