"""A task with permuted ids is the same task under other names."""

import gymnasium as gym
import numpy as np
import pytest
from benchmarks.variants import PERMUTED, PermutedIds

from polaug.errors import InvalidInputError
from polaug.study import task


def test_every_observation_and_action_has_one_other_name():
    names = {}
    rng = np.random.default_rng(0)
    env, twin = PermutedIds(task("CliffWalking-v1").make(), 3), PermutedIds(task("CliffWalking-v1").make(), 3)
    env.reset(seed=0)
    twin.reset(seed=0)
    assert env.observation_space == task("CliffWalking-v1").make().observation_space
    for action in rng.integers(4, size=200).tolist():
        seen, reward, *_ = env.step(action)
        assert (seen, reward) == twin.step(action)[:2]
        assert env.observation_space.contains(seen)
        place = int(env.unwrapped.s)
        assert names.setdefault(place, seen) == seen
    assert len(set(names.values())) == len(names) > 10


def test_another_seed_permutes_otherwise_and_actions_too():
    def moves(seed):
        env = PermutedIds(task("CliffWalking-v1").make(), seed)
        places = []
        for action in range(4):
            env.reset(seed=0)
            env.step(action)
            places.append(int(env.unwrapped.s))
        return tuple(places), int(env.reset(seed=0)[0])

    kinds = {moves(seed) for seed in range(8)}
    assert len({names for _, names in kinds}) > 3
    assert len({places for places, _ in kinds}) > 1


def test_numbers_have_no_ids():
    with pytest.raises(InvalidInputError, match="Discrete"):
        PermutedIds(gym.make("CartPole-v1"), 0)


@pytest.mark.parametrize("name", PERMUTED)
def test_comparisons_know_the_permuted_tasks_by_name(name):
    plain, other = task(name).make(), task(PERMUTED[name]).make()
    assert other.observation_space == plain.observation_space
    assert other.action_space == plain.action_space
    starts = [env.reset(seed=0)[0] for env in (plain, other, task(PERMUTED[name]).make())]
    assert starts[0] != starts[1] == starts[2]
