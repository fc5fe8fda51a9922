"""What the model promises: compiled loops say what the plain one says, and their quick functions are right."""

import gymnasium as gym
import numpy as np
import pytest
from tests.exploration.test_committee import committee, play

import polaug
from polaug.exploration.geometry import cosines, exponentials
from polaug.exploration.promise import imagined_return


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


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0"])
@pytest.mark.parametrize("steps", [60, 1500])
def test_compiled_promises_are_those_of_the_plain_loop(env_id, steps):
    env, explorer = committee(env_id)
    play(env, explorer, steps=steps)
    model, linear = explorer._members["model"], explorer._members["linear"]
    assert (len(model._visions) < 4) == (steps == 60)  # also while there are fewer than it keeps
    laws = model.dynamics.laws
    starts = explorer._linear.sample_starts(4)
    if not linear._archive:
        linear.search(starts[0])
    for member in (model, linear):
        plain = imagined_return(laws, member.values, starts, 100)
        assert member.promise(laws, starts, 100) == pytest.approx(plain, rel=1e-3)


def test_a_linear_member_without_policies_promises_what_its_values_do():
    env, explorer = committee("CartPole-v1")
    play(env, explorer, steps=40)
    linear, laws = explorer._members["linear"], explorer._model.dynamics.laws
    assert not linear._archive
    starts = explorer._linear.sample_starts(2)
    assert linear.promise(laws, starts, 20) == imagined_return(laws, linear.values, starts, 20)


def test_a_committee_chooses_a_teacher_only_for_those_who_learn(tmp_path):
    judged = {}
    for teaches in (False, True):
        env, explorer = committee("CartPole-v1")
        explorer.teaches = teaches
        play(env, explorer, steps=4000)
        assert explorer._contest.best() == "linear"  # else there is nothing to choose
        judged[teaches] = explorer._teacher._judged_at
        assert explorer.q_values(np.zeros((3, 4), dtype=np.float32)).shape == (3, 2)  # whoever asks gets an answer
    assert judged[False] == 0
    assert judged[True] > 0
    explorer.save(tmp_path / "explorer.npz")
    env, other = committee("CartPole-v1")
    other.load(tmp_path / "explorer.npz")
    assert other.teaches


def test_lessons_say_that_the_explorer_teaches():
    ppo = pytest.importorskip("stable_baselines3").PPO
    model = polaug.augment(ppo)("MlpPolicy", gym.make("CartPole-v1"), n_steps=64)
    assert model.explorer.teaches
    settings = polaug.Augmentation(transfer="as_published")
    model = polaug.augment(ppo)("MlpPolicy", gym.make("CartPole-v1"), n_steps=64, augmentation=settings)
    assert not model.explorer.teaches
