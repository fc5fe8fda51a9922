"""Studies survive: failures, killed workers, killed studies; and they give the same numbers in any case."""

import json
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from polaug.errors import InvalidInputError, StateError
from polaug.study.board import Board
from polaug.study.locking import TakenError, lock
from polaug.study.pool import Event
from polaug.study.progress import Pace, Progress
from polaug.study.results import find_runs
from polaug.study.runner import run_study
from polaug.study.study import Study
from polaug.study.tasks import Task

BUDGET = {"steps": 200, "every": 100, "eval_episodes": 2}
PACKAGE = "tests.study.marked_env"


def marked(name="marked", **kwargs):
    return Task(name, "Marked-v0", tuple(kwargs.items()), package=PACKAGE)


def small(**changes):
    return Study.of([marked()], ["dqn", "a2c"], 2, **BUDGET | changes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study run by one worker."""
    out = tmp_path_factory.mktemp("finished")
    outcome = run_study(small(), out, workers=1)
    assert outcome.ok
    assert len(outcome.ran) == 4
    return out


def contents(out):
    """Everything but seconds."""
    files = {}
    for file in sorted(path for path in out.rglob("*") if path.is_file() and path.name not in ("clock.csv", ".lock")):
        content = file.read_bytes()
        if file.name == "done.json":
            content = {key: value for key, value in json.loads(content).items() if "seconds" not in key}
        files[file.relative_to(out)] = content
    return files


def times(out):
    return {path: path.stat().st_mtime_ns for path in sorted(out.rglob("*.*")) if path.name != ".lock"}


def test_the_number_of_workers_does_not_change_the_numbers(finished, tmp_path):
    heard = []
    sizes = set()

    def watch(board, event):
        heard.append(event)
        sizes.add(board.workers)

    outcome = run_study(small(), tmp_path, workers=2, progress=watch)
    assert outcome.ok
    assert sizes == {2}
    assert contents(tmp_path) == contents(finished)
    assert {event.kind for event in heard if event is not None} >= {"started", "progress", "done"}


def test_a_finished_study_is_left_as_it_is(finished):
    before = times(finished)
    outcome = run_study(small(), finished)
    assert (len(outcome.ran), len(outcome.reused)) == (0, 4)
    assert times(finished) == before


def test_what_fails_is_reported_and_the_others_go_on(tmp_path):
    study = Study.of([marked("broken", broken=True), marked()], ["dqn"], 2, **BUDGET)
    outcome = run_study(study, tmp_path, workers=2)
    assert not outcome.ok
    assert {failure.cell.task.name for failure in outcome.failures} == {"broken"}
    assert len(outcome.ran) == len(outcome.failures) == 2
    for failure in outcome.failures:
        assert "the simulator broke" in failure.error
        assert "ZeroDivisionError" in failure.traceback
        told = json.loads((failure.cell.path(tmp_path) / "failed.json").read_text())
        assert told["traceback"].startswith("Traceback")
    again = run_study(study, tmp_path, workers=1)  # failed ones are tried again, the others are not
    assert (len(again.ran), len(again.reused), len(again.failures)) == (0, 2, 2)


def test_a_simulator_that_exits_is_a_failure_with_its_traceback(tmp_path):
    outcome = run_study(Study.of([marked("quits", quits=True), marked()], ["dqn"], 1, **BUDGET), tmp_path, workers=1)
    assert [cell.task.name for cell in outcome.ran] == ["marked"]
    (failure,) = outcome.failures
    assert failure.error == "SystemExit: 3"
    assert "sys.exit(3)" in failure.traceback
    told = json.loads((failure.cell.path(tmp_path) / "failed.json").read_text())
    assert "sys.exit(3)" in told["traceback"]


def test_a_run_of_before_with_a_return_that_is_no_number_is_refused_before_others_run(tmp_path):
    assert run_study(Study.of([marked()], ["dqn"], 1, **BUDGET), tmp_path, workers=1).ok
    (file,) = tmp_path.rglob("evaluations.csv")
    *rows, last = file.read_text().splitlines()
    file.write_text("\r\n".join([*rows, f"{last.split(',')[0]},nan,0.0", ""]), newline="")
    with pytest.raises(InvalidInputError, match=r"finite in .*evaluations\.csv, got nan"):
        run_study(Study.of([marked()], ["dqn"], 2, **BUDGET), tmp_path, workers=1)
    assert not (file.parent.parent / "seed_1").exists()


def test_who_listens_need_not_load_torch():
    """It takes seconds, in which Ctrl-C may be lost."""
    event = Event("progress", small().cells()[0], Progress(1, 2, 0, 0.0, "agent", 0.0))
    code = (
        "import sys, pickle; import polaug.study.runner; "
        f"pickle.loads({pickle.dumps(event)!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def at(step):
    return Progress(step, 1000, 0, 0.0, "agent", 0.0)


def test_the_time_left_is_told_once_it_is_stable_and_forgets_the_compiling():
    """10 s of compiling, then 10 steps a second."""
    pace = Pace(100.0)
    for second in range(10, 60):
        pace.add(100.0 + second, at(10 * (second - 10)))
        left = pace.left(100.0 + second)
        assert math.isnan(left) == (second < 20)
        if second >= 20:
            assert left == pytest.approx(100 - (second - 10))
    assert pace.left(165.0) == pytest.approx(100 - 55)  # time goes on between two reports
    slow = Pace(0.0)
    slow.add(50.0, at(49))
    assert math.isnan(slow.left(50.0))  # not yet a twentieth of it
    assert len(pace._seen) < 40  # what is long ago is forgotten


def test_a_study_tells_no_time_while_a_run_of_unknown_pace_is_under_way(monkeypatch):
    now = 0.0
    monkeypatch.setattr("polaug.study.board.time", SimpleNamespace(monotonic=lambda: now))
    board = Board(small().cells(), [], workers=2)
    first, second = board.start_next(), board.start_next()
    for cell in (first, second):
        board.take(Event("started", cell))
    for now in range(0, 61, 5):
        board.take(Event("progress", first, at(10 * now)))
    assert math.isnan(board.seconds_left)  # nobody knows of the second
    for now in range(61, 91):
        board.take(Event("progress", second, at(10 * (now - 60))))
    board.take(Event("progress", first, at(900)))
    assert board.seconds_left == pytest.approx((10 + 70 + 100 + 160) / 2, rel=0.05)


def test_the_time_left_is_shared_by_the_workers_there_are(tmp_path):
    """One cell keeps one worker busy, however many were asked for."""
    sizes = set()
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    assert run_study(study, tmp_path, workers=5, progress=lambda board, _: sizes.add(board.workers)).ok
    assert sizes == {1}


def test_a_killed_worker_is_replaced_and_its_cell_run_again(finished, tmp_path):
    marks, out = tmp_path / "marks", tmp_path / "out"
    marks.mkdir()
    study = Study.of([marked(marks=str(marks), pause=0.003)], ["dqn", "a2c"], 2, **BUDGET)
    died = []

    def kill_one(board, event):
        if not died and event is not None and event.kind == "progress":
            died.append(event.cell)
            os.kill(int(next(marks.iterdir()).name), signal.SIGKILL)

    heard = []

    def watch(board, event):
        kill_one(board, event)
        heard.append(event)

    outcome = run_study(study, out, workers=1, progress=watch)
    assert outcome.ok
    assert len(outcome.ran) == 4
    assert [event.error for event in heard if event is not None and event.kind == "died"] == [
        "its worker was ended by SIGKILL (out of memory, perhaps)"
    ]
    assert len(list(marks.iterdir())) == 2  # processes
    ours, theirs = ([run.returns.tolist() for run in find_runs(each)] for each in (out, finished))
    assert ours == theirs


def test_a_cell_that_always_kills_its_worker_fails_alone(tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    study = Study.of([marked("deadly", marks=str(marks), pause=0.003), marked()], ["dqn"], 1, **BUDGET)

    def kill_all(board, event):
        if event is not None and event.kind == "progress" and event.cell.task.name == "deadly":
            for mark in list(marks.iterdir()):
                mark.unlink()
                os.kill(int(mark.name), signal.SIGKILL)

    outcome = run_study(study, tmp_path / "out", workers=1, progress=kill_all)
    assert [cell.task.name for cell in outcome.ran] == ["marked"]
    (failure,) = outcome.failures
    assert "SIGKILL" in failure.error
    assert "SIGKILL" in (failure.cell.path(tmp_path / "out") / "failed.json").read_text()


SCRIPT = """
import sys
from pathlib import Path
from tests.study.test_runner import BUDGET, marked
from polaug.study.runner import run_study
from polaug.study.study import Study
if __name__ == "__main__":
    study = Study.of([marked(marks=sys.argv[2], pause=0.01)], ["dqn", "a2c"], 2, **BUDGET)
    run_study(study, Path(sys.argv[1]), workers=2)
"""


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def wait_for(condition, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)


def test_a_killed_study_goes_on_where_it_was(finished, tmp_path):
    marks, out, script = tmp_path / "marks", tmp_path / "out", tmp_path / "script.py"
    marks.mkdir()
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    process = subprocess.Popen([sys.executable, script, out, marks], env=environment)
    wait_for(lambda: list(out.rglob("done.json")) and len(list(out.rglob("episodes.csv"))) > 2)
    process.kill()
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("done.json")}
    study = Study.of([marked(marks=str(marks), pause=0.01)], ["dqn", "a2c"], 2, **BUDGET)
    outcome = run_study(study, out, workers=2)
    assert outcome.ok
    assert len(outcome.reused) >= len(before) > 0
    assert len(outcome.ran) + len(outcome.reused) == 4
    assert {path: path.stat().st_mtime_ns for path in before} == before  # not repeated
    wait_for(lambda: all(gone(int(mark.name)) for mark in marks.iterdir()))  # no worker outlives its study
    ours, theirs = ([run.returns.tolist() for run in find_runs(each)] for each in (out, finished))
    assert ours == theirs


def test_more_seeds_and_methods_may_join(finished, tmp_path):
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    assert len(run_study(study, tmp_path, workers=1).ran) == 1
    outcome = run_study(Study.of([marked()], ["a2c", "dqn"], 2, **BUDGET), tmp_path, workers=1)
    assert (len(outcome.ran), len(outcome.reused)) == (3, 1)
    told = json.loads((tmp_path / "study.json").read_text())
    assert (told["methods"], told["seeds"]) == (["dqn", "a2c"], [0, 1])


# -- folders that are refused ---------------------------------------------------------------------------------------


def test_two_studies_at_once_are_refused(finished):
    with (finished / ".lock").open("a") as file:
        lock(file, finished)
        with pytest.raises(TakenError, match="another process is writing"):
            run_study(small(), finished)
    assert run_study(small(), finished).ok  # the lock went with its holder


@pytest.mark.parametrize("change", [{"steps": 300}, {"every": 50}, {"episodes": 5}, {"eval_episodes": 3}])
def test_other_settings_are_refused(finished, change):
    before = times(finished)
    with pytest.raises(InvalidInputError, match=rf"study\.json.*{next(iter(change))}"):
        run_study(small(**change), finished)
    assert times(finished) == before


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("study.json", "{", r"study\.json"),
        ("study.json", '{"mine": true}', r"study\.json"),
        ("study.json", None, r"study\.json.*polaug='0\.0\.1'"),
        ("marked", "", "marked"),
        ("marked/dqn/seed_0/config.json", '{"mine": true}', r"config\.json"),
        ("marked/dqn/seed_0/config.json", '{"format": 2, "versions": {}}', r"config\.json has format 2"),
        ("marked/dqn/seed_0/episodes.csv", "my,own,very,important,table\n1,2,3,4,5\n", r"episodes\.csv"),
        ("marked/dqn/seed_0/done.json", "{}", r"config\.json"),
    ],
)
def test_foreign_files_are_named_and_never_overwritten(tmp_path, file, content, words):
    if content is None:
        other = {"format": 1, "polaug": "0.0.1", "tasks": [], "methods": [], "seeds": [], "skipped": []}
        content = json.dumps(other | small().budget)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    with pytest.raises((InvalidInputError, StateError), match=words):
        run_study(small(), tmp_path, workers=1)
    assert path.read_text() == content
    assert {each.name for each in tmp_path.rglob("*") if each.is_file()} <= {path.name, ".lock"}


def test_a_refused_study_spoils_no_folder(tmp_path):
    """study.json of a study that was refused would refuse the right one, too."""
    (tmp_path / "marked" / "a2c" / "seed_0").mkdir(parents=True)
    foreign = tmp_path / "marked" / "a2c" / "seed_0" / "model.zip"
    foreign.write_text("mine")
    with pytest.raises(StateError, match=r"model\.zip"):
        run_study(small(steps=300), tmp_path, workers=1)
    assert not (tmp_path / "study.json").exists()
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    assert run_study(study, tmp_path, workers=1).ok
    before = times(tmp_path)
    with pytest.raises(StateError, match=r"model\.zip"):
        run_study(small(), tmp_path, workers=1)
    assert times(tmp_path) == before


def test_a_damaged_finished_run_is_found_before_the_others_run(tmp_path):
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    assert run_study(study, tmp_path, workers=1).ok
    (file,) = tmp_path.rglob("episodes.csv")
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(StateError, match=r"episodes\.csv is damaged at line .* Move its folder away"):
        run_study(Study.of([marked()], ["dqn"], 2, **BUDGET), tmp_path, workers=1)
    assert not (file.parent.parent / "seed_1").exists()


def test_links_do_not_lead_out(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "marked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="runs stay inside"):
        run_study(small(), tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "rey"}, "Did you mean 'ray'"),
        ({"workers": 0}, "workers"),
        ({"address": "auto"}, "only Ray has one"),
    ],
)
def test_options_that_can_not_be(tmp_path, options, words):
    with pytest.raises(InvalidInputError, match=words):
        run_study(small(), tmp_path, **options)
    assert not list(tmp_path.iterdir())


# -- what a study is, and in which order it runs --------------------------------------------------------------------


def test_impossible_pairs_are_skipped_if_another_task_fits():
    study = Study.of(["CartPole-v1", "Pendulum-v1"], ["dqn", "ppo"], 1, steps=10)
    assert [(task, method) for task, method, _ in study.skipped] == [("Pendulum-v1", "dqn")]
    assert "Discrete" in study.skipped[0][2]
    assert len(study.cells()) == 3
    study = Study.of(["Pendulum-v1"], ["dqn", "ppo"], 1, steps=10)
    assert [cell.method.name for cell in study.cells()] == ["ppo"]
    with pytest.raises(InvalidInputError, match="Discrete"):
        Study.of(["Pendulum-v1"], ["dqn", "dqn+pa"], 1, steps=10)


@pytest.mark.parametrize(("env", "words"), [
    ("Pictures-v0", r"ppo\+pa cannot see the observations of Pictures-v0: .*a Box of images has no features"),
    ("Parts-v0", r"ppo\+pa cannot see the Dict observations of Parts-v0"),
])  # fmt: skip
def test_who_cannot_see_the_observations_is_skipped_and_told_what_to_read(env, words):
    study = Study.of([f"tests.study.marked_env:{env}"], ["ppo", "ppo+pa"], 1, steps=10)
    ((task, method, why),) = study.skipped
    assert (task, method) == (env, "ppo+pa")
    assert re.search(words, why)
    assert why.endswith("docs/how-to/own-features.md.")
    assert "features=f" not in why
    with pytest.raises(InvalidInputError, match=words):
        Study.of([f"tests.study.marked_env:{env}"], ["ppo+pa"], 1, steps=10)


@pytest.mark.parametrize("arguments", [([], ["ppo"], 1), (["CartPole-v1"], [], 1), (["CartPole-v1"], ["ppo"], 0)])
def test_an_empty_study_is_refused(arguments):
    with pytest.raises(InvalidInputError):
        Study.of(*arguments, steps=10)


def test_rounds_of_seeds_longest_first():
    cells = small().cells()
    board = Board(cells, [], workers=2)
    assert [cell.seed for cell in cells] == [0, 0, 1, 1]
    first, second = board.start_next(), board.start_next()
    assert {first.seed, second.seed} == {0}
    board.running[second.key].since -= 100
    for cell in (first, second):
        board.take(Event("done", cell))
    assert board.start_next().pair == second.pair  # it took longer
    assert board.seconds_left > 0
