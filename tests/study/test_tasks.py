"""Tasks are records; names are found, or the nearest one is."""

import dataclasses
import pickle
import warnings

import gymnasium as gym
import pytest

from polaug.errors import InvalidInputError, UnknownNameError
from polaug.study import CLASSIC, PAPER, TASKS, Task, task


@pytest.fixture(scope="module", autouse=True)
def box2d():
    """SWIG's types warn when Box2D is first imported; as an error that crashes the interpreter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("Box2D")


@pytest.mark.parametrize("each", TASKS.values(), ids=lambda each: each.name)
def test_every_task_makes_an_environment_that_steps(each):
    env = each.make()
    env.reset(seed=0)
    env.action_space.seed(0)
    env.step(env.action_space.sample())
    env.close()
    assert each.description
    assert each.threshold is not None
    assert each.success <= each.threshold


def test_the_suites_are_the_ones_of_the_issue():
    thresholds = {each.name: each.threshold for each in CLASSIC}
    assert thresholds == {
        "CartPole-v1": 475, "MountainCar-v0": -110, "MountainCarContinuous-v0": 90, "Acrobot-v1": -100,
        "Pendulum-v1": -200, "LunarLander-v3": 200, "FrozenLake8x8": 1.0, "CliffWalking-v1": -13, "DeepSea": 0.9,
    }  # fmt: skip
    assert [each.name for each in PAPER] == ["CartPole-paper", "MountainCar-paper"]


def test_tasks_can_not_be_changed_and_can_be_sent_to_workers():
    each = TASKS["FrozenLake8x8"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        each.threshold = 0.0
    assert pickle.loads(pickle.dumps(each)) == each
    assert len({*TASKS.values()}) == len(TASKS)


@pytest.mark.parametrize("name", ["CartPole-paper", "MountainCar-paper", "CliffWalking-v1"])
def test_limits(name):
    limit = task(name).make().spec.max_episode_steps
    assert limit == (500 if name == "CliffWalking-v1" else 200)


def full_throttle(env):
    """Push with the velocity until the flag; gives the rewards."""
    observation, _ = env.reset(seed=0)
    rewards, ended = [], False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(2 if observation[1] >= 0 else 0)
        rewards.append(reward)
        ended = terminated or truncated
    return rewards, terminated


def test_the_papers_mountain_car_pays_ten_at_the_flag():
    rewards, reached = full_throttle(task("MountainCar-paper").make())
    assert reached
    assert rewards[-1] == 10.0
    assert set(rewards[:-1]) == {-1.0}
    assert len(rewards) == len(full_throttle(task("MountainCar-v0").make())[0])


def test_any_registered_environment_is_a_task():
    found = task("Taxi-v3" if "Taxi-v3" in gym.registry else "Blackjack-v1")
    assert found.make().spec.id == found.env_id
    assert task("FrozenLake-v1").threshold == gym.spec("FrozenLake-v1").reward_threshold
    assert task(found) is found
    assert task("gymnasium:CartPole-v1").env_id == "CartPole-v1"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("MountianCar-v0", "MountainCar-v0"), ("cartpole", "CartPole-v1"), ("deepsea", "DeepSea"), ("taxi", "Taxi")],
)
def test_a_typo_gets_the_nearest_name(name, nearest):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{nearest}") as told:
        task(name)
    assert "Tasks are" not in str(told.value)  # but where to see them


@pytest.mark.parametrize("name", ["Foo-v0", "ALE/Pong-v5", "x", "gymnasium:Foo-v0"])
def test_what_is_far_off_is_not_suggested(name):
    with pytest.raises(
        UnknownNameError, match=r"`polaug list` shows the tasks, gymnasium\.pprint_registry\(\)"
    ) as told:
        task(name)
    assert "Did you mean" not in str(told.value)


def test_a_suggestion_keeps_the_package():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'tests\.study\.marked_env:Marked-v0'"):
        task("tests.study.marked_env:Markd-v0")
    with pytest.raises(UnknownNameError, match="Did you mean 'gymnasium:CartPole-v"):
        task("gymnasium:CartPool-v1")


@pytest.mark.parametrize("name", ["no_such_package:Env-v0", "../evil:Env-v0", "os;x:Env-v0", ":", ""])
def test_names_that_can_not_be(name):
    with pytest.raises(InvalidInputError, match="task"):
        task(name)


def test_a_missing_dependency_says_what_to_do():
    with pytest.raises(InvalidInputError, match="choose another task"):
        Task("broken", "NoSuch-v0").make()
