"""What is uploaded to the Hub, up to the upload: the files, and a card whose metadata and numbers are the run's."""

import json
import sys

import pytest
from tests.study.run_folders import write_run

from polaug import cli
from polaug.cli.push import model_card, prepare
from polaug.errors import InvalidInputError, StateError
from polaug.study.results import read_run


@pytest.fixture
def run(tmp_path):
    path = write_run(tmp_path / "runs", "MountainCar-v0", "dqn+pa", 3, evaluations=[(100, -150.0), (200, -104.0)])
    config = json.loads((path / "config.json").read_text())
    config |= {"env_id": "MountainCar-v0", "confirm_episodes": 100, "settings": {"gamma": 0.98}}
    (path / "config.json").write_text(json.dumps(config))
    (path / "model.zip").write_bytes(b"the agent")
    return path


def test_the_card_says_what_the_run_did(run):
    card = model_card(read_run(run))
    _, meta, text = card.split("---\n", 2)
    told = json.loads(meta)  # JSON is YAML
    (result,) = told["model-index"][0]["results"]
    assert result["metrics"] == [{"type": "mean_reward", "value": -104.0, "name": "mean_reward"}]
    assert "MountainCar-v0" in told["tags"]
    assert "# dqn+pa on MountainCar-v0" in text
    assert "Solved (mean return of at least −110) after 200 environment steps." in text
    assert "the mean of 100 episodes from fresh starts" in text
    assert '"gamma": 0.98' in text
    assert "from stable_baselines3 import DQN" in text
    assert "augment(DQN).load(file)" in text


def test_the_card_imports_the_agent_from_where_it_is(run):
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"method": "qrdqn+pa[gamma=0.98]"}))
    assert "from sb3_contrib import QRDQN" in model_card(read_run(run))


def test_the_folder_has_the_agent_and_the_card_and_nobody_elses_files(run, tmp_path):
    card = prepare(run, tmp_path / "out")
    assert {path.name for path in card.parent.iterdir()} == {
        "README.md", "model.zip", "config.json", "done.json", "evaluations.csv", "confirmations.csv",
    }  # fmt: skip
    assert (card.parent / "model.zip").read_bytes() == b"the agent"
    with pytest.raises(InvalidInputError, match="must be empty or not there yet"):
        prepare(run, tmp_path / "out")
    (run / "model.zip").unlink()
    with pytest.raises((InvalidInputError, StateError), match="model"):
        prepare(run, tmp_path / "other")


def test_without_the_hubs_package_it_says_what_to_do(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert cli.main(["push", str(run), "--repo", "me/car", "--out", str(tmp_path / "out")]) == 2
    assert "pip install huggingface_hub, or use --dry-run." in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
