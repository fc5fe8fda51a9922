"""The same cells on a real Ray: results come back through the driver, and a killed worker is replaced."""

import os
import signal
from pathlib import Path

import pytest

from polaug.errors import InvalidInputError
from polaug.study.results import find_runs
from polaug.study.runner import run_study
from polaug.study.study import Study
from polaug.study.tasks import Task
from polaug.study.train import train

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'polaug[ray]'")

BUDGET = {"steps": 150, "every": 100, "eval_episodes": 2}
ROOT = Path(__file__).parent.parent.parent
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "src")))


def marked(name="marked", **kwargs):
    return Task(name, "Marked-v0", tuple(kwargs.items()), package="tests.study.marked_env")


@pytest.fixture(scope="module")
def cluster():
    """A Ray of two worker processes, which finds the tests' own modules, and polaug as it is here."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
             runtime_env={"env_vars": {"PYTHONPATH": PATHS}})  # fmt: skip
    yield
    ray.shutdown()


def test_a_study_on_ray_survives_a_killed_worker(cluster, tmp_path):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    slow = marked(marks=str(marks), pause=0.01)
    study = Study.of([slow, marked("broken", marks=str(marks), broken=True)], ["dqn"], 2, **BUDGET)
    killed = []

    def kill_one(board, event):
        pids = sorted(int(mark.name) for mark in marks.iterdir())
        if len(pids) == 2 and len(board.running) == 2 and not killed:
            killed.extend(pids)
            os.kill(pids[0], signal.SIGKILL)

    outcome = run_study(study, out, workers=2, backend="ray", progress=kill_one)
    assert len(killed) == 2  # so many processes were at work
    assert [cell.task.name for cell in outcome.ran] == ["marked", "marked"]
    assert [failure.cell.task.name for failure in outcome.failures] == ["broken", "broken"]
    for failure in outcome.failures:
        assert "the simulator broke" in failure.traceback
        assert (failure.cell.path(out) / "failed.json").exists()
    here = [train(marked(), "dqn", seed=seed, out=tmp_path / "here", **BUDGET) for seed in range(2)]
    assert [run.returns.tolist() for run in find_runs(out)] == [run.returns.tolist() for run in here]
    assert [run.evaluations.means.tolist() for run in find_runs(out)] == [r.evaluations.means.tolist() for r in here]
    assert len(run_study(Study.of([slow], ["dqn"], 2, **BUDGET), out, backend="ray").reused) == 2


def test_the_last_word_of_a_run_is_its_last_evaluation(cluster, tmp_path):
    told = {}

    def listen(board, event):
        if event is not None and event.kind == "done":
            told[event.cell.seed] = board.done[-1].progress

    study = Study.of([marked()], ["dqn"], 3, **BUDGET)
    assert run_study(study, tmp_path, workers=2, backend="ray", progress=listen).ok
    assert {seed: word.step for seed, word in told.items()} == {0: 150, 1: 150, 2: 150}
    assert {run.seed: run.evaluations.means[-1] for run in find_runs(tmp_path)} == {
        seed: word.evaluation for seed, word in told.items()
    }


def test_no_cluster_at_the_address_is_one_line(tmp_path):
    if ray.is_initialized():
        ray.shutdown()
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    with pytest.raises(InvalidInputError, match="address: must be a running Ray"):
        run_study(study, tmp_path, backend="ray", address="127.0.0.1:1")
    assert not list(tmp_path.rglob("episodes.csv"))
    assert not (tmp_path / "study.json").exists()
    with pytest.raises(InvalidInputError, match="address: must be a running Ray"):
        run_study(study, tmp_path / "new", backend="ray", address="127.0.0.1:1")
    assert not (tmp_path / "new").exists()
