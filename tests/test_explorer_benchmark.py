"""The explorer benchmark counts what it says, resumes, and its variants show the same task."""

import math

import gymnasium as gym
import numpy as np
import pytest
from benchmarks import cells
from benchmarks import explorers as benchmark
from benchmarks.variants import SCALE, VARIANTS, variant
from gymnasium import spaces

from polaug.study.statistics import interquartile_mean


def test_every_target_belongs_to_a_task_and_fits_into_its_episodes():
    for name, target in benchmark.TARGETS.items():
        assert benchmark.task_called(name).name == name
        assert target.window is None or 1 <= target.window[0] < target.window[1] == target.episodes


def test_a_cell_is_run_written_and_read_back(tmp_path):
    cell = ("default", "MountainCarContinuous-v0", "plain", "random", 3)
    short = benchmark.Target(2, 90, (1, 2))
    row = run_with(cell, short)
    assert row["episodes"] == 2
    assert row["steps"] == 2 * 999
    assert row["score"] < 0
    assert row["first_goal_episode"] == math.inf
    path = tmp_path / "deep" / "cells.csv"
    cells.append(path, row)
    cells.append(path, row | {"seed": 4})
    with path.open("a") as file:
        file.write("default,MountainCar-v0,plain,ran")  # cut short by a crash
    assert benchmark.read(path).keys() == {cell, (*cell[:4], 4)}
    assert benchmark.read(path)[cell] == row


def run_with(cell, target):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(benchmark.TARGETS, cell[1], target)
        return benchmark.run(cell, {})


def test_the_first_good_episode_needs_return_and_length():
    cell = ("default", "FrozenLake8x8", "plain", "tabular", 0)
    any_length = run_with(cell, benchmark.Target(40, 30, enough=1.0))
    shortest = run_with(cell, benchmark.Target(40, 30, enough=1.0, longest=14))
    impossible = run_with(cell, benchmark.Target(40, 30, enough=1.0, longest=13))
    assert any_length["score"] == any_length["first_goal_episode"] <= shortest["score"] <= 40
    assert impossible["score"] == math.inf


def test_targets_are_met_from_the_right_side():
    assert benchmark.TARGETS["MountainCar-v0"].met(-106.0)
    assert not benchmark.TARGETS["MountainCar-v0"].met(-107.0)
    assert benchmark.TARGETS["DeepSea"].met(43)
    assert not benchmark.TARGETS["DeepSea"].met(math.inf)
    assert benchmark.TARGETS["LunarLander-v3"].met(-100.0) is None


def test_the_interquartile_mean_leaves_out_the_quarters():
    assert interquartile_mean([0, 1, 2, 100]) == 1.5
    assert interquartile_mean([0, 1, 2, math.inf]) == 1.5
    assert benchmark.first([False, True, True]) == 2
    assert benchmark.first([False]) == math.inf


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("task", benchmark.ROBUSTNESS_TASKS)
def test_variants_are_the_same_task(task, name):
    plain, other = gym.make(task), variant(gym.make(task), name, seed=0)
    first, _ = plain.reset(seed=1)
    shown, _ = other.reset(seed=1)
    assert other.observation_space.contains(shown)
    for action in (0, 1, 1, 0):
        first, reward, *ends = plain.step(action)
        shown, scaled, *other_ends = other.step(action)[:4]
        if name == "noisy rewards":
            assert 0.0 < abs(scaled - reward) < 2.5
        else:
            assert scaled / SCALE.get(name, 1.0) == pytest.approx(reward)
        assert ends[:2] == other_ends
        seen = shown[::-1] if name == "reordered" else shown[: len(first)]
        seen = (seen - 1e6) / 1e3 if "1000" in name else seen
        np.testing.assert_allclose(seen, first, atol=1e-6)


def test_discrete_tasks_run_with_permuted_ids_in_a_column_of_their_own(capsys):
    rows = []
    for kind in ("plain", benchmark.IDS_PERMUTED):
        rows.append(run_with(("default", "FrozenLake8x8", kind, "random", 0), benchmark.Target(2, 30, enough=1.0)))
    benchmark.print_targets(rows, "default")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FrozenLake8x8")]
    assert line.count("inf") == 7  # score, its range and the first goal; with permuted ids the score and its range
    assert all(isinstance(benchmark.task_called(name).make().observation_space, spaces.Discrete)
               for name in benchmark.DISCRETE)  # fmt: skip


def test_one_reading_is_broken_once():
    env = variant(gym.make("MountainCar-v0"), "broken reading", seed=0)
    assert [env.reset(seed=1)[0][1] > 1.0 for _ in range(4)] == [False, True, False, False]
