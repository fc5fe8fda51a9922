"""The same cells on a real Ray: results come back through the driver, and a killed worker is replaced."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polaug.errors import InvalidInputError
from polaug.study.results import find_runs
from polaug.study.runner import run_study
from polaug.study.study import Study
from polaug.study.tasks import Task
from polaug.study.train import train

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

BUDGET = {"steps": 150, "every": 100, "eval_episodes": 2}
ROOT = Path(__file__).parent.parent.parent
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "src")))


def marked(name="marked", **kwargs):
    return Task(name, "Marked-v0", tuple(kwargs.items()), package="tests.study.marked_env")


@pytest.fixture(scope="module")
def cluster():
    """A Ray of two worker processes, which finds the tests' own modules, and polaug as it is here."""
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
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


# -- a Ray that somebody else started ---------------------------------------------------------------------------------


@contextlib.contextmanager
def separate_ray(environment, log):
    """A head of two CPUs in processes of its own, on a free port; gives its address, and ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["start", "--head", "--block", "--port", str(port), "--num-cpus", "2", "--include-dashboard", "false"]
    command = [sys.executable, "-m", "ray.scripts.scripts", *words, "--disable-usage-stats"]
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 120
        while "--block" not in log.read_text():  # what it says once all of it runs
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()  # and with it what it started
        process.wait(60)


def test_a_separate_ray_is_used_and_one_that_refuses_our_token_says_so(tmp_path):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"PYTHONPATH": PATHS}
    words = ["compare", "CartPole-v1", "--methods", "dqn", "--seeds", "2", "--steps", "100", "--every", "100",
             "--eval-episodes", "1", "--backend", "ray"]  # fmt: skip

    def compare(environment, out, address):
        command = [sys.executable, "-m", "polaug", *words, "--address", address, "--out", str(out)]
        return subprocess.run(command, env=base | environment, capture_output=True, text=True, check=False, timeout=300)

    with separate_ray(base | token, tmp_path / "ray.log") as address:
        done = compare(token, tmp_path / "out", address)
        wrong = compare(token | {"RAY_AUTH_TOKEN": secrets.token_hex(16)}, tmp_path / "refused", address)
    assert done.returncode == 0, done.stderr
    assert len(find_runs(tmp_path / "out")) == 2
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "polaug: address: the Ray there must accept our token, and it refuses it as missing or wrong, "
        f"got '{address}'. Set RAY_AUTH_MODE and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) as they were where it was "
        "started.\n"
    )
    assert not (tmp_path / "refused").exists()
