"""Headlines of synthetic runs whose right answers are known, and their words within 80 columns."""

import dataclasses
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from polaug.cli.study_output import table
from polaug.errors import InvalidInputError
from polaug.study.results import Episodes, Evaluations, Run
from polaug.study.statistics import Estimate
from polaug.study.summary import headline, reference, summary_json
from polaug.study.wording import UNCLEAR, comparisons, interval, keeping, number, ratio


def said(runs):
    """The sentences on these runs."""
    return comparisons(headline(runs))


def run(method, seed, reaches, *, steps=40_000, task="Car", threshold=-110.0, episodes=120, after=-105.0, every=1000):
    """A run at −200 that jumps to `after` at the step `reaches` (None: never), the first half explored."""
    at = np.arange(every, steps + 1, every)
    level = np.where(at < (math.inf if reaches is None else reaches), -200.0, after) - 0.1 * seed
    actors = ("explorer",) * (episodes // 2 if "+" in method else 0)
    actors += ("agent",) * (episodes - len(actors))
    levels = Evaluations(at, level, np.zeros(len(at)))
    return Run(
        Path("runs", task, method, f"seed_{seed}"),
        {"task": task, "method": method, "seed": seed, "kind": "train", "threshold": threshold},
        {"steps": steps},
        Episodes(np.linspace(steps / episodes, steps, episodes).astype(int), np.linspace(-200, -101, episodes),
                 np.full(episodes, 200), actors),
        levels, levels,
    )  # fmt: skip


def study():
    ours = [run("ppo+pa", seed, 4000 + 500 * seed, after=-104.0) for seed in range(5)]
    return [*ours, *(run("ppo", seed, None) for seed in range(5))]


def explored(runs):
    return [dataclasses.replace(each, evaluations=None, config=each.config | {"kind": "explore"}) for each in runs]


def test_headlines():
    base, ours = headline(study())
    assert (base.method, ours.method, ours.seeds, ours.budget) == ("ppo", "ppo+pa", 5, 40_000)
    assert (ours.reached, ours.share_never, ours.kept, ours.judged, ours.keepers) == (5, 0.0, 1.0, 5, 5)
    assert (base.reached, base.share_never, base.kept, base.judged, base.keepers) == (0, 1.0, None, 0, 0)
    assert ours.steps_to_threshold.value == 5000
    assert base.steps_to_threshold == (math.inf, math.inf, math.inf)
    assert ours.final.value == pytest.approx(-104.2)
    assert ours.first_episodes == 100
    assert ours.explorer_share == 0.5
    assert ours.speed_ups["ppo"].value == math.inf
    assert 40_000 / 6000 <= ours.speed_ups["ppo"].low <= 8.0
    assert ours.improvement["ppo"] == pytest.approx((1.0, 0.643, 1.0), abs=0.001)
    assert base.speed_ups == {}  # nobody is its own baseline
    assert reference(ours) == "ppo"
    assert reference(base) is None


def test_runs_are_compared_at_the_shared_budget():
    """The longer runs of one method must not be what makes it look better."""
    long = [run("ppo+pa", seed, 30_000, steps=40_000) for seed in range(3)]
    short = [run("ppo", seed, None, steps=20_000) for seed in range(3)]
    base, ours = headline(long + short)
    assert ours.budget == base.budget == 20_000
    assert ours.reached == 0
    assert ours.steps_to_threshold.value == math.inf
    assert ours.final.value < -199
    assert math.isnan(ours.speed_ups["ppo"].value)


def test_speed_ups_are_quoted_against_the_strongest_plain_agent():
    """The earliest counts; then how many solved it; then the level in the end."""
    runs = [run("ppo+pa", seed, 2000) for seed in range(5)]
    for name, at in (("ppo", None), ("dqn", 30_000), ("dqn-strong", 8000)):
        runs += [run(name, seed, at) for seed in range(5)]
    rows = {row.method: row for row in headline(runs)}
    assert {row.reference for row in rows.values()} == {"dqn-strong"}
    assert (reference(rows["ppo+pa"]), reference(rows["dqn-strong"])) == ("dqn-strong", None)
    assert rows["ppo+pa"].speed_ups["dqn-strong"].value == 4.0
    told = table(list(rows.values()), 200)
    assert "4×" in next(line for line in told.splitlines() if line.startswith("ppo+pa"))
    assert "reference" in next(line for line in told.splitlines() if line.startswith("dqn-strong"))
    assert "dqn-strong solved in 5 of 5 runs (median 8,000 steps)" in said(runs)[0]
    assert "; speed-up 4× [" in said(runs)[0]
    assert summary_json(runs)["rows"][0]["reference"] == "dqn-strong"

    never = [run(name, seed, None) for name in ("dqn", "ppo", "ppo+pa") for seed in range(2)]
    assert reference(headline(never)[-1]) == "ppo"  # of equal ones its own
    once = [*never, run("a2c", 0, 5000), run("a2c", 1, None)]
    assert reference(headline(once)[-1]) == "a2c"


def test_every_plain_agent_is_a_baseline():
    runs = [run(name, seed, 5000) for name in ("ppo", "dqn", "ppo+pa", "ppo+rnd") for seed in range(2)]
    by_method = {row.method: row for row in headline(runs)}
    assert set(by_method["ppo+pa"].speed_ups) == {"ppo", "dqn"}
    assert set(by_method["ppo"].speed_ups) == {"dqn"}


def test_lost_again_is_not_kept():
    lost = run("ppo", 0, 5000)
    lost.evaluations.means[10:] = -200.0
    runs = [lost, run("ppo", 1, 5000), run("ppo", 2, 40_000)]  # the third is not seen afterwards
    (row,) = headline(runs)
    assert (row.kept, row.reached, row.judged, row.keepers) == (0.5, 3, 2, 1)
    assert keeping(row) == "1 of 2"
    assert " 1/2 " in table([row])
    told = summary_json(runs)["rows"][0]
    assert (told["kept"], told["judged"], told["keepers"]) == (0.5, 2, 1)


def test_a_tolerance_at_a_threshold_of_0_is_told_as_it_is():
    near = run("ppo", 0, 5000, threshold=0.0, after=-1.0)
    near.evaluations.means[4] = 0.0
    (row,) = headline([near])
    assert (row.kept, row.judged) == (1.0, 1)


def test_a_level_is_kept_as_far_as_it_was_seen():
    """Below the threshold in the end, and kept all the same: the tolerance and the steps say how."""
    runs = [run("ppo", seed, reaches, steps=8000) for seed, reaches in enumerate((3000, 6000))]
    for each in runs:
        each.evaluations.means[each.evaluations.means == -105.0 - 0.1 * each.seed] = -115.0
        each.evaluations.means[(3000, 6000)[each.seed] // 1000 - 1] = -110.0
    (row,) = headline(runs)
    assert (row.keepers, row.judged, row.watched) == (2, 2, (2000, 5000))
    assert summary_json(runs)["rows"][0]["watched"] == [2000, 5000]


def test_a_run_without_a_whole_episode_is_told_all_the_same():
    short = run("ppo", 0, 5000)
    none = dataclasses.replace(short.episodes, **{name: getattr(short.episodes, name)[:0]
                                                  for name in ("steps", "returns", "lengths", "actors")})  # fmt: skip
    rows = headline([dataclasses.replace(short, episodes=none), run("ppo", 1, 5000)])
    assert rows[0].first_episodes == 0
    assert math.isnan(rows[0].first_100)
    assert rows[0].reached == 2


def test_explorers_have_no_steps_to_threshold():
    """An explorer's return is never passed off as an agent's."""
    (row,) = headline(explored(run("committee", seed, 1000) for seed in range(3)))
    assert row.reached is row.share_never is row.kept is None
    assert math.isnan(row.steps_to_threshold.value)
    assert math.isnan(row.final.value)
    assert row.first_100 == pytest.approx(np.linspace(-200, -101, 120)[:100].mean())


def test_fewer_episodes_and_no_threshold():
    rows = headline([run("a", 0, 5000, episodes=30, threshold=None), run("b", 0, 5000, threshold=None)])
    assert [row.first_episodes for row in rows] == [30, 30]
    assert rows[0].threshold is rows[0].reached is None
    assert rows[0].final.value == -105.0
    assert math.isnan(rows[0].final.low)


def test_sparse_evaluations():
    rows = headline([run("a", 0, None, steps=3000, every=3000), run("b", 0, None, steps=4000, every=1000)])
    assert rows[1].final.value == -200
    with pytest.raises(InvalidInputError, match="within the 2000 steps"):
        headline([run("a", 0, None, steps=3000, every=3000), run("b", 0, None, steps=2000)])


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InvalidInputError, match="seed 1 must be there once"):
        headline([run("ppo", 1, 1000), run("ppo", 1, 2000)])
    with pytest.raises(InvalidInputError, match="one threshold"):
        headline([run("ppo", 1, 1000), run("ppo", 2, 2000, threshold=5.0)])
    assert headline([]) == []


def test_json_has_no_numbers_that_json_lacks():
    summary = summary_json(study())
    rows = json.loads(json.dumps(summary, allow_nan=False))["rows"]
    assert rows[0]["steps_to_threshold"] == {"value": "inf", "low": "inf", "high": "inf"}
    assert rows[1]["speed_ups"]["ppo"]["value"] == "inf"
    single = summary_json([run("ppo", 0, 1000)])["rows"][0]
    assert single["final"]["low"] is None


def test_json_has_all_tasks_at_once():
    """On Car ppo+pa ends above its threshold and ppo at its worst; on Boat neither ever moves."""
    boat = [run(name, seed, 1000, task="Boat", after=-155.0) for name in ("ppo", "ppo+pa") for seed in range(5)]
    alone = [run("dqn", seed, 1000) for seed in range(5)]  # on one task only: not compared
    found = json.loads(json.dumps(summary_json([*study(), *boat, *alone]), allow_nan=False))["overall"]
    assert found["tasks"] == ["Boat", "Car"]
    assert [each["method"] for each in found["methods"]] == ["ppo", "ppo+pa"]
    base, ours = found["methods"]
    assert ours["iqm"]["value"] == pytest.approx(0.5 * (0.0 + 1.06), abs=0.02)  # the mean of Boat and Car
    assert base["iqm"]["value"] < 0.01 < ours["iqm"]["low"] <= ours["iqm"]["value"] <= ours["iqm"]["high"]
    taus, profile = found["taus"], ours["profile"]
    assert (taus[0], taus[-1], len(taus)) == (0.0, 1.2, 61)
    assert {len(profile[part]) for part in ("value", "low", "high")} == {61}
    assert profile["value"][taus.index(0.5)] == 0.5  # all runs on Car, none on Boat
    assert profile["value"][-1] == 0.0
    assert summary_json(study())["overall"] is None  # one task


def test_table_fits_a_terminal():
    runs = study() + [run("a-method-with-a-very-long-name+pa", seed, 123_456, steps=200_000) for seed in range(12)]
    runs += [run("ppo", seed, 5000, task="T" * 90) for seed in range(2)]
    text = table(headline(runs), 80)
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    assert any(line.startswith("ppo+pa") and "5,000 [" in line and "0/5" in line and "≥" in line for line in lines)
    assert any(line.startswith("ppo ") and "> 40,000" in line and "5/5" in line for line in lines)
    assert "Car: threshold −110, 5 to 12 seeds, 40,000 steps" in lines
    wide = table(headline(runs), 1_000)
    assert "a-method-with-a-very-long-name+pa " in wide
    assert "T" * 90 in wide
    assert "…" not in wide


def several(method, reaches, **settings):
    return [run(method, seed, step, **settings) for seed, step in enumerate(reaches)]


def test_a_sentence_for_each_pair_and_how_far_to_trust_it():
    assert said(study()) == [
        "Car, ppo+pa: solved in 5 of 5 runs (median 5,000 steps), kept by 5 of 5; ppo solved in 0 of 5 runs within "
        "40,000 steps; speed-up ≥ 6.67×; final return −104.2 against −200.2.",
    ]
    assert said([]) == said(explored(study())) == []
    few = said(several("ppo+pa", [4000, None, None]) + several("ppo", [None] * 3))[0]
    assert few.startswith("Car, ppo+pa: solved in 1 of 3 runs, kept by 1 of 1; ppo solved in 0 of 3 runs within 40,000")
    assert "speed-up" not in few
    no_goal = several("ppo+pa", [4000] * 5, threshold=None) + several("ppo", [None] * 5, threshold=None)
    assert said(no_goal)[0] == "Car, ppo+pa: final return −105.2 against −200.2."


def test_three_of_three_against_none_is_said_without_claiming_more():
    """The demo: no certainty that three seeds do not give."""
    runs = several("ppo+pa", [2000, 4000, 6000], steps=8000) + several("dqn+pa", [4000, 4000, 8000], steps=8000)
    runs += several("ppo", [None] * 3, steps=8000) + several("dqn", [None] * 3, steps=8000)
    first, second = said(runs)
    assert first.startswith(
        "Car, dqn+pa: solved in 3 of 3 runs (median 4,000 steps), kept by 2 of 2; dqn solved in 0 o"
    )
    assert second.startswith("Car, ppo+pa: solved in 3 of 3 runs (median 4,000 steps), kept by 3 of 3; ppo solved in 0")
    assert re.search(r"final return \S+ against \S+\.$", first)  # no verdict
    assert "speed-up" not in first + second
    assert "too few runs" in table(headline(runs), 120)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_runs_have_a_range_and_no_bound(n):
    """Neither "95%" nor "at least": of so few runs only what they were, and the ratio of their medians."""
    reaches = [4000, 6000, 5000, 7000][:n]
    runs = several("ppo+pa", reaches) + several("ppo", [20_000] * n) + several("dqn", [None] * n)
    dqn, ppo, ours = headline(runs)
    assert [row.spread for row in (dqn, ppo, ours)] == ["range"] * 3
    assert ours.steps_to_threshold == (np.median(reaches), min(reaches), max(reaches))
    assert dqn.steps_to_threshold == (math.inf, math.inf, math.inf)
    assert (ours.final.low, ours.final.high) == pytest.approx((-105.0 - 0.1 * (n - 1), -105.0))
    assert (ours.speed_ups["ppo"].value, ours.improvement["dqn"].value) == (20_000 / np.median(reaches), 1.0)
    for found in (*ours.speed_ups.values(), *ours.improvement.values()):
        assert np.isnan(found[1:]).all()
    text = table(headline(runs))
    assert f"{np.median(reaches):,.0f} ({min(reaches):,} to {max(reaches):,})" in text
    assert "(low to high): range of the runs, fewer than 5" in text
    told = " ".join(said(runs))
    assert f"speed-up {number(20_000 / np.median(reaches))}×;" in told
    for claim in ("95%", "at least", "["):
        assert claim not in text + told
    assert summary_json(runs)["rows"][2]["spread"] == "range"
    assert headline(study())[0].spread == "interval"
    assert headline(runs[:1])[0].spread == "none"


def test_a_narrow_terminal_loses_nothing():
    narrow = table(headline(study()), 50)
    assert max(map(len, narrow.splitlines())) <= 50
    assert "…" not in narrow
    words = narrow.split()
    for fact in ("ppo+pa", "[4,000,", "6,000]", "0/5", "5/5", "40,000"):
        assert fact in words


def test_every_task_is_told():
    """Also what does not flatter."""
    alike = [run(method, seed, 5000, task="A") for method in ("ppo", "ppo+pa") for seed in range(5)]
    never = [run(method, seed, None, task="B") for method in ("ppo", "ppo+pa") for seed in range(5)]
    apart = [run("ppo+pa", seed, 4000, task="C") for seed in range(5)]
    apart += [run("ppo", seed, 20_000 + 1000 * seed, task="C") for seed in range(5)]
    worse = [run(*each, task="D") for seed in range(5) for each in (("ppo", seed, 4000), ("ppo+pa", seed, None))]
    lines = said(alike + never + apart + worse)
    assert [line[0] for line in lines] == ["A", "B", "C", "D"]
    assert "speed-up 1× [" in lines[0]
    assert "speed-up 5.5× [" in lines[2]
    assert "speed-up ≤ 0.1×; final return −200.2 against −105.2" in lines[3]


def test_words_for_numbers():
    assert number(-115.64) == "−115.6"
    assert number(1234567.0) == "1,234,567"
    assert number(-0.001) == "0"
    assert interval(Estimate(3.0, math.nan, math.nan)) == "3"
    assert interval(Estimate(30_000.0, 20_000.0, math.inf), 40_000) == "30,000 [20,000, >40,000]"
    assert ratio(Estimate(8.0, 6.0, 11.5)) == "8× [6, 11.5]"
    assert ratio(Estimate(0.0, 0.0, 0.4)) == "≤ 0.4×"
    assert ratio(Estimate(math.inf, 0.0, math.inf)) == ratio(Estimate(math.inf, 1.0, math.inf)) == UNCLEAR
    assert ratio(Estimate(0.0, 0.0, math.inf)) == UNCLEAR
    assert ratio(Estimate(math.inf, math.nan, math.nan)) == UNCLEAR
