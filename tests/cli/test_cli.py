"""The command line as a user meets it: what it prints, where it writes, and how it fails."""

import csv
import dataclasses
import json
import subprocess
import sys

import pytest
from tests.study.run_folders import write_run

import polaug
from polaug import cli
from polaug.cli import explore as explore_command
from polaug.cli import train as train_command
from polaug.cli.train import FLAGS, chosen_method
from polaug.completion import SOLVERS
from polaug.config import Augmentation
from polaug.errors import shown
from polaug.exploration import METHODS as EXPLORERS
from polaug.features import ACTION_FEATURES, STATE_FEATURES
from polaug.study import METHODS, TASKS, find_runs

PICTURES = "tests.study.marked_env:Pictures-v0"


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def explore(out, *arguments):
    settings = ("--explorer", "random", "--episodes", 3, "--seeds", 2, "--out", out)
    return run("explore", "CartPole-v1", *settings, *arguments)


def test_list_has_a_line_for_everything(capsys):
    assert run("list") == 0
    lines = capsys.readouterr().out.splitlines()
    tables = (METHODS, EXPLORERS, SOLVERS, STATE_FEATURES, ACTION_FEATURES, TASKS, polaug.transfers())
    for name in (name for table in tables for name in table):
        described = [line.split(maxsplit=1) for line in lines if line.startswith("  ") and line.split()[0] == name]
        assert described, f"{name} is not listed"
        assert all(len(words) == 2 and len(words[1]) > 10 for words in described)
        assert not any(words[1].endswith(".") for words in described)


# -- explore --------------------------------------------------------------------------------------------------------


def test_explore_writes_runs_and_a_report_and_ends_with_its_path(tmp_path, capsys):
    assert explore(tmp_path) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[-1] == f"report: {tmp_path / 'report.html'}"
    assert lines[0].startswith("CartPole-v1, random: ")
    assert " in episode 3, the last (2 seeds)" in lines[0]
    assert lines[-2].startswith("2 runs, ")
    assert "seed 1" in captured.err  # progress, away from stdout
    for seed in range(2):
        folder = tmp_path / "CartPole-v1" / "random" / f"seed_{seed}"
        assert json.loads((folder / "config.json").read_text())["seed"] == seed
        rows = list(csv.DictReader((folder / "episodes.csv").read_text().splitlines()))
        assert len(rows) == 3
        assert int(rows[-1]["step"]) == json.loads((folder / "done.json").read_text())["steps"]


def test_explore_says_that_who_only_pays_acts_at_random(tmp_path, capsys):
    assert explore(tmp_path, "--explorer", "rnd,random", "--seeds", 1, "--episodes", 8) == 0
    captured = capsys.readouterr()
    assert "note: rnd only pays an agent for what is new; alone it acts at random\n" in captured.err
    assert "random only pays" not in captured.err
    assert " in episodes 7 to 8, the last quarter (1 seed)" in captured.out


def test_explore_says_whom_the_committee_chose(tmp_path):
    assert explore(tmp_path, "--explorer", "committee,random", "--seeds", 1) == 0
    runs = {found.method: found for found in find_runs(tmp_path)}
    assert len(runs["committee"].choices) == 3
    assert runs["random"].choices == ()


def test_finished_runs_are_not_run_again(tmp_path, capsys, monkeypatch):
    assert explore(tmp_path) == 0
    monkeypatch.setattr(explore_command, "explore", None)
    assert explore(tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("report.html")


def test_one_is_not_many(tmp_path, capsys):
    assert explore(tmp_path, "--seeds", 1, "--episodes", 1) == 0
    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.endswith(" in 1 episode (1 seed)")
    assert second.startswith("1 run, ")


def test_other_settings_do_not_overwrite(tmp_path, capsys):
    assert explore(tmp_path) == 0
    assert explore(tmp_path, "--episodes", 4) == 2
    assert "episodes=3" in capsys.readouterr().err


def test_several_explorers_and_tasks_share_a_report(tmp_path, capsys):
    arguments = ("--explorer", "random,epsilon_z", "--episodes", 2, "--seeds", 1, "--seed", 5, "--out", tmp_path)
    assert run("explore", "CartPole-v1", "--env", "FrozenLake8x8", *arguments) == 0
    assert len(list(tmp_path.rglob("seed_5/done.json"))) == 4
    assert len(capsys.readouterr().out.splitlines()) == 4 + 2
    assert run("report", tmp_path, "--out", tmp_path / "again.html") == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "report.html").read_bytes()


def test_names_write_nowhere_but_into_out(tmp_path):
    out = tmp_path / "inner" / "out"
    arguments = ("--explorer", "random", "--episodes", 1, "--seeds", 1, "--out", out)
    assert run("explore", "polaug/DeepSea-v0", *arguments) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"inner"}
    assert {path.name for path in out.parent.iterdir()} == {"out"}
    (run_folder,) = out.rglob("done.json")
    assert len(run_folder.relative_to(out).parts) == 4  # task / explorer / seed / done.json


def test_the_progress_bar_works_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    assert explore(tmp_path) == 0
    assert "\x1b[" in capsys.readouterr().err


# -- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["explore", "CartPool-v1"], "Did you mean 'CartPole-v1'"),
        (["explore", "CartPole-v1", "--explorer", "randm"], "Did you mean 'random'"),
        (["explore", "CartPole-v1", "--explorer", ","], "explorer"),
        (["explore", "CartPole-v1", "--episodes", "0"], "episodes"),
        (["explore", "CartPole-v1", "--episodes", "x"], "--episodes"),
        (["explore", "CartPole-v1", "--seeds", "-1"], "seeds"),
        (["explore", "CartPole-v1", "--explorer", "tabular"], "observation_space"),
        (["explore", "CartPole-v1", "--explorer", "tabular"], "explorer: tabular does not fit CartPole-v1 ("),
        (["explore", PICTURES], "explorer: committee cannot see the observations of Pictures-v0: they must be Box"),
        (["explore", PICTURES], "pass a function in Python: docs/how-to/own-features.md."),
        (["train", PICTURES], "method: ppo+pa cannot see the observations of Pictures-v0: they must be Box"),
        (["compare", PICTURES, "--methods", "ppo+pa"], "docs/how-to/own-features.md."),
        (["train", "CartPole-v1", "--step", "10"], "--step: polaug train has no such option. Did you mean --steps?"),
        (["compare", "CartPole-v1", "--seed=1", "--meth", "ppo"], "--meth"),
        (["explore"], "polaug: ENV: none was named. For example"),
        (["explor"], "Did you mean 'explore'"),
        ([], "COMMAND"),
        (["report", "/no/such/folder"], "folder"),
        (["train", "CartPool-v1"], "Did you mean 'CartPole-v1'"),
        (["train", "CartPole-v1", "--algo", "pppo"], "Did you mean 'ppo'? `polaug list` shows all.\n"),
        (
            ["train", "CartPole-v1", "--explorer-options", '{"featurs": 1}'],
            "polaug: option: no option of explorer 'committee' is called 'featurs'. Did you mean 'features'",
        ),
        (["train", "CartPole-v1", "--explorer", "comittee"], "Did you mean 'committee'"),
        (["train", "CartPole-v1", "--transfer", "imitat"], "Did you mean 'imitate'"),
        (["train", "CartPole-v1", "--explorer", "none", "--patience", "3"], "--explorer"),
        (["train", "CartPole-v1", "--explorer-options", "{"], "JSON"),
        (["train", "CartPole-v1", "--trial-share", "2"], "Pass for example --trial-share 0.1."),
        (
            ["train", "CartPole-v1", "--steps", "-5"],
            "--steps: must be a whole number of at least 1, got '-5'; for example",
        ),
        (["train", "CartPole-v1", "--steps", "1.5e0"], "got '1.5e0'; for example 20000"),
        (["train", "CartPole-v1", "--steps", "1e400"], "got '1e400'; for example 20000"),
        (["train", "CartPole-v1", "--explorer-seed", "1.5"], "must be a whole number, got '1.5'; for example 1000"),
        (["train", "CartPole-v1", "--episodes", "0"], "--episodes"),
        (["train", "CartPole-v1", "--every", "0"], "for example 1000"),
        (["train", "CartPole-v1", "--eval-episodes", "0"], "for example 10"),
        (["train", "CartPole-v1", "--seed", "-1"], "at least 0"),
        (["train", "Pendulum-v1", "--algo", "dqn"], "Discrete"),
        (["train", "CartPole-v1", "--env", "Acrobot-v1"], "one at a time"),
        (["train"], "polaug: ENV: none was named. For example"),
        (["compare"], "ENV"),
        (["compare", "CartPole-v1", "--methods", "ppo,dqm"], "Did you mean 'dqn'"),
        (["compare", "CartPole-v1", "--methods", ","], "methods"),
        (["compare", "CartPole-v1", "--seeds", "0"], "seeds"),
        (["compare", "CartPole-v1", "--workers", "0"], "workers"),
        (["compare", "CartPole-v1", "--backend", "rey"], "Did you mean 'ray'"),
        (["compare", "CartPole-v1", "--address", "auto"], "only Ray"),
        (["compare", "Pendulum-v1", "--methods", "dqn"], "Discrete"),
        (
            ["compare", "CartPole-v1", "--metods", "ppo"],
            "--metods: polaug compare has no such option",
        ),
        (["compare", "CartPole-v1", "--metods=ppo"], "Did you mean --methods? `polaug compare --help` shows all."),
        (["train", "CartPole-v1", "--xyzzy"], "--xyzzy: polaug train has no such option. `polaug train --help` shows"),
        (["train", "CartPole-v1", "Acrobot-v1"], "unrecognized arguments: Acrobot-v1. `polaug train --help`"),
        (["list", "--versoin"], "polaug list has no such option"),
        (["compare", "clasic"], "no suite and no task is called 'clasic'. Did you mean the suite 'classic'?"),
        (["explore", "--env", "Papr"], "Did you mean the suite 'paper'?"),
        (["compare", "Blackjack-v1", "--methods", "ppo"], "ppo cannot see the Tuple observations of Blackjack-v1."),
        (["paper", "--methods", "nothing"], "method"),
        (["export", "/no/such/folder"], "folder"),
        (["watch", "/no/such/model.zip"], "model"),
        (["watch", "/no/such/model.zip", "--fps", "0"], "above 0, got '0'; for example 30"),
        (["watch", "/no/such/model.zip", "--width", "3"], "--width"),
    ],
)
def test_mistakes_are_one_line_on_stderr_with_code_2(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.startswith("polaug: ")
    assert captured.err.count("\n") == 1
    assert not captured.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["train"], ["compare", "--backend", "local"], ["explore"]])
def test_a_folder_that_can_not_be_written_is_refused_before_anything_starts(tmp_path, capsys, monkeypatch, command):
    def refuse(**options):
        assert options == {"dir": tmp_path}
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("polaug.cli.arguments.tempfile.TemporaryFile", refuse)
    out = tmp_path / "a" / "b"
    assert run(command[0], "CartPole-v1", *command[1:], "--out", out) == 2
    captured = capsys.readouterr()
    assert captured.err == f"polaug: out: {out} cannot be written (permission denied). Choose another folder.\n"
    assert not captured.out
    assert not list(tmp_path.iterdir())


def test_a_folder_that_can_not_be_written_is_one_line_too(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert explore(tmp_path / "file") == 2
    assert "polaug: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "out", "words"),
    [
        ("report", "folder", "--out: must be a file, not a folder, got '{out}'. For example {out}/report.html."),
        ("report", "file/x.html", "--out: the report must be writable (file exists), got '{out}'. Choose another"),
        ("export", "file", "out: must be a folder, got '{out}'. Choose another name, or move that file away."),
        ("export", "file/x", "--out: the tables must be writable (not a directory), got '{out}'. Choose another"),
    ],
)
def test_a_place_that_can_not_be_written_is_told_in_a_sentence(tmp_path, capsys, command, out, words):
    write_run(tmp_path / "runs", "Car", "ppo", 0)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    assert run(command, tmp_path / "runs", "--out", tmp_path / out) == 2
    captured = capsys.readouterr()
    given = words.replace("'{out}'", shown(str(tmp_path / out)))  # long paths are shortened there
    assert captured.err.startswith(f"polaug: {given.format(out=tmp_path / out)}")
    assert captured.err.count("\n") == 1
    assert not captured.out
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (["garbage"], 1),
        ([], 1),
        (["episode,step,return,length,actor", "1,99999999999999999999,1.0,3,agent"], 2),
        (["episode,step,return,length,actor", "1,200,1.0,200,agent", "2,100,1.0,200,agent"], 3),
    ],
)
def test_a_report_names_the_damaged_file(tmp_path, capsys, rows, line):
    for seed in range(2):
        path = write_run(tmp_path, "Car", "ppo", seed)
    (path / "episodes.csv").write_text("\n".join(rows))
    assert run("report", tmp_path) == 2
    assert f"{path / 'episodes.csv'} is damaged at line {line} (" in capsys.readouterr().err


def test_interrupted_is_130_and_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(explore_command, "explore", interrupted)
    assert explore(tmp_path) == 130
    told = capsys.readouterr().err
    assert "finished runs are kept, those under way start anew. Go on with: polaug explore CartPole-v1 --exp" in told
    assert not list(tmp_path.rglob("done.json"))
    monkeypatch.undo()
    assert explore(tmp_path) == 0


def test_an_interrupted_training_is_not_called_kept(tmp_path, capsys, monkeypatch):
    """It starts anew, and must not say otherwise."""

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_command, "check_fit", interrupted)
    assert run("train", "CartPole-v1", "--out", tmp_path) == 130
    told = capsys.readouterr().err.splitlines()[-1]
    assert "the run is not finished, and the same command starts it anew" in told
    assert "kept" not in told


def test_train_refuses_a_file_before_it_says_that_it_starts(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run("train", "CartPole-v1", "--out", tmp_path / "file") == 2
    told = capsys.readouterr().err
    assert told.startswith(f"polaug: out: {tmp_path / 'file'} is a file, where a folder is needed.")
    assert told.count("\n") == 1


# -- help and flags -------------------------------------------------------------------------------------------------


def test_version_and_help(capsys):
    for flag, words in (("--version", f"polaug {polaug.__version__}"), ("--help", "exit codes")):
        with pytest.raises(SystemExit) as ended:
            run(flag)
        assert ended.value.code == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("command", ["train", "compare", "paper", "explore", "report", "watch", "export", "list"])
def test_every_command_has_an_example_that_parses(command, capsys):
    with pytest.raises(SystemExit):
        run(command, "--help")
    text = capsys.readouterr().out
    assert "exit codes" in text
    examples = [line.split()[1:] for line in text.splitlines() if line.startswith(f"  polaug {command}")]
    assert examples
    for words in examples:
        cli.parser().parse_args(words)


def test_one_field_of_the_augmentation_is_one_flag(capsys):
    assert set(FLAGS) == {field.name for field in dataclasses.fields(Augmentation)}
    words = ["train", "CartPole-v1"]
    values = {"explorer": "paper", "explorer_options": {"alpha": 0.2}, "transfer": "imitate", "seed": 7}
    for field in dataclasses.fields(Augmentation):
        value = values.get(field.name, 1 if field.default is None else field.default)
        values[field.name] = value
        words += [FLAGS[field.name], json.dumps(value) if isinstance(value, dict) else str(value)]
    chosen = chosen_method(cli.parser().parse_args(words))
    assert chosen.augmentation == Augmentation(**values)
    with pytest.raises(SystemExit):
        run("train", "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "Environment steps between lessons. Default: 250." in text  # the field's own sentence
    assert text.count("Default: ") == len(FLAGS)
    assert chosen_method(cli.parser().parse_args(["train", "x", "--algo", "dqn"])).name == "dqn+pa"
    assert chosen_method(cli.parser().parse_args(["train", "x", "--algo", "dqn", "--explorer", "none"])).name == "dqn"
    assert chosen_method(cli.parser().parse_args(["train", "x", "--algo", "atta2c"])).name == "atta2c"


@pytest.mark.parametrize("text", ["10000", "10_000", "1e4", "1E4"])
def test_whole_numbers_as_people_write_them(text):
    args = cli.parser().parse_args(["train", "x", "--steps", text, "--explorer-seed", text])
    assert args.steps == args.augmentation_seed == 10_000
    assert type(args.steps) is type(args.augmentation_seed) is int


def test_it_runs_as_a_module_and_does_not_wait_for_torch():
    code = "import sys; from polaug import cli; cli.main(['list']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "explorers" in done.stdout
    subprocess.run([sys.executable, "-m", "polaug", "--version"], check=True, capture_output=True)
