"""Policy search: linear policies that mean the same in all units, judged by rollouts that say what the model says."""

import numpy as np
import pytest
from tests.explorers.playing import made, play

from polaug.explorers.plan import q_at
from polaug.explorers.policy_search import Policy
from polaug.explorers.rollout import linear_returns, plan_return


def test_it_balances_the_pole_alone():
    env, explorer = made("CartPole-v1", "policy_search")
    returns, _ = play(env, explorer, episodes=30)
    assert max(returns) >= 400


def searched(steps=400):
    env, explorer = made("CartPole-v1", "policy_search")
    play(env, explorer, steps=steps)
    assert explorer.ready
    return env, explorer


def test_rollouts_are_the_same_compiled_or_not():
    _, explorer = searched(150)
    model, rng = explorer.experience.dynamics.model, np.random.default_rng(0)
    weights, starts = rng.standard_normal((2, 2, 5)), 0.1 * rng.standard_normal((2, 4))
    arguments = (model, weights, starts, np.zeros((2, 10, 4)), rng.standard_normal((4, 9)), 100.0, 1.0)
    compiled, plain = np.zeros(2), np.zeros(2)
    assert linear_returns(*arguments, compiled) == linear_returns.py_func(*arguments, plain)
    np.testing.assert_allclose(compiled, plain, rtol=1e-6)


def test_policies_survive_a_change_of_units():
    _, explorer = searched()
    states = np.random.default_rng(0).normal(scale=0.05, size=(100, 4))
    before, model = explorer.values(states), explorer.experience.dynamics.model
    explorer._reframe(model._replace(centre=model.centre + 0.3, inverse=model.inverse * 0.7))
    np.testing.assert_allclose(explorer.values(states), before, atol=1e-9)


def test_a_rollout_of_a_plan_goes_where_its_values_are_highest():
    env, explorer = made("CartPole-v1", "model")
    play(env, explorer, steps=300)
    model, plan = explorer.experience.dynamics.model, explorer._newest
    starts = explorer.experience.record.starts(2, np.random.default_rng(0))
    expected = 0.0
    for start in starts:
        state, alive = start.copy(), 1.0
        for _ in range(15):
            best = int(q_at(model, plan, explorer._older, state[None], 0.99)[0].argmax())
            z = np.clip((state - model.centre) * model.inverse, -1.2, 1.2)
            weights = np.zeros((1, 2, 5))
            weights[0, best, 0] = 1.0  # the policy that always does this
            total = np.zeros(1)
            linear_returns(model, weights, z[None], np.zeros((1, 1, 4)), np.zeros((4, 1)), 1e300, 0.0, total)
            following, reward, ends, last = predicted(model, z, best)
            assert total[0] == pytest.approx((1 - ends) * reward + ends * last)
            expected += alive * total[0]
            alive *= 1.0 - ends
            state = following / model.inverse + model.centre
    measured = plan_return(model, plan, explorer._older, starts, 0.99, 15)
    assert measured == pytest.approx(expected / 2, rel=1e-3)


def predicted(model, z, action):
    from polaug.explorers.model_step import predict

    following, reward, ends, last = predict(model, z[None])
    return following[0, action], reward[0, action], ends[0, action], last[0, action]


def test_what_a_policy_really_returned_outweighs_what_was_predicted():
    _, explorer = searched()
    explorer._bias = 0.0
    good, lucky = Policy(explorer.best.theta, 100.0, plays=4, total=2000.0), Policy(explorer.best.theta, 400.0, 4, 40.0)
    explorer._archive = [lucky, good]
    assert explorer.best is good


def test_searching_costs_in_proportion_to_the_steps_that_were_driven():
    env, explorer = made("CartPole-v1", "policy_search", search={"first_credit": 1000.0, "credit": 10.0})
    play(env, explorer, steps=300)
    assert explorer._credit >= -4 * 400 * 24  # at most one batch beyond what was earned
    assert explorer._round < 10
