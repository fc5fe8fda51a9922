"""`polaug train` and `polaug compare`: progress on any terminal, and an ending that says what was seen."""

import math
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tests.waiting import PATIENCE, wait_until

from polaug import cli
from polaug.cli.progress import ProgressDisplay, duration, progress_words, show_study
from polaug.cli.study_output import failed, grid, printed
from polaug.errors import InvalidInputError
from polaug.study.pool import Event, Progress
from polaug.study.runner import Board
from polaug.study.study import Study
from polaug.study.wording import number

SMALL = ("--steps", "200", "--every", "100", "--eval-episodes", "2", "--confirm-episodes", "2")
MARKED, BROKEN, LOST = (f"tests.study.marked_env:{name}-v0" for name in ("Marked", "Broken", "Lost"))


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def test_train_ends_with_where_everything_is(tmp_path, capsys):
    assert run("train", "CartPole-v1", "--algo", "dqn", *SMALL, "--out", tmp_path) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("CartPole-v1, dqn+pa, seed 0: 200 steps")
    assert re.search(r", \d+% of the steps by the guide$", lines[0])
    assert "agent alone" in lines[1]
    for line, name in zip(lines[2:], ("model.zip", "seed_0", "report.html"), strict=True):
        assert line.endswith(name)
    folder = tmp_path / "CartPole-v1" / "dqn+pa" / "seed_0"
    assert (folder / "model.zip").exists()
    assert (folder / "report.html").exists()
    assert "200 of 200 steps" in captured.err
    assert "\x1b" not in captured.err  # a log file
    (folder / "model.zip").unlink()  # as if `polaug compare` had finished the run
    assert run("train", "CartPole-v1", "--algo", "dqn", *SMALL, "--out", tmp_path) == 0
    told = capsys.readouterr().out
    assert "already finished" in told
    assert "no model: " in told
    assert "model.zip" not in told


def test_compare_ends_with_a_summary_whatever_fails(tmp_path, capsys):
    words = (MARKED, BROKEN, "Pendulum-v1", "--methods", "dqn", "--seeds", 1, *SMALL, "--workers", 2)
    assert run("compare", *words, "--save-models", "--out", tmp_path) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == f"report: {tmp_path / 'report.html'}"
    assert len(list(tmp_path.rglob("model.zip"))) == 1
    assert "200 environment steps, all of them counted" in captured.out
    assert re.search(r"/2\] Marked-v0 · dqn · seed 0: done in .*, agent alone", captured.err)
    assert "skipped: dqn on Pendulum-v1: DQN needs Discrete actions; Pendulum-v1 has Box" in captured.err
    assert "got 'dqn'" not in captured.err
    broken = tmp_path / "Broken-v0" / "dqn" / "seed_0" / "failed.json"
    *_, told, _ = captured.err.splitlines()
    assert told == f"failed: Broken-v0 · dqn · seed 0: ZeroDivisionError: the simulator broke. Traceback: {broken}"
    assert "Traceback (" not in captured.err
    assert 'raise ZeroDivisionError(\\"the simulator broke\\")' in broken.read_text()
    assert captured.err.splitlines()[-1].startswith("polaug: 1 of 2 runs failed")
    assert run("export", tmp_path, "--formats", "csv,json,parquet") == 0
    names = {path.name for path in (tmp_path / "export").iterdir()}
    assert {"runs.csv", "episodes.csv", "summary.json", "runs.parquet", "episodes.parquet"} <= names


def test_a_return_that_is_no_number_fails_its_own_run_and_the_others_are_summed_up(tmp_path, capsys):
    words = (MARKED, LOST, "--methods", "dqn", "--seeds", 1, *SMALL, "--workers", 1, "--out", tmp_path)
    assert run("compare", *words) == 1
    captured = capsys.readouterr()
    assert "Marked-v0: no threshold, 1 seed, 200 steps" in captured.out
    assert "No summary" not in captured.out
    assert captured.out.splitlines()[-1] == f"report: {tmp_path / 'report.html'}"
    file = tmp_path / "Lost-v0" / "dqn" / "seed_0" / "episodes.csv"
    assert f"failed: Lost-v0 · dqn · seed 0: return: must be finite in row 3 of {file}, got nan. Mend" in captured.err


def test_compare_skips_who_cannot_see_the_observations(tmp_path, capsys):
    words = ("compare", "tests.study.marked_env:Parts-v0", "--methods", "a2c,atta2c", "--seeds", 1, *SMALL)
    assert run(*words, "--workers", 1, "--out", tmp_path) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("skipped: atta2c cannot see the Dict observations of Parts-v0. Wrap it")
    assert "1 run (1 task × 2 methods × 1 seed, 1 of them skipped) of at least" in captured.err
    assert captured.out.splitlines()[-1].startswith("report: ")
    assert (tmp_path / "Parts-v0" / "a2c" / "seed_0" / "done.json").exists()


def test_an_environment_that_breaks_is_one_line_and_its_traceback_a_file(tmp_path, capsys):
    assert run("train", BROKEN, "--algo", "dqn", *SMALL, "--out", tmp_path) == 1
    captured = capsys.readouterr()
    broken = tmp_path / "Broken-v0" / "dqn+pa" / "seed_0" / "failed.json"
    told = "failed: Broken-v0 · dqn+pa · seed 0: ZeroDivisionError: the simulator broke. Traceback: "
    assert captured.err.splitlines()[-1] == f"{told}{broken}"
    assert "Traceback (" not in captured.err
    assert not captured.out
    assert "simulator broke" in broken.read_text()


def test_without_a_report_the_last_line_says_why(tmp_path, capsys):
    """No whole episode, so nothing to draw: the run is there all the same."""
    words = ("--methods", "dqn", "--seeds", 1, "--steps", 2, "--every", 2, "--eval-episodes", 1, "--workers", 1)
    assert run("compare", "CartPole-v1", *words, "--out", tmp_path) == 0
    captured = capsys.readouterr()
    *_, count, last = captured.out.splitlines()
    assert count.startswith("1 run, 2 environment steps, ")
    assert last.startswith("No report: folder: must hold at least one finished run with a whole episode, got ")
    assert last.endswith("if it is one, train for longer.")
    assert "polaug: " not in captured.err


def test_a_package_in_the_current_directory_is_found_by_the_workers_too(tmp_path):
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text(
        "import gymnasium as gym\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Mine-v0', entry_point=CartPoleEnv, max_episode_steps=20)\n"
    )
    words = ["compare", "my_package:Mine-v0", "--methods", "dqn", "--seeds", "1", *SMALL, "--out", "out"]
    code = (
        f"import sys; sys.path.remove(''); from polaug.cli import main; sys.exit(main({words}))"  # as its script does
    )
    guarded = f"if __name__ == '__main__':\n    {code}"
    done = subprocess.run([sys.executable, "-c", guarded], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "Mine-v0" / "dqn" / "seed_0" / "done.json").exists()


@pytest.mark.usefixtures("quick_tables")
def test_paper_ends_with_its_figures_and_what_can_not_be_summed_up_is_said_once_and_last(tmp_path, capsys, monkeypatch):
    words = ("--methods", "dqn", "--seeds", 1, "--steps", 60, "--every", 60, "--eval-episodes", 1, "--episodes", 1)
    assert run("paper", *words, "--workers", 1, "--out", tmp_path) == 0
    figures = [f"{name}.{kind}" for name in ("figure_1", "figure_2b", "figure_3b") for kind in ("png", "pdf")]
    told = [f"figure: {tmp_path / 'figures' / name}" for name in figures]
    assert capsys.readouterr().out.splitlines()[-6:] == told
    assert all((tmp_path / "figures" / name).stat().st_size > 5_000 for name in figures)

    def refuse(*_):
        raise InvalidInputError("runs: must have an evaluation")

    monkeypatch.setattr("polaug.cli.study_output.headline", refuse)
    monkeypatch.setattr("polaug.report.write_report", refuse)
    assert run("paper", *words, "--workers", 1, "--out", tmp_path) == 0  # the runs are there
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("No ")] == ["No report: runs: must have an evaluation"]
    assert lines[-6:] == told


def test_ctrl_c_leaves_a_folder_to_go_on_from(tmp_path):
    words = ["compare", "CartPole-v1", "--methods", "a2c", "--seeds", "1", "--steps", "100000000", "--every", "500",
             "--workers", "1", "--out", str(tmp_path)]  # fmt: skip
    # A shell that runs the tests in the background has them ignore Ctrl-C, and children inherit that.
    process = subprocess.Popen(
        [sys.executable, "-m", "polaug", *words], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    wait_until(lambda: list(tmp_path.rglob("evaluations.csv")), process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"Continue with: polaug {' '.join(words)}" in told
    assert told.startswith("1 run (1 task × 1 method × 1 seed) of at least 100,000,000 steps, 1 at a time; results: ")
    assert "Traceback" not in told
    assert not list(tmp_path.rglob("done.json"))


# -- what is drawn --------------------------------------------------------------------------------------------------


@pytest.fixture
def board():
    study = Study.of(["MountainCarContinuous-v0", "CartPole-v1"], ["ppo", "ppo+counting"], 2, steps=20_000)
    board = Board(study.cells(), [], workers=2)
    done, under_way, failed = (board.start_next() for _ in range(3))
    board.take(Event("progress", done, Progress(20_000, 20_000, 99, -105.5, "agent", -104.0)))
    board.take(Event("done", done))
    board.take(Event("progress", under_way, Progress(12_345, 20_000, 70, -110.25, "explorer", math.nan)))
    board.take(Event("failed", failed, error="ZeroDivisionError: the simulator\n broke"))
    return board


def test_a_log_gets_a_line_per_run_that_starts_or_ends(board, capsys):
    under_way = next(iter(board.running.values())).cell
    with ProgressDisplay() as shown:
        show_study(shown, board, Event("done", board.done[0].cell))
        show_study(shown, board, None)
        show_study(shown, board, Event("failed", board.failed[0].cell, error=board.failed[0].error))
        show_study(shown, board, Event("started", under_way))
    done, failed, started = capsys.readouterr().err.splitlines()
    assert done.startswith(f"[2/8] {board.done[0].cell.name}: done in ")
    assert "agent alone −104" in done
    assert failed == f"[2/8] {board.failed[0].cell.name}: failed: ZeroDivisionError: the simulator broke"
    assert started == f"[2/8] {under_way.name}: started"


def test_a_log_says_now_and_then_that_it_still_runs(board, capsys, monkeypatch):
    monkeypatch.setattr("polaug.cli.progress._LOG_EVERY", 0.0)
    with ProgressDisplay() as shown:
        show_study(shown, board, None)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(r"\[2/8\] running, .* left; MountainCarContinuous-v0 · ppo\+counting · seed 0: 12,345 of", line)


def test_of_a_long_error_the_line_with_its_name_is_shown(tmp_path):
    told = failed("CartPole-v1 · ppo · seed 0", "ValueError: the simulator broke.\n  at step 3\nsee its log", tmp_path)
    assert told.startswith("failed: CartPole-v1 · ppo · seed 0: ValueError: the simulator broke. Traceback: ")


@pytest.mark.parametrize("columns", ["30", "60", "120"])
def test_all_facts_fit_on_any_terminal(board, columns, capsys, monkeypatch):
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", columns)):
        monkeypatch.setenv(name, value)
    clocks = iter((0.0, 15.0))
    monkeypatch.setattr("polaug.cli.progress.time", SimpleNamespace(monotonic=lambda: next(clocks)))
    with ProgressDisplay() as shown:
        step = Progress(5_000, 20_000, 30, -123.0, "explorer", -150.0, 4_000)
        shown.update("MountainCar-v0 · ppo+pa · seed 0", 0.25, [progress_words(step)])
    text = capsys.readouterr().err
    shown_lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", text)]
    assert max(map(len, shown_lines)) <= int(columns)
    told = " ".join(" ".join(shown_lines).split())
    facts = ("seed 0, 45 s left", "5,000 of 20,000 steps", "−123", "by the explorer", "−150", "solved after 4,000")
    for fact in facts:
        assert fact in told


def test_a_table_fits_the_terminal_and_nothing_is_cut_in_a_file(monkeypatch):
    heads, rows = ["method", "return"], [["ppo+pa[gamma=0.98]", "−110 [−120, −99]"]] * 2
    monkeypatch.delenv("COLUMNS", raising=False)
    assert "ppo+pa[gamma=0.98]  −110 [−120, −99]" in printed(grid(heads, rows))
    monkeypatch.setenv("COLUMNS", "30")
    assert max(map(len, printed(grid(heads, rows)).splitlines())) <= 30


def test_numbers_for_people():
    assert number(-110.25) == "−110.2"
    assert number(math.nan) == "–"
    assert [duration(seconds) for seconds in (3.2, 75, 3700, math.nan)] == ["3 s", "1:15", "1:01:40", "?"]
