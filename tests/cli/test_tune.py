"""A search for hyperparameters really trains, goes on where it was, and says its best."""

import shlex

import pytest
from tests.commands import parsed

from polaug import cli
from polaug.cli.tune import AGENT_SPACE, command
from polaug.study.results import find_runs

pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")


def search(out, algo, trials, steps):
    words = ["tune", "CartPole-v1", "--algo", algo, "--trials", trials, "--steps", steps, "--out", out]
    return cli.main(list(map(str, words)))


def test_a_study_resumes_and_its_best_is_the_best_of_its_runs(tmp_path, capsys):
    assert search(tmp_path, "a2c", 2, 250) == search(tmp_path, "a2c", 3, 250) == 0
    told = capsys.readouterr()
    assert [line[:5] for line in told.err.splitlines()] == ["[1/2]", "[2/2]", "[3/3]"]
    runs = find_runs(tmp_path)
    assert len(runs) == 3  # the third trial is a new one
    best = max(runs, key=lambda run: run.evaluations.means.mean())
    last = told.out[told.out.index("best of 3 trials") :]
    assert last.startswith(f"best of 3 trials: mean evaluation {best.evaluations.means.mean():.2f}\n")
    assert {line.split(":")[0].strip() for line in last.splitlines()[1:-2]} == AGENT_SPACE["a2c"].keys()
    assert f"run: {best.path}\n" in last


def test_an_augmented_agent_is_searched_with_its_augmentation(tmp_path, capsys):
    assert search(tmp_path, "a2c+pa", 1, 60) == 0
    (run,) = find_runs(tmp_path)
    assert f"teach_every: {run.config['settings']['augmentation']['teach_every']}\n" in capsys.readouterr().out


def test_the_printed_command_trains_with_the_best_settings():
    words = shlex.split(command("CartPole-v1", "dqn+pa", 500, {"learning_rate": 0.001234, "teach_every": 125}))
    assert words[:2] == ["polaug", "train"]
    _, given = parsed(words[1:])
    assert given["param"] == ["learning_rate:0.00123"]
    assert given["augmentation_teach_every"] == 125
    assert (given["env"], given["algo"], given["steps"]) == (["CartPole-v1"], "dqn+pa", 500)
