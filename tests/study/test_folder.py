"""A run's folder is whole or not there; a finished one is never overwritten by another."""

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import polaug
from polaug.errors import InvalidInputError, StateError
from polaug.state import load_state
from polaug.study import Episode, RunFolder, explore, method
from polaug.study.folder import COLUMNS, TakenError, folder_name, write_failure, write_files
from polaug.study.results import FORMAT, read_run
from polaug.study.train import train

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
    assert config.pop("versions").keys() >= {"polaug", "python", "gymnasium", "numpy", "torch"}
    assert config.pop("format") == FORMAT
    assert config == json.loads(json.dumps(SETTINGS))
    rows = list(csv.reader((run / "episodes.csv").read_text().splitlines()))
    assert rows[0] == ["episode", "step", "return", "length", "actor"]
    assert float(rows[1][2]) == -0.1 - 0.2  # to the last bit
    assert json.loads((run / "done.json").read_text()) == {"steps": 20, "rows": {"episodes.csv": 2}}
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def encode(observations):
    return np.asarray(observations)[:, :1]


class Encoder:
    def __call__(self, observations):
        return encode(observations)


def test_functions_and_arrays_among_the_options_are_written(tmp_path):
    options = {"features": encode, "other": Encoder(), "step": np.array([0.1, 0.2]), "n": np.int64(3), "deep": [len]}
    told = {"features": f"{__name__}.encode", "other": f"{__name__}.Encoder", "step": [0.1, 0.2], "n": 3,
            "deep": ["builtins.len"]}  # fmt: skip
    run = finished(tmp_path / "run", SETTINGS | {"options": options})
    assert json.loads((run / "config.json").read_text())["options"] == told
    with RunFolder(run, SETTINGS | {"options": options}) as folder:
        assert folder.finished
    with pytest.raises(InvalidInputError, match="not overwritten"):
        RunFolder(run, SETTINGS | {"options": options | {"features": finished}})


def test_an_option_that_cannot_be_written_is_named_before_anything_is(tmp_path):
    with pytest.raises(InvalidInputError, match=r"options: must be numbers, .* got <object"):
        RunFolder(tmp_path / "run", SETTINGS | {"options": {"deep": [1, object()]}})
    assert not (tmp_path / "run").exists()


def test_an_agent_with_an_encoder_is_trained_and_its_run_is_read_again(tmp_path):
    settings = polaug.Augmentation("committee", explorer_options={"features": encode})
    seeing = dataclasses.replace(method("dqn+pa"), name="seeing", augmentation=settings)
    for _ in range(2):
        run = train("CartPole-v1", seeing, steps=60, out=tmp_path, every=60, eval_episodes=1)
        assert run.config["options"] == {"features": f"{__name__}.encode"}


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
    with RunFolder(tmp_path, SETTINGS) as folder:
        folder.add(Episode(1, 9, 1.0, 9, "explorer"))
        monkeypatch.setattr(Path, "replace", lambda *arguments, **options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            folder.finish({"steps": 9})
    assert not (tmp_path / "done.json").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".done")]


def test_a_damaged_finished_run_is_named(tmp_path):
    finished(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(StateError, match=r"config\.json"):
        RunFolder(tmp_path, SETTINGS)


@pytest.mark.parametrize("name", ["config.json", "done.json", "episodes.csv", "model.zip"])
def test_files_that_are_not_a_runs_are_named_and_kept(tmp_path, name):
    (tmp_path / name).write_text("precious\n" * 9)
    with pytest.raises(StateError, match=r"config\.json" if name == "done.json" else name):
        RunFolder(tmp_path, SETTINGS)
    assert (tmp_path / name).read_text() == "precious\n" * 9


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_of_another_version_is_named_and_not_mixed_in(tmp_path, whole):
    with RunFolder(tmp_path, SETTINGS) as folder:
        if whole:
            folder.finish({"steps": 20})
    config = json.loads((tmp_path / "config.json").read_text())
    config["versions"]["polaug"] = "0.0.1"
    (tmp_path / "config.json").write_text(json.dumps(config))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    words = rf"config\.json is of a run with polaug='0\.0\.1', and is not mixed .* got .polaug='{polaug.__version__}"
    with pytest.raises(InvalidInputError, match=words):
        RunFolder(tmp_path, SETTINGS)
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def everything(path):
    """A finished run with rows of all kinds."""
    with RunFolder(path, SETTINGS) as folder:
        for episode in (1, 2):
            folder.add(Episode(episode, 9 * episode, 1.0, 9, "explorer"))
            folder.row("evaluations.csv", 9 * episode, 12.5, 0.25)
            folder.row("confirmations.csv", 9 * episode, 12.5, 0.25)
            folder.row("clock.csv", 9 * episode, 0.125)
            folder.row("bonuses.csv", episode, 1.375)
            folder.row("choices.csv", episode, "model")
            folder.row("scalars.csv", 9 * episode, "train/loss", 0.5)
        folder.finish({"steps": 18})
    return path


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("cut", [1, 2, 3, "a row", "all rows", "the file"])
def test_a_file_that_was_cut_off_anywhere_is_named(tmp_path, name, cut):
    """Also within the last column, where what is left looks whole, and between two rows."""
    file = everything(tmp_path) / name
    content = file.read_bytes()
    rows = content.splitlines(keepends=True)
    ends = {"a row": len(rows[-1]), "all rows": len(content) - len(rows[0])}
    assert read_run(tmp_path).done["rows"][name] == 2
    if cut == "the file":
        file.unlink()
    else:
        file.write_bytes(content[: -ends.get(cut, cut)])
    with pytest.raises(StateError, match=rf"{name} is damaged.*Move its folder away and run it again\."):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("done.json", "[1]", "it must be a JSON object"),
        ("done.json", '{"steps": [1]}', r"steps is \[1\], which is no number"),
        ("done.json", '{"rows": 3}', "rows is 3, which is no count"),
        ("config.json", '{"seed": "x"}', "seed is 'x', which is no number"),
        ("config.json", None, "there is no such file"),
        ("episodes.csv", "episode,step,return,length,actor\r\n1,9\r\n", "line 2 .the row has another length"),
        ("episodes.csv", "episode,step,return,length,actor\r\n1,x,1.0,9,agent\r\n", "step is 'x', which is no whole"),
        ("evaluations.csv", "step,mean_return,std_return\r\n9,high,1.0\r\n", "mean_return is 'high', which is no num"),
    ],
)  # fmt: skip
def test_what_is_damaged_is_said_in_words(tmp_path, name, content, why):
    file = everything(tmp_path) / name
    if content is None:
        file.unlink()
    else:
        file.write_text(content, newline="")
    with pytest.raises(StateError, match=rf"{name} is damaged.*{why}") as caught:
        read_run(tmp_path)
    assert "Error" not in str(caught.value)


def test_another_format_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"format": 1, "versions": {}}')
    with pytest.raises(StateError, match=r"config\.json has format 1"):
        RunFolder(tmp_path, SETTINGS)


def test_rows_of_all_kinds(tmp_path):
    with RunFolder(tmp_path, SETTINGS) as folder:
        folder.add(Episode(1, 9, 1.0, 9, "explorer"))
        folder.row("evaluations.csv", 9, 0.1 + 0.2, 0.0)
        folder.row("choices.csv", 1, "model, the first")
        folder.finish({"steps": 9})
    read = read_run(tmp_path)
    assert read.evaluations.means.tolist() == [0.1 + 0.2]
    assert read.choices == ("model, the first",)
    assert read.clock is None
    assert not (tmp_path / "bonuses.csv").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("-inf")])
def test_numbers_that_are_none_are_refused_by_file_and_row(tmp_path, value):
    with RunFolder(tmp_path, SETTINGS) as folder:
        folder.add(Episode(1, 9, 1.0, 9, "explorer"))
        with pytest.raises(
            InvalidInputError, match=r"return: must be finite in row 2 of .*episodes\.csv, got .*Mend the"
        ):
            folder.add(Episode(2, 18, value, 9, "explorer"))
        with pytest.raises(InvalidInputError, match=r"mean_return: must be finite in row 1 of .*evaluations\.csv"):
            folder.row("evaluations.csv", 9, value, 0.0)
        folder.finish({"steps": 9})
    assert read_run(tmp_path).done["rows"] == {"episodes.csv": 1}


def test_a_failure_is_told_and_cleared_by_the_next_try(tmp_path):
    with RunFolder(tmp_path, SETTINGS) as folder:
        folder.row("evaluations.csv", 9, 0.5, 0.0)
        write_failure(tmp_path, "ValueError: no", "Traceback …")
    assert json.loads((tmp_path / "failed.json").read_text()).items() >= {
        ("error", "ValueError: no"), ("traceback", "Traceback …"),
    }  # fmt: skip
    finished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "episodes.csv", "done.json"}


def test_two_writers_of_one_run_are_refused(tmp_path):
    with RunFolder(tmp_path, SETTINGS) as folder:
        folder.add(Episode(1, 9, 1.0, 9, "explorer"))
        with pytest.raises(TakenError, match="another process is writing"):
            RunFolder(tmp_path, SETTINGS)
        assert len((tmp_path / "episodes.csv").read_text().splitlines()) == 2
    finished(tmp_path)  # the lock went with its holder


def test_files_from_elsewhere_are_written_as_if_made_here(tmp_path):
    made = finished(tmp_path / "there")
    files = {path.name: path.read_bytes() for path in made.iterdir()} | {"../evil": b"", "other.txt": b""}
    write_files(tmp_path / "here", files)
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"config.json", "episodes.csv", "done.json"}
    assert read_run(tmp_path / "here").returns.tolist() == read_run(made).returns.tolist()
    assert {path.name for path in tmp_path.iterdir()} == {"here", "there"}


NAMES = (
    "CartPole-v1", "polaug/DeepSea-v0", "ppo+pa", "ppo+pa:imitate", "../../etc", "..", ".", "", "/root", "a b",
    "<script>", "a/b", "a_b", "x" * 300,
)  # fmt: skip


def test_folder_names_are_harmless_and_different(tmp_path):
    made = [folder_name(name) for name in NAMES]
    assert made[0] == "CartPole-v1"
    assert len(set(made)) == len(made)
    for name in made:
        assert (tmp_path / name).resolve().parent == tmp_path.resolve()
        assert not name.startswith(".")
        (tmp_path / name).mkdir()
