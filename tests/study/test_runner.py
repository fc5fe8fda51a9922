"""Studies survive: failures, killed workers, killed studies; and they give the same numbers in any case."""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from polaug.errors import InvalidInputError, StateError
from polaug.study.folder import TakenError, locked
from polaug.study.pool import Event, Progress
from polaug.study.results import find_runs
from polaug.study.runner import Board, run_study
from polaug.study.study import Study
from polaug.study.tasks import Task

BUDGET = {"steps": 200, "every": 100, "eval_episodes": 2, "confirm_episodes": 2}
PACKAGE = "tests.study.marked_env"


def marked(name="marked", **kwargs):
    return Task(name, "Marked-v0", tuple(kwargs.items()), package=PACKAGE)


def small(**changes):
    return Study.of([marked()], ["dqn", "a2c"], 2, **BUDGET | changes)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """A study of one cell, which keeps one worker busy, however many were asked for."""
    out, sizes = tmp_path_factory.mktemp("one"), set()
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    assert run_study(study, out, workers=5, progress=lambda board, _: sizes.add(board.workers)).ok
    assert sizes == {1}
    return out


@pytest.fixture
def copied(one, tmp_path):
    """The same study in a folder of its own."""
    shutil.copytree(one, tmp_path, dirs_exist_ok=True)
    return tmp_path


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


def test_a_run_of_before_with_a_return_that_is_no_number_is_refused_before_others_run(copied):
    (file,) = copied.rglob("evaluations.csv")
    *rows, last = file.read_text().splitlines()
    file.write_text("\r\n".join([*rows, f"{last.split(',')[0]},nan,0.0", ""]), newline="")
    with pytest.raises(StateError, match=r"evaluations\.csv is damaged at line .* \(mean_return is 'nan'"):
        run_study(Study.of([marked()], ["dqn"], 2, **BUDGET), copied, workers=1)
    assert not (file.parent.parent / "seed_1").exists()


def test_who_listens_need_not_load_torch():
    """It takes seconds, in which Ctrl-C may be lost."""
    event = Event("progress", small().cells()[0], Progress(1, 2, 0, 0.0, "agent", 0.0))
    code = (
        "import sys, pickle; import polaug.study.runner; "
        f"pickle.loads({pickle.dumps(event)!r}); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


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
    study = Study.of([marked(marks=sys.argv[2], pause=0.004)], ["dqn", "a2c"], 2, **BUDGET)
    run_study(study, Path(sys.argv[1]), workers=2)
"""


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


def test_a_killed_study_goes_on_where_it_was(finished, tmp_path):
    marks, out, script = tmp_path / "marks", tmp_path / "out", tmp_path / "script.py"
    marks.mkdir()
    script.write_text(SCRIPT)
    root = Path(__file__).parent.parent.parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (root, root / "src")))}
    process = subprocess.Popen([sys.executable, script, out, marks], env=environment)

    def under_way():
        return list(out.rglob("done.json")) and len(list(out.rglob("episodes.csv"))) > 2

    wait_until(under_way, process)
    process.kill()
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("done.json")}
    study = Study.of([marked(marks=str(marks), pause=0.004)], ["dqn", "a2c"], 2, **BUDGET)
    outcome = run_study(study, out, workers=2)
    assert outcome.ok
    assert len(outcome.reused) >= len(before) > 0
    assert len(outcome.ran) + len(outcome.reused) == 4
    assert {path: path.stat().st_mtime_ns for path in before} == before  # not repeated
    wait_until(lambda: all(gone(int(mark.name)) for mark in marks.iterdir()))  # no worker outlives its study
    ours, theirs = ([run.returns.tolist() for run in find_runs(each)] for each in (out, finished))
    assert ours == theirs


def test_more_seeds_and_methods_may_join(copied):
    outcome = run_study(Study.of([marked()], ["a2c", "dqn"], 2, **BUDGET), copied, workers=1)
    assert (len(outcome.ran), len(outcome.reused)) == (3, 1)


# -- folders that are refused ---------------------------------------------------------------------------------------


def test_two_studies_at_once_are_refused(finished):
    with locked(finished), pytest.raises(TakenError, match="another process is writing"):
        run_study(small(), finished)
    assert run_study(small(), finished).ok  # the lock went with its holder


@pytest.mark.parametrize("change", [{"steps": 300}, {"every": 50}, {"episodes": 5}, {"eval_episodes": 3}])
def test_other_settings_are_refused(finished, change):
    before = times(finished)
    with pytest.raises(InvalidInputError, match=rf"config\.json.*{next(iter(change))}"):
        run_study(small(**change), finished)
    assert times(finished) == before


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("marked/ppo/seed_0/config.json", None, r"config\.json.*polaug='0\.0\.1'"),
        ("marked", "", "marked"),
        ("marked/dqn/seed_0/config.json", '{"mine": true}', r"config\.json"),
        ("marked/dqn/seed_0/config.json", '{"format": 1, "versions": {}}', r"config\.json has format 1"),
        ("marked/dqn/seed_0/episodes.csv", "my,own,very,important,table\n1,2,3,4,5\n", r"episodes\.csv"),
        ("marked/dqn/seed_0/done.json", "{}", r"config\.json"),
    ],
)
def test_foreign_files_are_named_and_never_overwritten(tmp_path, file, content, words):
    if content is None:
        content = json.dumps(small().budget | {"format": 2, "versions": {"polaug": "0.0.1"}})
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    with pytest.raises((InvalidInputError, StateError), match=words):
        run_study(small(), tmp_path, workers=1)
    assert path.read_text() == content
    assert {each.name for each in tmp_path.rglob("*") if each.is_file()} <= {path.name, ".lock"}


def test_a_refused_study_spoils_no_folder(tmp_path):
    (tmp_path / "marked" / "a2c" / "seed_0").mkdir(parents=True)
    foreign = tmp_path / "marked" / "a2c" / "seed_0" / "model.zip"
    foreign.write_text("mine")
    with pytest.raises(StateError, match=r"model\.zip"):
        run_study(small(steps=300), tmp_path, workers=1)
    study = Study.of([marked()], ["dqn"], 1, **BUDGET)
    assert run_study(study, tmp_path, workers=1).ok
    before = times(tmp_path)
    with pytest.raises(StateError, match=r"model\.zip"):
        run_study(small(), tmp_path, workers=1)
    assert times(tmp_path) == before


def test_a_damaged_finished_run_is_found_before_the_others_run(copied):
    (file,) = copied.rglob("episodes.csv")
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(StateError, match=r"episodes\.csv is damaged at line .* Move its folder away"):
        run_study(Study.of([marked()], ["dqn"], 2, **BUDGET), copied, workers=1)
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


def test_who_cannot_see_the_observations_is_skipped_and_told_what_to_read():
    words = r"atta2c cannot see the Dict observations of Parts-v0"
    study = Study.of(["tests.study.marked_env:Parts-v0"], ["ppo", "ppo+pa", "atta2c"], 1, steps=10)
    ((task, method, why),) = study.skipped
    assert (task, method) == ("Parts-v0", "atta2c")
    assert re.search(words, why)
    assert why.endswith("docs/how-to/own-features.md.")
    with pytest.raises(InvalidInputError, match=words):
        Study.of(["tests.study.marked_env:Parts-v0"], ["atta2c"], 1, steps=10)


@pytest.mark.parametrize("arguments", [([], ["ppo"], 1), (["CartPole-v1"], [], 1), (["CartPole-v1"], ["ppo"], 0)])
def test_an_empty_study_is_refused(arguments):
    with pytest.raises(InvalidInputError):
        Study.of(*arguments, steps=10)


def test_cells_start_in_rounds_of_seeds():
    cells = small().cells()
    board = Board(cells, cells[:1], workers=2)
    assert [cell.seed for cell in cells] == [0, 0, 1, 1]
    assert [board.start_next().key for _ in range(3)] == [cell.key for cell in cells[1:]]
