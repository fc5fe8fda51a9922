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


def tables(text):
    """Titles, and below each its rows as dicts by the columns' names."""
    found = {}
    for part in text.split("\n\n**"):
        title, _, head, _, *lines = part.splitlines()
        cells = [[word.strip() for word in line.strip("|").split("|")] for line in (head, *lines)]
        found[title.replace("**", "")] = [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
    return found


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
    made = tables(benchmark.table([
        *rows("ppo", levels), *rows("ppo", levels + 90, steps=60_000),
        *rows("ppo+pa", levels + 60, explorer="committee"), *rows("ppo+pa:balance", levels - 1, explorer="committee"),
        *rows("ppo+pa", levels, explorer="random"), *rows("dqn+pa", levels, explorer="committee"),
    ]))  # fmt: skip
    found = {(row["method"], row["steps run"]): row["minus plain"] for part in made.values() for row in part}
    assert found["ppo", "30,000"] == found["ppo", "60,000"] == found["dqn+pa", "30,000"] == ""
    assert found["ppo+pa", "30,000"].startswith("+60.0 [")
    assert found["ppo+pa", "30,000"].endswith(": better")
    assert found["ppo+pa:balance", "30,000"].endswith(": not worse")
    assert found["ppo+pa (random)", "30,000"].startswith("+0.0 [")


def test_few_seeds_allow_no_verdict():
    found = tables(benchmark.table([*rows("ppo", [400.0]), *rows("ppo+pa", [500.0], explorer="committee")]))
    assert found["CartPole-v1 (solved from 475 on)"][-1]["minus plain"] == "+100.0: unclear"


def test_every_task_has_a_table_and_ablations_are_apart():
    car = {"task": "MountainCar-v0", "explorer": "committee"}
    found = tables(benchmark.table([
        *rows("ppo", [400.0]), *rows("ppo+pa", [500.0], explorer="committee"), *rows("explorer", [1.0], **car),
        *rows("ppo+pa", [450.0], explorer="random"), *rows("ppo+pa", [-100.0], **car),
        *rows("ppo+pa:imitate", [-110.0], **car),
    ]))  # fmt: skip
    assert {title: [row["method"] for row in part] for title, part in found.items()} == {
        "MountainCar-v0 (solved from −110 on)": ["ppo+pa"],
        "CartPole-v1 (solved from 475 on)": ["ppo", "ppo+pa"],
        "MountainCar-v0, ablations (solved from −110 on)": ["explorer", "ppo+pa:imitate"],
        "CartPole-v1, ablations (solved from 475 on)": ["ppo+pa (random)"],
    }
    assert not any("task" in row for part in found.values() for row in part)
    assert "our target" not in found["MountainCar-v0, ablations (solved from −110 on)"][0]  # an empty column
    assert found["MountainCar-v0 (solved from −110 on)"][0]["our target"] == "6,000"
