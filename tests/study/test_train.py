"""One cell: counted to the step, the same every time, undisturbed by those who watch."""

import csv
import importlib
import json
import math

import numpy as np
import pytest
from numba.core import event
from stable_baselines3 import DQN, PPO

from polaug.errors import InvalidInputError
from polaug.study import agents, maps, tasks
from polaug.study.folder import run_path
from polaug.study.results import read_run
from polaug.study.tasks import Task
from polaug.study.train import train

train_module = importlib.import_module("polaug.study.train")
MARKED = "tests.study.marked_env:Marked-v0"


def run(out, method="dqn", task="CartPole-v1", **options):
    settings = {"steps": 300, "every": 100, "eval_episodes": 2, "early_every": None, "confirm_episodes": 3} | options
    return train(task, method, out=out, **settings)


def without_seconds(path):
    """Every file of a run, the columns and entries of time left out."""
    files = {file.name: file.read_bytes() for file in path.iterdir() if file.name not in ("clock.csv", "done.json")}
    done = json.loads((path / "done.json").read_text())
    return files, {key: value for key, value in done.items() if "seconds" not in key}


def test_a_run_folder_has_everything(tmp_path):
    result = run(tmp_path)
    assert result.path == run_path(tmp_path, "CartPole-v1", "dqn", 0)
    assert result.done["steps"] == 300
    assert result.evaluations.steps.tolist() == [100, 200, 300]
    assert result.clock.steps.tolist() == [100, 200, 300]
    assert (np.diff(result.clock.seconds) > 0).all()
    assert result.done["episodes"] == len(result.returns) > 0
    assert set(result.episodes.actors) == {"agent"}
    assert result.episodes.lengths.sum() <= 300
    assert (np.cumsum(result.episodes.lengths) == result.steps).all()
    config = result.config
    assert (config["kind"], config["method"], config["task"], config["seed"]) == ("train", "dqn", "CartPole-v1", 0)
    assert config["versions"].keys() >= {"polaug", "torch", "stable_baselines3"}
    assert result.maps is not None
    assert (result.path / "maps.npz").stat().st_mode & 0o777 == 0o644
    assert not (result.path / "model.zip").exists()


def test_the_clock_stands_still_while_numba_compiles(tmp_path, monkeypatch):
    """A made-up compilation of 1,000 seconds at every step: a clock that counted it would be far ahead, this one is
    far behind, since those seconds never passed."""
    now = iter(range(0, 10**9, 1000))
    observe = maps.MapRecorder.observe

    def compiling(*args):
        with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
            pass  # one within another counts once
        observe(*args)

    monkeypatch.setattr(event, "timer", lambda: float(next(now)))
    monkeypatch.setattr(maps.MapRecorder, "observe", compiling)
    result = run(tmp_path)
    assert result.clock.seconds == pytest.approx([-1e5, -2e5, -3e5], rel=0.01)
    assert result.done["seconds"] == pytest.approx(-3e5, rel=0.01)
    assert result.done["compile_seconds"] == 3e5


@pytest.mark.parametrize("method", ["a2c", "dqn+pa"])
def test_the_same_seed_repeats_to_the_bit_and_another_differs(tmp_path, method):
    first, again = run(tmp_path / "a", method), run(tmp_path / "b", method)
    assert without_seconds(first.path) == without_seconds(again.path)
    other = run(tmp_path / "c", method, seed=1)
    assert other.returns.tolist() != first.returns.tolist()


@pytest.mark.parametrize("method", ["a2c", "dqn+pa"])
def test_watching_does_not_change_the_run(tmp_path, method, monkeypatch):
    often = run(tmp_path / "a", method, every=30)
    monkeypatch.setattr(maps.MapRecorder, "of", classmethod(lambda cls, *args, **options: None))
    seldom = run(tmp_path / "b", method, every=300)
    assert (often.path / "episodes.csv").read_bytes() == (seldom.path / "episodes.csv").read_bytes()
    assert often.evaluations.means[-1] == seldom.evaluations.means[-1]


def test_the_same_agent_gets_the_same_evaluation(tmp_path):
    """PPO does not learn in its first 2048 steps, so that all evaluations are of one agent."""
    means = run(tmp_path, "ppo").evaluations.means
    assert len(set(means)) == 1


def test_every_environment_counts(tmp_path):
    result = run(tmp_path, "ppo-tuned", steps=300)  # eight environments
    assert result.done["steps"] == 304
    assert result.steps[-1] <= 304
    assert (result.steps % 8 == 0).all()
    assert result.episodes.lengths.sum() <= 304


def test_normalised_agents_are_told_in_raw_numbers(tmp_path):
    result = run(tmp_path, "a2c-tuned", "MountainCar-v0", steps=3_400, every=3_400)
    assert (result.returns == -200).all()
    assert -200 <= result.evaluations.means[0] < -80
    assert (2 * result.evaluations.means[0]).is_integer()  # two episodes of −1 a step


def test_both_budgets_are_kept(tmp_path):
    by_episodes = run(tmp_path / "a", task=MARKED, steps=None, episodes=7)
    assert (by_episodes.done["episodes"], by_episodes.done["steps"]) == (7, 140)
    assert run(tmp_path / "b", task=MARKED, steps=50, episodes=7).done["steps"] == 140
    both = run(tmp_path / "c", task=MARKED, steps=150, episodes=7)
    assert (both.done["episodes"], both.done["steps"]) == (7, 150)
    assert both.evaluations.steps.tolist() == [100, 150]
    with pytest.raises(InvalidInputError, match="steps or episodes"):
        run(tmp_path / "d", steps=None)


@pytest.fixture
def rates(monkeypatch):
    """The learning rate of every update, and the environment steps before it."""
    seen, update = [], PPO.train

    def train(self):
        update(self)
        seen.append((self.num_timesteps, self.policy.optimizer.param_groups[0]["lr"]))

    monkeypatch.setattr(PPO, "train", train)
    return seen


def test_schedules_end_with_the_steps(tmp_path, rates):
    result = run(tmp_path, "ppo-tuned", steps=2_560, every=2_560)  # ten rollouts of 8 × 32 steps
    assert result.done["steps"] == 2_560
    assert rates == [(256 * k, pytest.approx(1e-3 * (1 - k / 10))) for k in range(1, 10)]


@pytest.mark.parametrize(("method", "episodes"), [("ppo-tuned", 120), ("ppo-tuned+pa", 50)])
def test_schedules_stay_at_their_end_while_episodes_are_missing(tmp_path, rates, method, episodes):
    result = run(tmp_path, method, steps=512, every=512, episodes=episodes)
    assert result.done["steps"] > 2 * 512
    assert result.done["episodes"] >= episodes
    assert result.done["episodes"] == len(result.returns)
    assert [rate for steps, rate in rates if steps >= 512] == pytest.approx([0.0] * sum(s >= 512 for s, _ in rates))
    assert result.steps[-1] == result.done["steps"]
    assert result.done["steps"] - 8 * 500 < result.episodes.lengths.sum() <= result.done["steps"]  # no episode lost
    assert result.maps["visits"][-1].sum() == result.done["steps"]


def test_an_off_policy_agent_goes_on_for_missing_episodes(tmp_path):
    straight = run(tmp_path / "a", "dqn+pa", task=MARKED, steps=400, episodes=None)
    goes_on = run(tmp_path / "b", "dqn+pa", task=MARKED, steps=250, episodes=20)
    assert goes_on.done["steps"] == 400
    assert goes_on.episodes.lengths.tolist() == [20] * 20
    assert goes_on.episodes.actors[:10] == straight.episodes.actors[:10]


def test_who_drove_is_written_down(tmp_path):
    result = run(tmp_path, "dqn+pa", steps=600)
    assert "explorer" in result.episodes.actors
    driven = result.episodes.lengths[[actor == "explorer" for actor in result.episodes.actors]].sum()
    under_way = 600 - result.episodes.lengths.sum()  # the actor of the last, unfinished episode is not recorded
    assert driven / 600 - 1e-4 <= result.done["explorer_share"] <= (driven + under_way) / 600 + 1e-4
    assert result.config["settings"]["augmentation"]["window"] == 8
    assert result.config["explorer"] == "portfolio"


def test_bonuses_are_logged_apart_from_raw_returns(tmp_path):
    result = run(tmp_path, "ppo+counting")
    assert (result.returns == result.episodes.lengths).all()  # CartPole pays 1 a step
    assert len(result.bonuses) == len(result.returns)
    assert (result.bonuses > result.returns).all()
    rows = list(csv.DictReader((result.path / "bonuses.csv").read_text().splitlines()))
    assert [int(row["episode"]) for row in rows] == list(range(1, len(rows) + 1))


def test_a_finished_run_is_not_run_again(tmp_path):
    first = run(tmp_path)
    before = (first.path / "done.json").stat().st_mtime_ns
    assert run(tmp_path).returns.tolist() == first.returns.tolist()
    assert (first.path / "done.json").stat().st_mtime_ns == before
    with pytest.raises(InvalidInputError, match="steps=300"):
        run(tmp_path, steps=400)


def test_a_failure_is_written_down_and_the_next_try_starts_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(DQN, "train", lambda self, *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(tmp_path)
    (failed,) = tmp_path.rglob("failed.json")
    told = json.loads(failed.read_text())
    assert "ZeroDivisionError" in told["error"]
    assert "1 / 0" in told["traceback"]
    monkeypatch.undo()
    assert run(tmp_path).done["steps"] == 300
    assert not failed.exists()


@pytest.mark.parametrize("method", ["dqn", "dqn+pa"])
def test_the_model_can_be_kept(tmp_path, method):
    result = run(tmp_path, method, save_model=True)
    assert (result.path / "model.zip").stat().st_mode & 0o044 == 0o044
    loaded = DQN.load(result.path / "model.zip")
    assert loaded.num_timesteps == 300


def test_progress_says_where_the_run_is(tmp_path):
    seen = []
    run(tmp_path, progress=seen.append)
    assert seen[-1].step == seen[-1].steps == 300
    assert seen[-1].actor == "agent"
    assert not math.isnan(seen[-1].evaluation)
    assert read_run(run_path(tmp_path, "CartPole-v1", "dqn", 0)).evaluations.means[-1] == seen[-1].evaluation


def test_an_evaluation_ends_where_the_environment_has_no_limit(monkeypatch):
    monkeypatch.setattr(tasks, "LONGEST", 25)
    endless = Task("endless", "CartPole-v1", episode_limit=-1)  # Gymnasium: no limit

    class Still:
        def get_vec_normalize_env(self):
            return None

        def predict(self, observations, state=None, episode_start=None, deterministic=False):
            pole, speed = observations[:, 2], observations[:, 3]
            return (pole + 0.3 * speed > 0).astype(int), state  # balances for long

    evaluator = agents.Evaluator(endless, seed=0, episodes=2, confirm_episodes=1)
    assert evaluator.returns(Still()).tolist() == [25.0, 25.0]
    evaluator.close()
