"""What a run leaves on disk while it trains: readable at any moment, and enough to let the agent play."""

import numpy as np
import pytest

from polaug.errors import StateError
from polaug.study.agents import build, load_policy
from polaug.study.folder import POLICY
from polaug.study.methods import method
from polaug.study.results import read_run, run_folders
from polaug.study.tasks import task
from polaug.study.train import train


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A short run, and what `read_run` gave at its first report of progress after an evaluation."""
    root, seen = tmp_path_factory.mktemp("runs"), []

    def look(progress):
        if progress.evaluation == progress.evaluation and not seen:
            (path,) = run_folders(root)
            seen.append(read_run(path, under_way=True))

    run = train("CartPole-v1", "dqn+pa", steps=400, every=100, eval_episodes=1, out=root, progress=look)
    return run, seen


def test_a_run_under_way_is_read_as_far_as_it_is(followed):
    run, (early,) = followed
    assert early.done == {}
    assert 0 < len(early.returns) <= len(run.returns)
    assert (early.returns == run.returns[: len(early.returns)]).all()
    assert (run.path / "done.json").exists()


def test_scalars_are_those_of_the_logger(followed):
    run, _ = followed
    assert any(name.startswith("augment") for name in run.scalars)
    for steps, values in run.scalars.values():
        assert set(steps) <= set(run.evaluations.steps)
        assert np.isfinite(values).all()


def test_a_policy_read_back_acts_like_the_one_that_was_written(followed):
    run, _ = followed
    found = task("CartPole-v1")
    one, tape = build(method("dqn+pa"), found, 7)
    other, more = build(method("dqn+pa"), found, 8)
    load_policy(run.path, one)
    load_policy(run.path, other)
    observations = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    same = one.predict(observations, deterministic=True)[0] == other.predict(observations, deterministic=True)[0]
    assert same.all()
    assert (run.path / POLICY).stat().st_size < 100_000
    for venv in (tape, more):
        venv.close()


def test_a_policy_of_another_network_is_refused(followed, tmp_path):
    run, _ = followed
    model, tape = build(method("ppo"), task("CartPole-v1"), 0)
    with pytest.raises(StateError, match=r"policy\.npz.*does not fit"):
        load_policy(run.path, model)
    tape.close()


def test_folders_outside_are_not_found(followed, tmp_path):
    run, _ = followed
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(run.path, target_is_directory=True)
    (tmp_path / "inside" / "file").mkdir()
    (tmp_path / "inside" / "file" / "config.json").symlink_to(run.path / "config.json")
    assert run_folders(tmp_path / "inside") == []
