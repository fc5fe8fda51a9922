"""Algorithm 1 against a slow and obvious version of itself on a tiny chain."""

import numpy as np
import pytest
from gymnasium import spaces
from tests.explorers.chain import ACTIONS, STATES, step, walk

import polaug

ALPHA, GAMMA = 0.5, 0.9


def make(**options):
    return polaug.make_explorer("paper", STATES, ACTIONS, seed=3, alpha=ALPHA, gamma=GAMMA, **options)


def show(explorer, transitions):
    for state, action, reward, following, terminated in transitions:
        explorer.observe(step(state, action, reward, following, terminated))


def eq_1(transitions):
    """Q and Nq of Algorithm 1, as dense matrices; yields both after each step."""
    Q, N = np.zeros((4, 2)), np.zeros((4, 2), dtype=int)
    for state, action, reward, following, terminated in transitions:
        N[state, action] += 1
        best = 0.0 if terminated else max(Q[following])
        Q[state, action] = Q[state, action] + ALPHA * (reward + GAMMA * best - Q[state, action])
        yield state, action, Q, N


def table(explorer):
    state = explorer.state_dict()
    Q, N = np.zeros((4, 2)), np.zeros((4, 2), dtype=int)
    Q[state["state.rows"]], N[state["state.rows"]] = state["state.q"], state["state.visits"]
    return Q, N


def test_q_and_counts_follow_eq_1():
    explorer, transitions = make(), list(walk(60))
    show(explorer, transitions)
    *_, (_, _, Q, N) = eq_1(transitions)
    ours, visits = table(explorer)
    np.testing.assert_allclose(ours, Q, rtol=1e-12)
    assert np.array_equal(visits, N)
    assert N.sum() == 60


def test_a_terminal_state_is_worth_nothing_and_a_truncated_one_its_value():
    explorer = make()
    explorer.observe(step(1, 0, 4.0, 0))
    explorer.observe(step(0, 1, 1.0, 1, terminated=True))
    explorer.observe(step(3, 1, 1.0, 1, truncated=True))
    Q, _ = table(explorer)
    assert Q[1, 0] == 2.0
    assert Q[0, 1] == 0.5
    assert Q[3, 1] == pytest.approx(0.5 * (1.0 + GAMMA * 2.0))


def test_completion_is_fed_q_divided_by_its_count_at_every_step():
    explorer, transitions = make(), list(walk(40))
    twin = polaug.InductiveCompletion(
        "multiplicative", lambda_1=1.0, lambda_2=1.0, tolerance=1e-4, max_iterations=100, seed=3
    )
    X, Y = np.eye(4), np.array([[-10.0], [10.0]])
    assert np.array_equal(explorer.actions.Y, Y)
    for (state, action, Q, N), transition in zip(eq_1(transitions), transitions, strict=True):
        show(explorer, [transition])
        twin.partial_fit(X, Y, state, action, float(Q[state, action] / N[state, action]))
        np.testing.assert_allclose(explorer.q_values(np.arange(4)), twin.predict(X, Y), rtol=1e-9, atol=1e-12)


def test_actions_are_greedy_on_the_completed_q():
    explorer = make()
    show(explorer, walk(40))
    visited = np.arange(3)  # 3 is terminal, never left, and all its actions are worth the same
    values = explorer.q_values(visited)
    for _ in range(5):
        assert np.array_equal(explorer.act(visited), values.argmax(axis=1))


def test_after_tau_q_the_completed_q_stays_and_the_table_goes_on():
    explorer = make(tau_q=10)
    transitions = list(walk(40))
    show(explorer, transitions[:10])
    frozen, (Q, _) = explorer.q_values(np.arange(4)), table(explorer)
    show(explorer, transitions[10:])
    assert np.array_equal(explorer.q_values(np.arange(4)), frozen)
    assert not np.array_equal(table(explorer)[0], Q)


def test_after_tau_e_actions_follow_the_table_itself():
    explorer = make(tau_e=30)
    transitions = list(walk(40))
    show(explorer, transitions[:29])
    assert not np.allclose(explorer.q_values(np.arange(4)), table(explorer)[0])
    show(explorer, transitions[29:])
    assert np.array_equal(explorer.q_values(np.arange(4)), table(explorer)[0])


def test_ties_are_broken_at_random():
    explorer = make(tau_e=0)
    explorer.observe(step(0, 1, 1.0, 1))
    unseen, seen = np.full(200, 2), np.zeros(200, dtype=int)
    share = explorer.act(unseen).mean()
    assert 0.3 < share < 0.7
    assert (explorer.act(seen) == 1).all()


def test_the_first_actions_are_random():
    explorer = make()
    assert explorer.q_values(np.zeros(1, dtype=int)) is None
    assert 0.3 < explorer.act(np.zeros(200, dtype=int)).mean() < 0.7


def episode(explorer, total):
    explorer.observe(step(0, 0, total / 2, 1))
    explorer.observe(step(1, 1, total / 2, 2, terminated=True))


def test_restart_forgets_q_and_is_counted():
    explorer = make(restart_below=0.0, restart_episodes=2)
    episode(explorer, -1.0)
    assert explorer.restarts == 0
    episode(explorer, -1.0)
    assert explorer.restarts == 1
    assert explorer.statistics()["restarts"] == 1.0
    assert explorer.q_values(np.arange(4)) is None  # the next first action is random again
    assert not table(explorer)[1].any()
    assert explorer.steps == 4  # what was spent stays spent


def test_restart_looks_at_the_first_episodes_only():
    explorer = make(restart_below=0.0, restart_episodes=2)
    for total in (-1.0, 3.0):
        episode(explorer, total)
    for _ in range(4):
        episode(explorer, -9.0)
    assert explorer.restarts == 0


def test_restart_can_happen_again_after_a_restart():
    explorer = make(restart_below=0.0, restart_episodes=1)
    for _ in range(3):
        episode(explorer, -1.0)
    episode(explorer, 1.0)
    episode(explorer, -1.0)
    assert explorer.restarts == 3


def test_without_a_value_there_is_no_restart():
    explorer = make()
    for _ in range(20):
        episode(explorer, -1e6)
    assert explorer.restarts == 0


def test_the_papers_mountain_car_has_285_rows():
    space = spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))
    options = {"hashing": "grid", "hashing_options": {"step": (0.1, 0.01)}, "spread": 10.0, "epsilon": 1.0}
    explorer = polaug.make_explorer("paper", space, spaces.Discrete(3), **options)
    assert explorer._X.shape == (285, 2)
    assert explorer.actions.Y.ravel().tolist() == [-9.0, 1.0, 11.0]


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"gamma": 1.5}, {"hashing": "fourier"}, {"restart_below": np.nan}])
def test_bad_options_are_refused(options):
    with pytest.raises(polaug.errors.InvalidInputError, match=next(iter(options))):
        polaug.make_explorer("paper", STATES, ACTIONS, **options)
