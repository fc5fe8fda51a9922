"""A search for hyperparameters really trains, goes on where it was, and says its best."""

import shlex

import pytest
from tests.commands import parsed

from polaug.cli.tune import AGENT_SPACE, OUR_SPACE, command, tune
from polaug.study.results import find_runs

pytest.importorskip("optuna", reason="Optuna is not installed: pip install optuna")


def test_a_study_resumes_and_its_best_is_the_best_of_its_runs(tmp_path):
    told = []
    options = {"steps": 250, "progress": lambda *news: told.append(news)}
    tune("CartPole-v1", "a2c", tmp_path, trials=2, **options)
    best = tune("CartPole-v1", "a2c", tmp_path, trials=3, **options)
    assert [number for number, _, _ in told] == [1, 2, 3]
    runs = find_runs(tmp_path)
    values = [run.evaluations.means.mean() for run in runs]
    assert best.trials == len(runs) == 3  # the third trial is a new one
    assert best.value == pytest.approx(max(values)) == pytest.approx(told[-1][2])
    assert best.parameters.keys() == AGENT_SPACE["a2c"].keys()
    assert (best.path / "done.json").exists()
    assert best.method.name in {run.method for run in runs}


def test_an_augmented_agent_is_searched_with_its_augmentation(tmp_path):
    best = tune("CartPole-v1", "a2c+pa", tmp_path, trials=1, steps=60)
    assert best.parameters.keys() == AGENT_SPACE["a2c"].keys() | OUR_SPACE.keys()
    assert best.method.augmentation.teach_every == best.parameters["teach_every"]


def test_the_printed_command_trains_with_the_best_settings():
    words = shlex.split(command("CartPole-v1", "dqn+pa", 500, {"learning_rate": 0.001234, "teach_every": 125}))
    assert words[:2] == ["polaug", "train"]
    _, given = parsed(words[1:])
    assert given["param"] == ["learning_rate:0.00123"]
    assert given["augmentation_teach_every"] == 125
    assert (given["env"], given["algo"], given["steps"]) == (["CartPole-v1"], "dqn+pa", 500)
