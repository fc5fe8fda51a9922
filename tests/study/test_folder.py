"""A run's folder is whole or not there; a finished one is never overwritten by another."""

import csv
import json

import pytest

from polaug.errors import InvalidInputError, StateError
from polaug.state import load_state
from polaug.study import Episode, RunFolder, explore
from polaug.study.folder import folder_name

SETTINGS = {"task": "CartPole-v1", "explorer": "random", "seed": 0, "options": {"a": (1, 2)}}


def finished(path, settings=SETTINGS, maps=None):
    with RunFolder(path, settings) as folder:
        folder.add(Episode(1, 9, -0.1 - 0.2, 9, "explorer"))
        folder.add(Episode(2, 20, 1e6, 11, "explorer"))
        folder.finish({"steps": 20}, maps)
    return path


def test_it_holds_what_was_run(tmp_path):
    run = finished(tmp_path / "deep" / "run")
    config = json.loads((run / "config.json").read_text())
    assert config.pop("versions").keys() >= {"polaug", "python", "gymnasium", "numpy"}
    assert config == json.loads(json.dumps(SETTINGS))
    rows = list(csv.reader((run / "episodes.csv").read_text().splitlines()))
    assert rows[0] == ["episode", "step", "return", "length", "actor"]
    assert float(rows[1][2]) == -0.1 - 0.2  # to the last bit
    assert json.loads((run / "done.json").read_text()) == {"steps": 20}
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_episodes_are_on_disk_at_once_and_done_comes_last(tmp_path):
    with RunFolder(tmp_path, SETTINGS) as folder:
        folder.add(Episode(1, 9, 1.0, 9, "explorer"))
        assert len((tmp_path / "episodes.csv").read_text().splitlines()) == 2
        assert not (tmp_path / "done.json").exists()


def test_maps_are_plain_arrays(tmp_path):
    maps = explore("MountainCar-v0", "random", episodes=1).maps
    assert load_state(finished(tmp_path, maps=maps) / "maps.npz").keys() == maps.keys()


def test_a_finished_run_of_the_same_settings_is_left_alone(tmp_path):
    finished(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with RunFolder(tmp_path, SETTINGS) as folder:
        assert folder.finished
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize("change", [{"seed": 1}, {"episodes": 5}, {"options": {}}])
def test_a_finished_run_of_other_settings_is_not_overwritten(tmp_path, change):
    finished(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InvalidInputError, match=f"{next(iter(change))}.*another folder"):
        RunFolder(tmp_path, SETTINGS | change)
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_an_unfinished_run_is_started_anew(tmp_path):
    with RunFolder(tmp_path, SETTINGS | {"seed": 7}) as folder:
        folder.add(Episode(1, 9, 1.0, 9, "explorer"))
    finished(tmp_path)
    assert len((tmp_path / "episodes.csv").read_text().splitlines()) == 3
    assert json.loads((tmp_path / "config.json").read_text())["seed"] == 0


def test_a_crash_while_writing_done_leaves_an_unfinished_run(tmp_path, monkeypatch):
    monkeypatch.setattr(json, "dump", lambda *arguments, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        finished(tmp_path)
    assert not (tmp_path / "done.json").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".done")]


def test_a_damaged_finished_run_is_named(tmp_path):
    finished(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(StateError, match=r"config\.json"):
        RunFolder(tmp_path, SETTINGS)


NAMES = (
    "CartPole-v1", "polaug/DeepSea-v0", "../../etc", "..", ".", "", "/root", "a b", "<script>", "a/b", "a_b", "x" * 300,
)  # fmt: skip


def test_folder_names_are_harmless_and_different(tmp_path):
    made = [folder_name(name) for name in NAMES]
    assert made[0] == "CartPole-v1"
    assert len(set(made)) == len(made)
    for name in made:
        assert (tmp_path / name).resolve().parent == tmp_path.resolve()
        assert not name.startswith(".")
        (tmp_path / name).mkdir()
