"""The transfer benchmark: one table of tuned settings, rows that can be read back, and a fair last column."""

import json

import numpy as np
import pytest
from benchmarks import transfer as benchmark

KEYS = {"task", "method", "seed", "steps", "explorer", "evaluations", "seconds", "explorer_share", "let_go"}


def rows(method, levels, *, steps=30_000, task="CartPole-v1", explorer=""):
    return [
        {"task": task, "method": method, "seed": seed, "steps": steps, "explorer": explorer, "seconds": 30.0,
         "evaluations": [[steps - 1000, level], [steps, level]], "explorer_share": 0.0}
        for seed, level in enumerate(levels)
    ]  # fmt: skip


def columns(line):
    return [part.strip() for part in line.strip("|").split("|")]


@pytest.mark.parametrize(("method", "task"), [("ppo-tuned", "CartPole-v1"), ("dqn+pa:imitate", "MountainCar-v0")])
def test_a_run_has_the_columns_that_the_file_has(tmp_path, monkeypatch, capsys, method, task):
    path = tmp_path / "rows.jsonl"
    words = ["--tasks", task, "--methods", method, "--seeds", "1", "--steps", "256", "--every", "128",
             "--episodes", "1", "--explorer", "random", "--results", str(path)]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["transfer", *words])
    benchmark.main()
    (row,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert set(row) == KEYS
    assert (row["explorer"], [step for step, _ in row["evaluations"]]) == (
        "random" if "+" in method else "",
        [128, 256],
    )
    benchmark.main()  # what is there is not run again
    assert len(path.read_text().splitlines()) == 1
    assert method in capsys.readouterr().out


def test_what_the_zoo_has_not_is_left_out(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    monkeypatch.setattr("sys.argv", ["transfer", "--tasks", "MountainCar-v0", "--methods", "sac-tuned", "--seeds", "1",
                                     "--results", str(path)])  # fmt: skip
    benchmark.main()
    assert not path.exists()


def test_the_last_level_is_compared_with_the_plain_agent_of_the_same_budget():
    rng = np.random.default_rng(0)
    levels = 400 + rng.normal(0, 5, 10)
    lines = benchmark.table([
        *rows("ppo", levels), *rows("ppo", levels + 90, steps=60_000),
        *rows("ppo+pa", levels + 60, explorer="committee"), *rows("ppo+pa:balance", levels - 1, explorer="committee"),
        *rows("ppo+pa", levels, explorer="random"), *rows("dqn+pa", levels, explorer="committee"),
    ]).splitlines()  # fmt: skip
    found = {(columns(line)[1], columns(line)[2]): columns(line)[9] for line in lines[2:]}
    assert found["ppo", "30,000"] == found["ppo", "60,000"] == found["dqn+pa", "30,000"] == ""
    assert found["ppo+pa", "30,000"].startswith("+60.0 [")
    assert found["ppo+pa", "30,000"].endswith(": better")
    assert found["ppo+pa:balance", "30,000"].endswith(": not worse")
    assert found["ppo+pa (random)", "30,000"].startswith("+0.0 [")


def test_few_seeds_allow_no_verdict():
    lines = benchmark.table([*rows("ppo", [400.0]), *rows("ppo+pa", [500.0], explorer="committee")]).splitlines()
    assert columns(lines[-1])[9] == "+100.0: unclear"
