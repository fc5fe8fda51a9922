"""Damage in any file of a run: what reads it goes on, or ends with an error of polaug's that names the file."""

import random
import shutil

import numpy as np
import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv

from polaug.cli.export import export
from polaug.errors import PolaugError, StateError
from polaug.report import write_report
from polaug.sb3 import augment
from polaug.state import load_state, save_state
from polaug.study.agents import read_normalization
from polaug.study.folder import COLUMNS
from polaug.study.results import find_runs
from polaug.study.tasks import Task
from polaug.study.train import train
from polaug.watch.agent import algorithm_of

BUDGET = 25
"""Damages of each file."""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two finished runs with a file of every kind."""
    out = tmp_path_factory.mktemp("study")
    options = {"steps": 400, "every": 200, "eval_episodes": 1, "confirm_episodes": 2, "early_every": 0}
    pairs = (("dqn+pa", "MountainCar-v0"), ("ppo+counting", "CartPole-v1"), ("ppo-tuned", "MountainCar-v0"))
    for method, task in pairs:
        train(task, method, out=out, save_model=True, **options)
    return out


def damaged(content, rng):
    """Bits flipped, a piece cut out, a number made huge, or the end missing."""
    result = bytearray(content)
    kind = rng.randrange(4)
    if kind == 0:
        for _ in range(rng.randint(1, 4)):
            result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        at = rng.randrange(len(result))
        del result[at : at + rng.randint(1, 40)]
    elif kind == 2:
        at = rng.randrange(len(result))
        result[at : at + 1] = rng.choice([b"1e308", b"nan", b"-9" * 12, b"\xff", b"\0", b'"', b"{", b"\n"])
    else:
        del result[rng.randrange(len(result)) :]
    return bytes(result)


def used(folder):
    """Everything that reads runs: the list, the report with its figures, the exports."""
    find_runs(folder)
    write_report(folder)
    export(folder, folder / "tables")


FILES = [*COLUMNS, "config.json", "done.json", "maps.npz"]


@pytest.mark.parametrize("name", FILES)
def test_damage_is_named_or_harmless(study, tmp_path, name):
    files = sorted(file for file in study.rglob(name) if "tuned" not in str(file))  # that one has no whole episode
    assert files
    rng, seen = random.Random(name), set()
    for k in range(BUDGET):
        whole = files[k % len(files)]
        folder = tmp_path / str(k)
        shutil.copytree(whole.parent, folder, ignore=shutil.ignore_patterns("model.zip"))
        (folder / name).write_bytes(damaged(whole.read_bytes(), rng))
        try:
            used(folder)
            seen.add("used")
        except PolaugError as fault:
            seen.add("refused" if name in str(fault) or "runs: " in str(fault) else str(fault))
        shutil.rmtree(folder)
    assert seen == {"used"} if name == "maps.npz" else {"refused"} <= seen <= {"used", "refused"}


def test_a_damaged_map_is_left_out_and_the_report_says_so(study, tmp_path):
    (source,) = study.rglob("dqn+pa/seed_0")
    shutil.copytree(source, tmp_path / "run")
    file = tmp_path / "run" / "maps.npz"
    file.write_bytes(file.read_bytes()[:-200])
    (run,) = find_runs(tmp_path)
    assert run.maps is None
    page = write_report(tmp_path).read_text()
    assert "The maps of" in page
    assert "are left out" in page
    assert "left out" not in write_report(study, tmp_path / "whole.html").read_text()


@pytest.mark.parametrize("change", [
    lambda maps: maps | {"visits": maps["visits"][:, :-1]}, lambda maps: maps | {"dimensions": np.array([0, 7])},
    lambda maps: {name: maps[name] for name in maps if name != "edges"},
    lambda maps: maps | {"observed": np.full_like(maps["observed"], np.inf)},
    lambda maps: maps | {"completed": np.full(maps["observed"].shape, 1e300)},
    lambda maps: maps | {"choice": np.full(maps["visits"].shape, 10**6)}, lambda maps: maps | {"median": np.array(1.0)},
    lambda maps: maps | {"steps": maps["steps"].astype(str)}, lambda maps: maps | {"visits": -maps["visits"]},
])  # fmt: skip
def test_whole_files_with_maps_that_cannot_be_drawn(study, tmp_path, change):
    (source,) = study.rglob("dqn+pa/seed_0")
    shutil.copytree(source, tmp_path / "run")
    file = tmp_path / "run" / "maps.npz"
    save_state(file, change(load_state(file)))
    assert "are left out" in write_report(tmp_path, figures=True).read_text()


def test_damaged_studies_models_and_statistics_are_refused(study, tmp_path):
    out = study
    rng = random.Random(0)
    (statistics,) = out.rglob("normalization.npz")
    task = Task("MountainCar-v0", "MountainCar-v0")
    readers = {
        statistics: lambda file: read_normalization(file, DummyVecEnv([task.make])),
        next(out.rglob("dqn+pa/seed_0/model.zip")): lambda file: (algorithm_of(file), augment(DQN).load(file)),
    }
    for whole, read in readers.items():
        refusals = 0
        for _ in range(2 * BUDGET):
            file = tmp_path / whole.name
            file.write_bytes(damaged(whole.read_bytes(), rng))
            try:
                read(file)
            except PolaugError as fault:
                refusals += isinstance(fault, StateError)
        assert refusals > BUDGET / 2, whole.name
