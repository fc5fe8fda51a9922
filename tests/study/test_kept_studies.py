"""A study's finished runs fit into one small file, and come back from it as they were."""

import pytest
from benchmarks.studies import pack, restore
from tests.study.run_folders import write_run

from polaug.study.results import find_runs
from polaug.study.summary import summary_json


def test_a_study_goes_on_from_what_was_kept_of_it(tmp_path):
    for seed in range(3):
        write_run(tmp_path / "study", "MountainCar-v0", "ppo+pa", seed, returns=(-200.0, -150.0 + seed), explored=1)
    half_done = write_run(tmp_path / "study", "MountainCar-v0", "ppo", 0)
    (half_done / "done.json").unlink()
    pack(tmp_path / "study", tmp_path / "runs.tar.xz")
    restore(tmp_path / "runs.tar.xz", tmp_path / "again")
    assert len(find_runs(tmp_path / "again")) == 3
    (half_done / "config.json").unlink()  # the study's other runs
    for name in ("episodes.csv", "evaluations.csv", "clock.csv"):
        (half_done / name).unlink()
    assert summary_json(find_runs(tmp_path / "again")) == summary_json(find_runs(tmp_path / "study"))


def test_finished_runs_are_not_overwritten(tmp_path):
    write_run(tmp_path / "study", "MountainCar-v0", "ppo", 0)
    pack(tmp_path / "study", tmp_path / "runs.tar.xz")
    with pytest.raises(SystemExit, match="must be empty"):
        restore(tmp_path / "runs.tar.xz", tmp_path / "study")
