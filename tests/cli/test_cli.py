"""The command line as a user meets it: what it prints, where it writes, and how it fails."""

import csv
import dataclasses
import json
import subprocess
import sys

import pytest
from tests import commands
from tests.study.run_folders import write_run

import polaug
from polaug import cli
from polaug.cli import explore as explore_command
from polaug.cli import train as train_command
from polaug.cli.train import FLAGS, chosen_method
from polaug.completion import SOLVERS
from polaug.config import Augmentation
from polaug.errors import shown
from polaug.explorers import METHODS as EXPLORERS
from polaug.features import ACTION_FEATURES, STATE_FEATURES
from polaug.study import METHODS, TASKS, find_runs


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
    assert lines[0] == "CartPole-v1: 3 episodes of each run"
    assert lines[2].split()[:3] == ["random", "2", "never"]
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
    assert "note: rnd only adds a bonus to an agent's rewards; alone it acts at random\n" in captured.err
    assert "random only pays" not in captured.err


def test_explore_says_which_arm_the_portfolio_chose(tmp_path):
    assert explore(tmp_path, "--explorer", "portfolio,random", "--seeds", 1) == 0
    runs = {found.method: found for found in find_runs(tmp_path)}
    assert len(runs["portfolio"].choices) == 3
    assert runs["random"].choices == ()


def test_finished_runs_are_not_run_again(tmp_path, capsys, monkeypatch):
    assert explore(tmp_path) == 0
    monkeypatch.setattr(explore_command, "explore", None)
    assert explore(tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("report.html")


def test_one_is_not_many(tmp_path, capsys):
    assert explore(tmp_path, "--seeds", 1, "--episodes", 1) == 0
    first, *_, last, _ = capsys.readouterr().out.splitlines()
    assert first == "CartPole-v1: 1 episode of each run"
    assert last.startswith("1 run, ")


def test_other_settings_do_not_overwrite(tmp_path, capsys):
    assert explore(tmp_path) == 0
    assert explore(tmp_path, "--episodes", 4) == 2
    assert "episodes=3" in capsys.readouterr().err


def test_several_explorers_and_tasks_share_a_report(tmp_path, capsys):
    arguments = ("--explorer", "random,epsilon_z", "--episodes", 2, "--seeds", 1, "--seed", 5, "--out", tmp_path)
    assert run("explore", "CartPole-v1", "--env", "FrozenLake8x8", *arguments) == 0
    assert len(list(tmp_path.rglob("seed_5/done.json"))) == 4
    assert len(capsys.readouterr().out.splitlines()) == 2 * (1 + 3 + 1) + 2
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
        (["train", "CartPole-v1", "--step", "10"], "--step: polaug train has no such option. Did you mean --steps?"),
        (["compare", "CartPole-v1", "--seed=1", "--meth", "ppo"], "--meth"),
        (["explore"], "polaug: ENV: none was given. For example"),
        (["explor"], "Did you mean 'explore'"),
        ([], "COMMAND: none was given. Choose one of: train, compare"),
        (["report", "/no/such/folder"], "folder"),
        (["train", "CartPool-v1"], "Did you mean 'CartPole-v1'"),
        (["train", "CartPole-v1", "--algo", "pppo"], "Did you mean 'ppo'? `polaug list` shows all.\n"),
        (
            ["train", "CartPole-v1", "--explorer-options", '{"featurs": 1}'],
            "polaug: option: no option of explorer 'portfolio' is called 'featurs'. Did you mean 'features'",
        ),
        (["train", "CartPole-v1", "--explorer", "portfolo"], "Did you mean 'portfolio'"),
        (["train", "CartPole-v1", "--transfer", "kickstrt"], "Did you mean 'kickstart'"),
        (["train", "CartPole-v1", "--explorer", "none", "--teach-every", "3"], "--explorer"),
        (["train", "CartPole-v1", "--explorer-options", "{"], "JSON"),
        (["train", "CartPole-v1", "--trial-share", "2"], "--trial-share"),
        (
            ["train", "CartPole-v1", "--steps", "-5"],
            "steps: must be a whole number of at least 1, got -5. Pass for example steps=20000.",
        ),
        (["train", "CartPole-v1", "--steps", "1.5e0"], "--steps: must be a whole number, got '1.5e0'"),
        (["train", "CartPole-v1", "--steps", "1e400"], "got '1e400'"),
        (["train", "CartPole-v1", "--explorer-seed", "1.5"], "must be a whole number, got '1.5'"),
        (["train", "CartPole-v1", "--episodes", "0"], "episodes"),
        (["train", "CartPole-v1", "--every", "0"], "for example every=1000"),
        (["train", "CartPole-v1", "--eval-episodes", "0"], "for example eval_episodes=10"),
        (["train", "CartPole-v1", "--seed", "-1"], "at least 0"),
        (["train", "Pendulum-v1", "--algo", "dqn"], "Discrete"),
        (["train", "CartPole-v1", "--env", "Acrobot-v1"], "one at a time"),
        (["train"], "polaug: ENV: none was given. For example"),
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
        (
            ["compare", "CartPole-v1", "--metods=ppo"],
            "Did you mean --methods? `polaug compare --help` lists the options.",
        ),
        (["train", "CartPole-v1", "--xyzzy"], "--xyzzy: polaug train has no such option. `polaug train --help` lists"),
        (["train", "CartPole-v1", "Acrobot-v1"], "ENV: one at a time, got ['CartPole-v1', 'Acrobot-v1']"),
        (["list", "all"], "unexpected extra argument(s) (all). `polaug list --help` lists the options."),
        (["train", "CartPole-v1", "-p", "n_steps"], "-p: must be NAME:VALUE, got 'n_steps'. Pass for example"),
        (["train", "CartPole-v1", "-p", "n_step:5"], "is called 'n_step'. Did you mean 'n_steps'"),
        (["train", "CartPole-v1", "--n-envs", "0"], "--n-envs: must be a whole number of at least 1"),
        (["train", "CartPole-v1", "--env-kwargs", "[1]"], "--env-kwargs: must be a JSON object"),
        (["train", "CartPole-v1", "--hyperparams", "no.yml"], "--hyperparams: must be a YAML file"),
        (["compare", "CartPole-v1", "--track"], "--track: needs the package wandb"),
        (["tune", "CartPole-v1", "--algo", "pppo+pa"], "Did you mean"),
        (["tune", "CartPole-v1", "--algo", "sarsa-tiles"], "needs a vector of at most 4 numbers with bounds"),
        (["push", "/no/such/run", "--repo", "me"], "--repo: must be USER/NAME"),
        (["push", "/no/such/run", "--dry-run"], "--out: must be given with --dry-run"),
        (["list", "--versoin"], "polaug list has no such option"),
        (["compare", "clasic"], "no suite and no task is called 'clasic'. Did you mean the suite 'classic'?"),
        (["explore", "--env", "Papr"], "Did you mean the suite 'paper'?"),
        (["compare", "Blackjack-v1", "--methods", "ppo"], "ppo cannot see the Tuple observations of Blackjack-v1."),
        (["paper", "--methods", "nothing"], "method"),
        (["export", "/no/such/folder"], "folder"),
        (["watch", "/no/such/model.zip"], "model"),
        (["watch", "/no/such/model.zip", "--fps", "0"], "above 0, got 0.0. Pass for example fps=1.0"),
        (["watch", "/no/such/model.zip", "--width", "3"], "width"),
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


def test_a_folder_that_can_not_be_written_is_one_line_too(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert explore(tmp_path / "file") == 2
    assert "polaug: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "out", "words"),
    [
        ("report", "folder", "--out: must be a file, not a folder, got '{out}'. For example {out}/report.html."),
        ("report", "file/x.html", "out: {out.parent} cannot be written (file exists). Choose another"),
        ("export", "file", "out: must be a folder, got '{out}'. Choose another name, or move that file away."),
        ("export", "file/x", "out: {out} cannot be written (not a directory). Choose another"),
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
    assert (
        "finished runs are kept, unfinished ones start again. Continue with: polaug explore CartPole-v1 --exp" in told
    )
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
    assert "the run is not finished; the same command starts it again" in told
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
        assert run(flag) == 0
        assert words in capsys.readouterr().out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_has_an_example_that_parses(command, capsys):
    assert run(command, "--help") == 0
    text = capsys.readouterr().out
    assert "exit codes" in text
    examples = [line.split()[1:] for line in text.splitlines() if line.strip().startswith(f"polaug {command}")]
    assert examples
    for words in examples:
        assert commands.parsed(words)[0] == command


def chosen(*words):
    _, found = commands.parsed(["train", "x", *words])
    start = "augmentation_"
    own = {name.removeprefix(start): value for name, value in found.items() if name.startswith(start)}
    return chosen_method(found["algo"], {name: value for name, value in own.items() if value is not None})


def test_one_field_of_the_augmentation_is_one_flag(capsys):
    assert set(FLAGS) == {field.name for field in dataclasses.fields(Augmentation)}
    words = []
    values = {"explorer": "paper", "explorer_options": {"alpha": 0.2}, "transfer": "kickstart", "seed": 7}
    values["guide"] = "model"
    for field in dataclasses.fields(Augmentation):
        value = values.get(field.name, 1 if field.default is None else field.default)
        values[field.name] = value
        words += [FLAGS[field.name], json.dumps(value) if isinstance(value, dict) else str(value)]
    assert chosen(*words).augmentation == Augmentation(**values)
    assert run("train", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Environment steps between two teaching phases. Default: 250." in text  # the field's own sentence
    assert text.count("Default: ") == len(FLAGS)
    assert chosen("--algo", "dqn").name == "dqn+pa"
    assert chosen("--algo", "dqn", "--explorer", "none").name == "dqn"
    assert chosen("--algo", "atta2c").name == "atta2c"


@pytest.mark.parametrize("text", ["10000", "10_000", "1e4", "1E4"])
def test_whole_numbers_as_people_write_them(text):
    _, found = commands.parsed(["train", "x", "--steps", text, "--explorer-seed", text])
    assert found["steps"] == found["augmentation_seed"] == 10_000
    assert type(found["steps"]) is type(found["augmentation_seed"]) is int


def test_it_runs_as_a_module_and_does_not_wait_for_torch():
    code = "import sys; from polaug import cli; cli.main(['list']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "explorers" in done.stdout
    subprocess.run([sys.executable, "-m", "polaug", "--version"], check=True, capture_output=True)


# -- completion -----------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(monkeypatch, capsys):
    """What bash would be offered after these words, the last of which is being typed."""

    def ask(*words):
        told = {"_POLAUG_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["polaug", *words]),
                "COMP_CWORD": str(len(words))}  # fmt: skip
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit):
            cli.main([])
        return set(capsys.readouterr().out.split())

    return ask


def test_the_tab_key_offers_commands_flags_and_names_also_in_lists(offered):
    assert offered("tra") == {"train"}
    assert {"--steps", "--seeds", "--env-kwargs"} <= offered("compare", "--")
    assert offered("train", "MountainCar-") == {"MountainCar-v0", "MountainCar-paper"}
    assert offered("compare", "cl") == {"classic"}
    assert {"ppo,dqn", "ppo,dqn+pa"} <= offered("compare", "x", "--methods", "ppo,dq")


def test_completion_can_be_installed(capsys):
    assert run("--help") == 0
    assert "--install-completion" in capsys.readouterr().out
