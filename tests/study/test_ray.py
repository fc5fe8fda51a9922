"""The same cells on a real Ray: results come back through the driver, and a killed worker is replaced."""

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.waiting import PATIENCE, wait_until

from polaug.errors import InvalidInputError
from polaug.study.ray_reaper import session
from polaug.study.results import find_runs
from polaug.study.runner import run_study
from polaug.study.study import Study
from polaug.study.tasks import Task
from polaug.study.train import train

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

BUDGET = {"steps": 150, "every": 100, "eval_episodes": 2, "confirm_episodes": 2}
ROOT = Path(__file__).parent.parent.parent
PATHS = os.pathsep.join(map(str, (ROOT, ROOT / "src")))


def session_of(driver):
    """The name of the Ray session that a process has started."""
    commands = [" ".join(child.cmdline()) for child in psutil.Process(driver).children()]
    return next(found[0] for command in commands if (found := re.search(r"session_[\d_-]+", command)))


def marked(name="marked", **kwargs):
    return Task(name, "Marked-v0", tuple(kwargs.items()), package="tests.study.marked_env")


@pytest.fixture
def cluster(monkeypatch):
    """A Ray of two worker processes, which finds the tests' own modules, and polaug as it is here."""
    monkeypatch.setenv("PYTHONPATH", PATHS)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def test_a_study_on_ray_survives_a_killed_worker(cluster, tmp_path):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    slow = marked(marks=str(marks), pause=0.005)
    study = Study.of([slow, marked("broken", marks=str(marks), broken=True)], ["dqn"], 2, **BUDGET)
    killed, told = [], {}

    def kill_one(board, event):
        pids = sorted(int(mark.name) for mark in marks.iterdir())
        if len(pids) == 2 and len(board.running) == 2 and not killed:
            killed.extend(pids)
            os.kill(pids[0], signal.SIGKILL)
        if event is not None and event.kind == "done":
            told[event.cell.seed] = board.done[-1].progress

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
    for run in here:  # the last word of a run is its last evaluation
        assert (told[run.seed].step, told[run.seed].evaluation) == (150, run.evaluations.means[-1])
    assert len(run_study(Study.of([slow], ["dqn"], 2, **BUDGET), out, backend="ray").reused) == 2


def test_no_cluster_at_the_address_is_one_line(tmp_path):
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    with pytest.raises(InvalidInputError, match="address: must be a running Ray"):
        run_study(study, tmp_path, backend="ray", address="127.0.0.1:1")
    assert not list(tmp_path.rglob("episodes.csv"))
    with pytest.raises(InvalidInputError, match="address: must be a running Ray"):
        run_study(study, tmp_path / "new", backend="ray", address="127.0.0.1:1")
    assert not (tmp_path / "new").exists()


def test_nothing_of_our_ray_is_left_when_its_head_is_killed(tmp_path):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    code = (
        "from polaug.study import Study, Task, run_study\n"  # none of these waits for torch
        f"task = Task('marked', 'Marked-v0', (('marks', {str(marks)!r}), ('pause', 0.02)), "
        "package='tests.study.marked_env')\n"
        "study = Study.of([task], ['dqn'], 2, steps=100_000, every=100_000)\n"
        f"run_study(study, {str(out)!r}, workers=2, backend='ray')\n"
    )
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"PYTHONPATH": PATHS}
    driver = subprocess.Popen([sys.executable, "-c", code], env=base, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    known = set()
    try:
        wait_until(lambda: len(list(marks.iterdir())) == 2, driver)  # both cells are under way
        name = session_of(driver.pid)
        known, head = session(name, set())
        assert head == 2
        assert len(known) > 6  # the head's five, two agents, two workers
        next(each for each in known if each.name() == "gcs_server").kill()
        wait_until(lambda: not session(name, known)[0])
    finally:
        driver.kill()
        driver.communicate()
        for each in session(name, known)[0] if known else ():
            each.kill()


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
        wait_until(lambda: "--block" in log.read_text(), process)  # what it says once all of it runs
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()  # and with it what it started
        process.wait(PATIENCE)


def test_a_separate_ray_is_used_and_one_that_refuses_our_token_says_so(tmp_path):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    base = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"PYTHONPATH": PATHS}
    words = ["compare", "CartPole-v1", "--methods", "dqn", "--seeds", "1", "--steps", "100", "--every", "100",
             "--eval-episodes", "1", "--backend", "ray"]  # fmt: skip

    def compare(environment, out, address):
        command = [sys.executable, "-m", "polaug", *words, "--address", address, "--out", str(out)]
        own = base | environment
        return subprocess.run(command, env=own, capture_output=True, text=True, check=False, timeout=PATIENCE)

    with separate_ray(base | token, tmp_path / "ray.log") as address:
        done = compare(token, tmp_path / "out", address)
        few = {"RAY_NUM_REDIS_GET_RETRIES": "3"}  # a second each; Ray's default is 20
        wrong = compare(token | few | {"RAY_AUTH_TOKEN": secrets.token_hex(16)}, tmp_path / "refused", address)
    assert done.returncode == 0, done.stderr
    assert len(find_runs(tmp_path / "out")) == 1
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "polaug: address: the Ray there must accept our token, and it refuses it as missing or wrong, "
        f"got '{address}'. Set RAY_AUTH_MODE and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) as they were where it was "
        "started.\n"
    )
    assert not (tmp_path / "refused").exists()
