"""Tidy rows that say what the run folders say, whatever runs are called."""

import csv
import json
import sys

import numpy as np
import pytest
from tests.study.run_folders import write_run

from polaug.cli.export import COLUMNS, export, rows
from polaug.errors import InvalidInputError, UnknownNameError
from polaug.study.results import find_runs


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_rows_are_those_of_the_runs(tmp_path):
    write_run(tmp_path / "runs", "Car", "ppo", 0, returns=[-200.0, -0.1 - 0.2])
    write_run(tmp_path / "runs", "Car", "ppo+counting", 3, returns=[-200.0, -150.0], bonuses=[-190.5, -149.0])
    files = export(tmp_path / "runs", tmp_path / "out")
    assert sorted(file.name for file in files) == [
        "confirmations.csv", "episodes.csv", "evaluations.csv", "runs.csv", "summary.json",
    ]  # fmt: skip
    episodes = read(tmp_path / "out" / "episodes.csv")
    assert tuple(episodes[0]) == tuple(COLUMNS["episodes"])
    assert [row["augmented_return"] for row in episodes] == ["", "", "-190.5", "-149.0"]
    assert float(episodes[1]["return"]) == -0.1 - 0.2  # to the bit
    assert (episodes[3]["method"], episodes[3]["seed"], episodes[3]["episode"]) == ("ppo+counting", "3", "2")
    evaluations = read(tmp_path / "out" / "evaluations.csv")
    assert [row["step"] for row in evaluations[:2]] == ["100", "200"]
    assert float(evaluations[0]["seconds"]) == pytest.approx(0.5)
    confirmations = read(tmp_path / "out" / "confirmations.csv")
    assert confirmations[0] == {"task": "Car", "method": "ppo", "seed": "0", "step": "100", "mean_return": "-200.0",
                                "std_return": "1.0"}  # fmt: skip
    described = read(tmp_path / "out" / "runs.csv")
    assert json.loads(described[0]["config"])["task"] == "Car"
    assert [row["steps"] for row in described] == ["400", "400"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [row["method"] for row in summary["rows"]] == ["ppo", "ppo+counting"]


def test_parquet_has_the_same_rows(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_run(tmp_path / "runs", "Car", "ppo", 0)
    write_run(tmp_path / "runs", "Car", "committee", 0, evaluated=False)
    export(tmp_path / "runs", tmp_path / "out", formats=("parquet",))
    assert not list((tmp_path / "out").glob("*.csv"))
    runs = find_runs(tmp_path / "runs")
    for table, columns in COLUMNS.items():
        content = parquet.read_table(tmp_path / "out" / f"{table}.parquet").to_pylist()
        assert content == [dict(zip(columns, row, strict=True)) for row in rows(table, runs)]


def test_parquet_without_pyarrow_says_what_to_do(tmp_path, monkeypatch):
    write_run(tmp_path / "runs", "Car", "ppo", 0)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInputError, match=r"pip install pyarrow\."):
        export(tmp_path / "runs", tmp_path / "out", formats=("csv", "parquet"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["../../x", "=cmd()", 'a,"b"\nc', "naïve τ", "/etc/passwd"])
def test_names_stay_true_and_inside(tmp_path, name):
    write_run(tmp_path / "runs", name, name, 0, folder="harmless")
    export(tmp_path / "runs", tmp_path / "deep" / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "runs"]
    assert len(list((tmp_path / "deep").rglob("*"))) == 6
    told = {row["method"] for row in read(tmp_path / "deep" / "out" / "episodes.csv")}
    assert told == {f"'{name}" if name == "=cmd()" else name}


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r"])
def test_text_that_a_spreadsheet_would_take_for_a_formula_is_marked(tmp_path, sign):
    write_run(tmp_path / "runs", f"{sign}1+1", "ppo", 0)
    export(tmp_path / "runs", tmp_path / "out")
    for table in ("episodes", "evaluations", "runs"):
        row = read(tmp_path / "out" / f"{table}.csv")[0]
        assert (row["task"], row["method"]) == (f"'{sign}1+1", "ppo")
    assert float(read(tmp_path / "out" / "episodes.csv")[0]["return"]) == -200.0  # numbers stay numbers


def test_when_a_run_was_solved_and_what_it_ended_with(tmp_path):
    levels = [(100, -150.0), (200, -110.0), (300, -120.0), (400, -118.0)]
    write_run(tmp_path / "runs", "Car", "ppo", 0, evaluations=levels)
    write_run(tmp_path / "runs", "Car", "ppo", 1)
    write_run(tmp_path / "runs", "Car", "committee", 0, evaluated=False)
    export(tmp_path / "runs", tmp_path / "out")
    told = [(row["solved_step"], row["kept"], row["final_return"]) for row in read(tmp_path / "out" / "runs.csv")]
    assert told == [("", "", ""), ("200", "True", "-118.0"), ("", "", "-150.0")]


def test_a_run_is_never_overwritten(tmp_path):
    path = write_run(tmp_path / "runs", "Car", "ppo", 0)
    before = (path / "episodes.csv").read_bytes()
    with pytest.raises(InvalidInputError, match="must not be the folder of a run"):
        export(tmp_path / "runs", path)
    assert (path / "episodes.csv").read_bytes() == before


def test_bad_input_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="at least one finished run"):
        export(tmp_path, tmp_path / "out")
    with pytest.raises(UnknownNameError, match="Did you mean 'parquet'"):
        export(tmp_path, tmp_path / "out", formats=("parket",))


def test_a_failed_export_leaves_the_earlier_one(tmp_path, monkeypatch):
    write_run(tmp_path / "runs", "Car", "ppo", 0)
    export(tmp_path / "runs", tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("polaug.cli.export._csv", full)
    with pytest.raises(OSError, match="disk full"):
        export(tmp_path / "runs", tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_runs_without_a_whole_episode_are_exported_too(tmp_path):
    write_run(tmp_path / "runs", "Car", "ppo", 0, returns=(), evaluations=[(50, -200.0), (100, -180.0)])
    write_run(tmp_path / "runs", "Car", "ppo", 1)
    export(tmp_path / "runs", tmp_path / "out")
    (row,) = json.loads((tmp_path / "out" / "summary.json").read_text())["rows"]
    assert (row["seeds"], row["first_episodes"], row["first_100"]) == (2, 0, None)


def test_half_a_clock_is_interpolated(tmp_path):
    write_run(tmp_path / "runs", "Car", "ppo", 0)
    (run,) = find_runs(tmp_path / "runs")
    seconds = [row[4] for row in rows("evaluations", [run])]
    assert seconds == pytest.approx(np.interp(run.evaluations.steps, run.clock.steps, run.clock.seconds))
