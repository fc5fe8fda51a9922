"""DeepSea is bsuite's: one path pays, every step along it costs."""

import importlib
import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import polaug.study
from polaug.errors import InvalidInputError
from polaug.study.tasks import DeepSea


def play(env, rights):
    """Rewards and observations of an episode that goes right where `rights` says so."""
    observation, _ = env.reset()
    seen, rewards, terminated = [int(observation)], [], False
    for right in rights:
        row, column = divmod(seen[-1], env.size)
        action = env._right[row, column] if right else 1 - env._right[row, column]
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append(int(observation))
        rewards.append(reward)
        assert not truncated
    assert terminated
    return rewards, seen


@pytest.mark.parametrize("size", [1, 2, 20])
def test_it_passes_gymnasiums_checks(size):
    check_env(gym.make("polaug/DeepSea-v0", size=size).unwrapped)


def test_always_right_finds_the_chest_and_pays_for_the_way():
    rewards, seen = play(DeepSea(20), [True] * 20)
    assert sum(rewards) == pytest.approx(0.99)
    assert rewards[:-1] == pytest.approx([-0.01 / 20] * 19)
    assert seen[:20] == [row * 21 for row in range(20)]


def test_always_left_costs_nothing_and_finds_nothing():
    rewards, _ = play(DeepSea(20), [False] * 20)
    assert rewards == [0.0] * 20


def test_exactly_one_path_of_2_to_the_n_is_worth_it():
    env = DeepSea(8)
    totals = [sum(play(env, rights)[0]) for rights in itertools.product((False, True), repeat=8)]
    assert sum(total > 0 for total in totals) == 1
    assert min(totals) >= -0.01


def test_the_mapping_is_part_of_the_task():
    assert np.array_equal(DeepSea(10)._right, DeepSea(10)._right)
    assert not np.array_equal(DeepSea(10)._right, DeepSea(10, mapping_seed=1)._right)
    assert 0 < DeepSea(10)._right.mean() < 1
    env = DeepSea(10)
    before = env._right.copy()
    env.reset(seed=5)
    assert np.array_equal(env._right, before)


def test_it_is_registered_once():
    importlib.reload(polaug.study)  # a second registration would warn, and warnings are errors
    env = gym.make("polaug/DeepSea-v0", size=5, render_mode="ansi")
    env.reset()
    assert env.render().splitlines()[0] == "D····"
    assert env.observation_space.n == 25
    assert gym.make("polaug/DeepSea-v0").unwrapped.size == 20


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 2.5}, {"mapping_seed": -1}])
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        DeepSea(**options)
