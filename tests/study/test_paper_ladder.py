"""The ladder from the paper to polaug: every rung runs, restarts count or not, and it goes on where it stopped."""

import itertools
import json

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import StateError
from polaug.paper import ladder as ladder
from polaug.paper.ladder import levels, successes, table
from polaug.paper.ladder_explorer import CompletedQ, FourierGrid
from polaug.study.tasks import task

CAR = spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))
ALONE = [rung for rung in ladder.RUNGS if rung.transfer is None]


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(ladder, "EPISODES", 3)
    monkeypatch.setattr(ladder, "_RESTARTED", 6)


@pytest.mark.parametrize("rung", [rung.name for rung in ALONE])
def test_every_rung_plays_all_its_episodes(short, rung):
    row = ladder.measure(("CartPole-paper", rung, 0))
    assert len(row["returns"]) == 3
    assert row["steps"] >= sum(row["returns"])
    assert all(1.0 <= each <= 200.0 for each in row["returns"])


def test_restarted_episodes_are_left_out_until_they_are_counted(short):
    before, after = (ladder.measure(("MountainCar-paper", name, 0)) for name in ("features", "restarts"))
    assert before["uncounted"] == 5  # the first five episodes never reach the flag
    assert after["uncounted"] == 0
    assert before["steps"] > after["steps"]


def test_each_rung_changes_one_thing():
    for one, other in itertools.pairwise(ALONE):
        assert (one.drives, one.options, one.counts_restarts) != (other.drives, other.options, other.counts_restarts)
    assert {rung.transfer for rung in ladder.RUNGS} <= {None, "auto", *polaug.transfers()}
    assert {rung.drives for rung in ladder.RUNGS} <= {"completed_q", *polaug.explorers()}


def test_features_have_a_constant_and_both_signs():
    X = FourierGrid(CAR).row_features()
    assert (X[:, 0] == 1.0).all()
    assert ((X[:, 1:] > 0).any(axis=0) & (X[:, 1:] < 0).any(axis=0)).all()


def corridor(**options):
    """20 places in a row; right from the last one ends with 1. It was walked once, and left was tried at the start."""
    space = spaces.Box(0.0, 1.0, (1,))
    explorer = CompletedQ(space, spaces.Discrete(2), seed=0, every=21, sweeps=200, gamma=0.9, ridge=1e-6, **options)
    places = np.linspace(0.025, 0.975, 20, dtype=np.float32)
    for k, (at, action) in enumerate([(0, 0), *((k, 1) for k in range(20))]):
        to = max(0, min(at + 2 * action - 1, 19))
        end = np.array([k == 20])
        step = (places[[at], None], np.array([action]), end.astype(float), places[[to], None], end, np.array([False]))
        explorer.observe(polaug.Transitions(*step))
    return explorer, places


@pytest.mark.parametrize("dynamics", [False, True])
def test_bellman_targets_carry_the_reward_back(dynamics):
    explorer, places = corridor(dynamics=dynamics)
    values = explorer.q_values(places[:, None])
    assert values[19, 1] > values[10, 1] > values[5, 1] > 0.0
    assert values[0, 1] > values[0, 0]


def test_optimism_is_where_nothing_was_tried():
    (greedy, places), (hopeful, _) = corridor(), corridor(optimism=1.0)
    gap = hopeful._values(hopeful._hash(places[:, None])) - np.clip(
        hopeful._q.predict(hopeful._hash(places[:, None]), np.eye(2)), *hopeful._range
    )
    assert gap[10, 0] > gap[10, 1] > 0.0
    assert greedy._bonus_size == 0.0


def test_it_goes_on_where_it_stopped(short, monkeypatch, tmp_path):
    monkeypatch.setattr(ladder, "RUNGS", tuple(r for r in ladder.RUNGS if r.name in ("printed", "bellman")))
    said = []
    path = ladder.run_ladder(tmp_path, 1, said.append)
    assert len(path.read_text().splitlines()) == 4
    assert (tmp_path / "figures" / "ladder.png").stat().st_size > 10_000
    whole = path.read_text()
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))  # the last cell was under way
    said.clear()
    ladder.run_ladder(tmp_path, 1, said.append)
    assert said[0].startswith("4 cells, 3 from before")
    assert {json.dumps(row) for row in ladder.read(path).values()} == set(whole.splitlines())
    path.write_text("nonsense\n" + whole)
    with pytest.raises(StateError, match="line 1"):
        ladder.read(path)


def test_the_table_has_a_row_for_each_rung():
    rows = {}
    for seed in range(3):
        for each in ("CartPole-paper", "MountainCar-paper"):
            rows[each, "printed", seed] = {"returns": [20.0, 190.0 + 5.0 * seed]}
            rows[each, "planning_taught", seed] = {"agent": 199.0}
    cart = task("CartPole-paper")
    printed, taught = ladder.RUNGS[0], ladder.RUNGS[-1]
    assert levels(rows, "CartPole-paper", printed) == [105.0, 107.5, 110.0]
    assert successes(rows, cart, printed) == (2, 3)
    assert successes(rows, cart, taught) == (3, 3)
    lines = table(rows).splitlines()
    assert len(lines) == 2 + len(ladder.RUNGS)
    assert "107.5" in lines[2]
