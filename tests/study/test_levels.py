"""Solved, kept and final: cheap evaluations nominate, 100 episodes from fresh starts decide."""

import dataclasses
import math
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN

from polaug.errors import InvalidInputError
from polaug.study.agents import Evaluator
from polaug.study.levels import CHECK_EVERY, KEEP_STEPS, Reached, final_level, next_check, reached, shared_budget
from polaug.study.methods import method
from polaug.study.results import Episodes, Evaluations, Run
from polaug.study.tasks import Task
from polaug.study.train import train


class Lottery(gym.Env):
    """One step, whose reward is the place where the episode starts: no agent can do anything about it."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._at = self.np_random.uniform(0, 1, 2).astype(np.float32)
        return self._at, {}

    def step(self, action):
        return self._at.copy(), float(self._at[0]), True, False, {}


if "Lottery-v0" not in gym.registry:
    gym.register("Lottery-v0", entry_point=Lottery)


def lottery(threshold):
    return Task("lottery", "Lottery-v0", threshold=threshold)


def rows(pairs):
    steps, means = zip(*pairs, strict=True)
    return Evaluations(np.array(steps), np.array(means, float), np.zeros(len(steps)))


def run(checks, *, cheap=None, threshold=-110.0, every=1000):
    """A run with these `checks`, (step, mean) pairs; cheap evaluations are the same unless given."""
    config = {"task": "Car", "method": "ppo", "seed": 0, "kind": "train", "threshold": threshold, "every": every}
    episodes = Episodes(np.array([200]), np.array([-200.0]), np.array([200]), ("agent",))
    return Run(Path("run"), config, {}, episodes, rows(cheap or checks), rows(checks))


# -- from records to a result -----------------------------------------------------------------------------------------


def test_the_solved_step_is_the_first_confirmed_one():
    found = reached(run([(250, -150), (500, -111), (750, -110), (3250, -104), (5000, -106)]))
    assert found == Reached(750, True, True, 4250, -106.0)


def test_cheap_evaluations_alone_solve_nothing():
    """Ten fixed starts had said −103 where 100 fresh ones say −122."""
    found = reached(run([(500, -122), (4000, -121)], cheap=[(250, -200), (500, -103), (4000, -103)]))
    assert found == Reached(4000, False, None, 0, -121.0)


def test_kept_is_asked_over_the_steps_after_the_solved_one():
    steps = range(5000, 41_000, 1000)
    level = dict.fromkeys(steps, -105.0)

    def kept(changed):
        return reached(run([(1000, -200.0), *(level | changed).items()])).kept

    assert kept({}) is True
    assert kept({step: -200.0 for step in steps if step > 15_000}) is False
    assert kept({step: -200.0 for step in steps if step > 5000 + KEEP_STEPS}) is True
    assert reached(run([(1000, -200.0)])).kept is None
    assert reached(run([(1000, -200.0), (2000, -110.0)])).kept is None  # nothing came after
    assert reached(run([(1000, 100), (2000, 90), (3000, 90)], threshold=100.0)).kept is True  # a tenth below
    assert reached(run([(1000, 100), (2000, 89), (3000, 90)], threshold=100.0)).kept is False


def test_kept_at_a_threshold_of_0_allows_a_tenth_of_the_way_up_to_it():
    def kept(last):
        return reached(run([(1000, -15.0), (3000, 4.5), (4000, 4.5), (5000, -7.4), (6000, last)], threshold=0.0)).kept

    assert kept(0.7) is True  # −0.7 on average, 1.5 are allowed
    assert kept(-2.0) is False


def test_a_budget_cuts_off_what_came_later():
    late = run([(9000, -104.0), (12_000, -105.0)], cheap=[(step, -150.0) for step in range(1000, 13_000, 1000)])
    assert reached(late, 8000) == Reached(8000, False, None, 0, -150.0)
    assert reached(late, 9000) == Reached(9000, True, None, 0, -150.0)  # no 100 episodes at the end of the budget
    assert final_level(late, 11_500) == -105.0  # less than one evaluation apart: the same end
    assert shared_budget([late, run([(5000, -150.0)])]) == 5000


def test_a_run_that_was_never_evaluated_is_named():
    bare = dataclasses.replace(run([(1000, -150.0)]), confirmations=None)
    with pytest.raises(InvalidInputError, match="an agent must have been evaluated, got 'run'"):
        reached(bare)


def test_when_the_hundred_episodes_are_due():
    assert next_check(250, -110.0, -110.0, None, 0)
    assert not next_check(250, -110.0, -111.0, None, 0)
    assert not next_check(250, None, math.inf, None, 0)
    assert not next_check(999 + CHECK_EVERY, -110.0, -200.0, 1000, 1000)
    assert next_check(1000 + CHECK_EVERY, -110.0, -200.0, 1000, 1000)


# -- from an environment to the records -------------------------------------------------------------------------------


def test_a_lucky_start_nominates_and_is_not_confirmed(tmp_path):
    """Of one start a third is above 0.65; the mean of a hundred never is."""
    nominated = 0
    for seed in range(6):
        result = train(lottery(0.65), "dqn", steps=100, every=50, eval_episodes=1, seed=seed, out=tmp_path)
        lucky = (result.evaluations.means >= 0.65).all()
        nominated += int(lucky)
        assert result.confirmations.steps.tolist() == ([50, 100] if lucky else [100])
        assert not reached(result).solved
        assert reached(result).final == pytest.approx(0.5, abs=0.12)
    assert 0 < nominated < 6


def test_the_first_nominated_step_that_is_confirmed_is_solved(tmp_path):
    told = []
    result = train(
        lottery(0.3), "dqn", steps=2_700, every=1000, early_every=100, eval_episodes=20, out=tmp_path,
        progress=told.append,
    )  # fmt: skip
    assert result.evaluations.steps.tolist() == [*range(100, 2701, 100)]
    assert result.confirmations.steps.tolist() == [100, 100 + CHECK_EVERY, 2_700]
    assert reached(result).steps == 100
    assert told[-1].solved_at == 100


def test_starts_are_fixed_for_cheap_evaluations_and_fresh_for_the_others():
    model = DQN("MlpPolicy", Lottery(), seed=0)
    first, again, other = (Evaluator(lottery(0.5), seed, 10, 100) for seed in (0, 0, 1))
    cheap, early, late = first.returns(model), first.confirmed(model, 500), first.confirmed(model, 750)
    assert first.returns(model).tolist() == cheap.tolist()
    assert again.confirmed(model, 500).tolist() == early.tolist()
    assert (len(cheap), len(early), len({*cheap, *early, *late})) == (10, 100, 210)
    assert not {*other.confirmed(model, 500)} & {*early}


def test_evaluations_are_close_together_at_first_unless_switched_off(tmp_path):
    options = {"steps": 7_000, "every": 1000, "eval_episodes": 1, "confirm_episodes": 1}
    idle = method("dqn").with_settings(learning_starts=10_000)  # what it learns does not matter here
    early = train(lottery(None), idle, out=tmp_path / "a", **options)
    steps = early.evaluations.steps
    assert set(np.diff(steps[steps <= 5000])) <= {250}
    assert steps[steps > 5000].tolist() == [6000, 7000]
    off = train(lottery(None), idle, out=tmp_path / "b", early_every=0, **options)
    assert off.evaluations.steps.tolist() == [*range(1000, 7001, 1000)]
    assert early.returns.tolist() == off.returns.tolist()
