"""The report without a browser: which runs it takes, what it computes, what the file holds, and how it fails."""

import dataclasses
import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from tests.report.synthetic import maps, write_run, write_study

from polaug.errors import InvalidInputError, StateError
from polaug.report import find_runs, labels, write_report
from polaug.report.curves import bands, choices, curves
from polaug.report.data import embedded, overall, page_data
from polaug.report.figures import _at_work, _curves
from polaug.report.grids import POINTS, evaluations, training
from polaug.report.heat import effective_rank, pack
from polaug.report.labels import COLOURS, KNOWN, dimension_name, in_order, line_style, short
from polaug.report.page import _templates
from polaug.report.tables import explored_table, headline_table, headlines
from polaug.study import CLASSIC, PAPER
from polaug.study.statistics import Estimate
from polaug.study.summary import normalised

EVIL = "<script>alert(1)</script></script>$x_1$&\"'"


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    VOID = ("meta", "br", "link", "input")

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def table_html(rows, order):
    """A headline table as the template has it."""
    return str(_templates().get_template("parts.html").module.table(headline_table(rows, order)))


def read(path):
    return Page(path.read_text(encoding="utf-8"))


# -- explorers alone --------------------------------------------------------------------------------------------------


def explored(folder):
    """The cells of each explorer as text."""
    found = explored_table(find_runs(folder), ["ppo"])
    return [[cell.lines[0][0][1] for cell in row.cells] for row in found.rows]


def test_numbers_of_explorers(tmp_path):
    write_run(tmp_path, seed=0, returns=[0.0] * 4 + [3.0] * 4)
    write_run(tmp_path, seed=1, returns=[1.0] * 7 + [5.0])
    ((_, seeds, success, early, late, *_),) = explored(tmp_path)
    assert (seeds, success, early, late) == ("2", "episode 6.5", "0.5", "3")


def test_success_that_did_not_happen_is_not_claimed(tmp_path):
    write_run(tmp_path, seed=0, returns=[0.0, 0.0])
    assert explored(tmp_path)[0][2] == "never"
    write_run(tmp_path, seed=1, returns=[0.0, 2.0])
    assert explored(tmp_path)[0][2] == "1 of 2 seeds"
    write_run(tmp_path / "other", threshold=None)
    assert explored(tmp_path / "other")[0][2] == "no threshold"


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_numbers_for_the_page_are_short_and_finite():
    assert short([1.0, 123.456789, -0.000123456, math.nan, math.inf, 0.0], 4) == [1, 123.5, -0.0001235, None, None, 0]
    assert short([[1e300, -1e-300]], 3) == [[1e300, -1e-300]]
    assert json.dumps(short(np.arange(3.0))) == "[0, 1, 2]"


def test_methods_keep_their_looks_and_the_plain_one_comes_first():
    assert in_order(["ppo+pa", "dqn", "ppo", "dqn+pa", "ppo"]) == ["dqn", "dqn+pa", "ppo", "ppo+pa"]
    assert len({line_style(k) for k in range(28)}) == 28
    assert len({line_style(k)[0] for k in range(7)}) == len(COLOURS)


# -- points -----------------------------------------------------------------------------------------------------------


def test_training_by_episode_is_every_episode(tmp_path):
    write_run(tmp_path, seed=0, returns=[1.0, 2.0, 3.0, 9.0])
    write_run(tmp_path, seed=1, returns=[3.0, 4.0, 5.0])
    grid = training(find_runs(tmp_path), "episodes")
    assert grid.x.tolist() == [1, 2, 3]  # as far as all runs go
    assert grid.values.tolist() == [[1, 2, 3], [3, 4, 5]]


def test_many_episodes_are_averaged_and_none_is_lost(tmp_path):
    returns = np.random.default_rng(0).normal(size=1000)
    write_run(tmp_path, returns=returns.tolist())
    grid = training(find_runs(tmp_path), "episodes")
    assert len(grid.x) == POINTS
    sizes = np.diff([0, *grid.x])
    assert sizes @ grid.values[0] == pytest.approx(returns.sum())


@pytest.mark.parametrize("axis", ["steps", "seconds"])
def test_training_by_steps_and_seconds(tmp_path, axis):
    clock = [(20, 1.0), (40, 3.0)]
    write_run(tmp_path, seed=0, returns=[1.0, 2.0, 3.0, 4.0], length=10, clock=clock)
    grid = training(find_runs(tmp_path), axis)
    assert grid.x[-1] == {"steps": 40, "seconds": 3.0}[axis]
    assert grid.values[0, -1] in (3.5, 4.0)
    assert np.isfinite(grid.values).all()


def test_a_run_that_was_over_before_another_had_an_episode_leaves_no_curve_by_time(tmp_path):
    write_run(tmp_path, seed=0, clock=[(10, 5.0), (20, 9.0)])
    write_run(tmp_path, seed=1, clock=[(10, 1.0), (20, 2.0)])
    runs = find_runs(tmp_path)
    assert training(runs, "seconds") is None
    assert training(runs, "steps") is not None
    assert write_report(tmp_path).exists()


def test_who_acted_is_counted_in_steps(tmp_path):
    write_run(tmp_path, seed=0, returns=[1.0, 1.0], actors=["explorer", "agent"])
    write_run(tmp_path, seed=1, returns=[1.0, 1.0], actors=["agent", "agent"])
    assert training(find_runs(tmp_path), "episodes").share.tolist() == [0.5, 0.0]


def test_evaluations_are_exact_where_runs_share_their_steps_and_interpolated_otherwise(tmp_path):
    write_run(tmp_path, "same", seed=0, evaluations=[(10, 1.0), (20, 2.0)])
    write_run(tmp_path, "same", seed=1, evaluations=[(10, 3.0), (20, 5.0)])
    write_run(tmp_path, "other", seed=0, evaluations=[(10, 0.0), (30, 2.0)])
    write_run(tmp_path, "other", seed=1, evaluations=[(20, 5.0), (40, 7.0)])
    runs = find_runs(tmp_path)
    same = evaluations([run for run in runs if run.task == "same"], "steps")
    assert same.x.tolist() == [10, 20]
    assert same.values.tolist() == [[1, 2], [3, 5]]
    other = evaluations([run for run in runs if run.task == "other"], "steps")
    assert other.x.tolist() == [20, 30]
    assert other.values.tolist() == [[1, 2], [5, 6]]


def test_what_is_not_there_is_not_drawn(tmp_path):
    write_run(tmp_path, done={"seconds": None})
    runs = find_runs(tmp_path)
    assert evaluations(runs, "steps") is None
    assert training(runs, "seconds") is None
    assert set(curves(runs, 100)) == {"training"}
    assert set(curves(runs, 100)["training"]) == {"steps", "episodes"}


def test_one_seed_has_no_band():
    made = bands(np.array([[1.0, 2.0]]))
    for centre, low, high in made.values():
        assert centre.tolist() == [1, 2]
        assert np.isnan(low).all()
        assert np.isnan(high).all()


def test_choices_are_shares_of_seeds(tmp_path):
    write_run(tmp_path, seed=0, choices=["a", "b", "a"])
    write_run(tmp_path, seed=1, choices=["a", "a"])
    made = choices(find_runs(tmp_path))
    assert made["members"] == ["a", "b"]
    assert made["shares"] == [[1, 0.5, 1], [0, 0.5, 0]]
    assert made["runs"] == [2, 2, 1]


def test_members_have_colours_of_their_own():
    assert not set(labels.COLOURS) & set(labels.ARMS)
    assert len(set(labels.arm_colours("abcde"))) == 5


def test_uncertainty_has_the_same_colours_on_every_page(tmp_path):
    found = maps(np.random.default_rng(0))
    found["uncertainty"] = found["uncertainty"] * 0.1
    layer = pack(found)["layers"]["uncertainty"]
    assert (layer["from"], layer["to"]) == (0, 1)
    write_run(tmp_path, maps=found)
    (run,) = find_runs(tmp_path)
    images = {axes.get_title(): axes.images[0] for axes in _at_work(found, run).axes if axes.images}
    assert images["uncertainty"].get_clim() == (0, 1)
    assert len({images[name].get_cmap().name for name in ("visits", "observed Q̃", "uncertainty")}) == 3


def test_maps_without_a_single_known_cell_can_be_packed():
    state = maps(np.random.default_rng(0))
    state["observed"][:] = np.nan
    state["completed"][:] = np.nan
    layer = pack(state)["layers"]["completed"]
    assert (layer["from"], layer["to"]) == (0, 1)
    assert layer["cells"][0][0][0] is None


def test_the_greedy_action_is_one_more_layer():
    state = maps(np.random.default_rng(0))
    state["choice"][0, 3, 5] = -1
    layer = pack(state)["layers"]["choice"]
    assert layer["cells"][0][5][3] is None
    numbers = np.array([[[-1 if cell is None else cell for cell in row] for row in at] for at in layer["cells"]])
    assert (numbers == state["choice"].transpose(0, 2, 1)).all()
    assert (layer["from"], layer["to"]) == (-0.5, 2.5)


def test_well_known_observations_have_names(tmp_path):
    rng = np.random.default_rng(0)
    write_run(tmp_path, "car", maps=maps(rng), env_id="MountainCar-v0")
    write_run(tmp_path, "own", maps=maps(rng, dimensions=3), env_id="Own-v0")
    car, own = find_runs(tmp_path)
    assert [dimension_name(car, place) for place in (0, 1)] == ["position", "velocity"]
    assert dimension_name(own, 1) == "observation[1]"
    tasks = page_data([car, own])["tasks"]
    assert tasks[0]["heat"][0]["names"] == ["position", "velocity"]
    assert "(observation[2] 0)" in tasks[1]["heat"][0]["words"]


def test_names_are_as_many_as_an_environment_has():
    for task in (*CLASSIC, *PAPER):
        names = KNOWN.get(task.env_id.rpartition("-v")[0])
        if names is not None and "Lander" not in task.name:  # Box2D's import warns, and here warnings are errors
            assert task.make().observation_space.shape == (len(names),)


def test_effective_rank():
    assert effective_rank(np.array([[5.0, 0.0], [2.0, 2.0], [np.nan, np.nan]])) == pytest.approx(
        [1, 2, np.nan], nan_ok=True
    )


def test_scores_are_0_at_the_worst_and_1_at_the_threshold(tmp_path):
    for task, threshold in (("T", 10.0), ("U", 100.0)):
        for method, end in (("ppo", 0.0), ("ppo+pa", threshold)):
            for seed in range(2):
                write_run(tmp_path, task, method, seed, threshold=threshold, evaluations=[(10, 0.0), (20, end)])
    runs = find_runs(tmp_path)
    assert normalised(runs)["U", "ppo+pa"].tolist() == [1, 1]
    made = overall(runs, ["ppo", "ppo+pa"])
    assert [row["value"][0] for row in made["scores"]] == [0, 1]
    assert overall([run for run in runs if run.task == "T"], ["ppo", "ppo+pa"]) is None


def test_a_run_has_one_score_in_the_headline_and_over_all_tasks(tmp_path):
    levels = [(step, -200.0 if step < 900 else -150.0 + step / 50) for step in range(50, 1001, 50)]
    write_run(tmp_path, threshold=-100.0, evaluations=levels)
    (row,) = headlines(find_runs(tmp_path))
    assert row.final.value == pytest.approx(-150 + 1000 / 50)
    (score,) = normalised(find_runs(tmp_path)).values()
    assert score.tolist() == pytest.approx([(row.final.value + 200) / 100])


@pytest.mark.parametrize(("speed_up", "words"), [
    (Estimate(np.inf, 6.2, np.inf), "<b>≥ 6.2×</b>"), (Estimate(0.0, 0.0, 0.4), "<b>≤ 0.4×</b>"),
    (Estimate(2.0, 1.5, 3.0), '<b>2×</b> <span class="range">1.5 to 3</span>'),
    (Estimate(2.0, 1.5, np.inf), '<b>2×</b> <span class="range">1.5 or more</span>'),
    (Estimate(np.nan, np.nan, np.nan), "<b>–</b>"),
    (Estimate(np.inf, np.nan, np.nan), "<b>too few runs to tell</b>"),
])  # fmt: skip
def test_a_speed_up_beyond_the_budget_is_a_bound(tmp_path, speed_up, words):
    for method in ("ppo", "ppo+pa"):
        write_run(tmp_path, method=method, evaluations=[(10, 1.0), (20, 2.0)])
    _, row = headlines(find_runs(tmp_path))
    html = table_html([dataclasses.replace(row, speed_ups={"ppo": speed_up})], ["ppo", "ppo+pa"])
    assert f">ppo: {words}</td>" in html
    assert "∞" not in html


def test_a_speed_up_of_several_runs_that_may_be_none_says_nothing(tmp_path):
    for method in ("ppo", "ppo+pa"):
        for seed in range(2):
            write_run(tmp_path, method=method, seed=seed, evaluations=[(10, 1.0), (20, 2.0)])
    _, row = headlines(find_runs(tmp_path))
    for unclear in (Estimate(np.inf, 1.0, np.inf), Estimate(np.inf, np.nan, np.nan)):
        html = table_html([dataclasses.replace(row, speed_ups={"ppo": unclear})], ["ppo", "ppo+pa"])
        assert ">ppo: <b>too few runs to tell</b></td>" in html


def test_a_fall_after_the_threshold_is_in_the_headline(tmp_path):
    write_run(tmp_path, seed=0, evaluations=[(10, 2.0), (20, 2.0)])
    write_run(tmp_path, seed=1, evaluations=[(10, 2.0), (20, 0.0)])
    (row,) = headlines(find_runs(tmp_path))
    html = table_html([row], ["ppo"])
    assert "kept</button>" in html
    assert '<td data-label="kept" data-sort="0.5">1 of 2 <span class="range">over 10 steps</span></td>' in html


def test_what_was_kept_is_explained_once(tmp_path):
    write_run(tmp_path, threshold=0.0, evaluations=[(10, 2.0), (20, 2.0)])
    text = " ".join(write_report(tmp_path).read_text(encoding="utf-8").split())
    assert "of the threshold (if it is 0: of the distance from the first evaluation), on average" in text
    assert text.count("on average over the next 20,000 steps") == 1  # said once, however many tables there are


def test_seeds_that_ended_too_soon_to_keep_a_level_are_named(tmp_path):
    write_run(tmp_path, seed=0, evaluations=[(10, 2.0), (20, 2.0)])
    write_run(tmp_path, seed=1, evaluations=[(10, 0.0), (20, 2.0)])
    html = table_html(headlines(find_runs(tmp_path)), ["ppo"])
    told = '<td data-label="kept" data-sort="1.0">1 of 1 <span class="range">over 10 steps</span></td>'
    assert told in html


def test_without_a_threshold_nothing_is_said_of_one(tmp_path):
    for method in ("ppo", "ppo+pa"):
        for seed in range(2):
            write_run(tmp_path, method=method, seed=seed, threshold=None, evaluations=[(10, 1.0), (20, 2.0)])
    html = table_html(headlines(find_runs(tmp_path)), ["ppo", "ppo+pa"])
    heads = re.findall('<button type="button">(.*?)</button>', html)
    assert heads == ["method", "against: chance to be better", "final return", "first 2 episodes", "seeds"]


@pytest.mark.parametrize("seeds", [3, 5])
def test_few_seeds_have_a_range_and_no_interval_of_who_is_better(tmp_path, seeds):
    for method, end in (("ppo", 0.0), ("ppo+pa", 2.0)):
        for seed in range(seeds):
            write_run(tmp_path, method=method, seed=seed, evaluations=[(10, 0.0), (20, end + seed)])
    html = table_html(headlines(find_runs(tmp_path)), ["ppo", "ppo+pa"])
    better = re.search(r">ppo: (.*?)</td>", html)[1].split(" · ")[-1]
    text = " ".join(read(write_report(tmp_path)).text)
    if seeds == 3:
        assert "%" not in better
        assert "Bands: lowest to highest run" in text
    else:
        assert better == ('<b>82 %</b> <span class="range">45 to 96</span>')
        assert "Probability that the final return of a run is higher than that of a run of the other method." in text


def test_bands_of_few_seeds_are_their_range():
    low, high = bands(np.array([[1.0], [5.0], [2.0]]))["iqm"][1:]
    assert (low, high) == (1.0, 5.0)


def test_each_of_several_tasks_is_summed_up(tmp_path):
    for task in ("A", "B"):
        for method, end in (("ppo", 0.0), ("ppo+pa", 2.0)):
            for seed in range(2):
                write_run(tmp_path, task, method, seed, evaluations=[(10, 0.0), (20, end)])
    write_run(tmp_path, "C", "sac", threshold=None, evaluations=[(10, 1.0), (20, 2.0)])
    text = write_report(tmp_path).read_text(encoding="utf-8")
    items = re.findall("<li>(.*?)</li>", text.partition('<div class="seen">')[2].partition("</div>")[0])
    assert items[0].startswith("A, ppo+pa: solved in 2 of 2 runs")
    assert items[1].startswith("B, ppo+pa: solved in 2 of 2 runs")
    assert len(items) == 2


def test_many_sentences_are_folded(tmp_path):
    for k in range(8):
        for method in ("ppo", "ppo+pa"):
            write_run(tmp_path, f"T{k}", method, evaluations=[(10, 0.0), (20, 1.0)])
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<summary>2 more</summary><ul><li>T6, ppo+pa: solved in 0 of 1 run within " in text


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    write_study(root, ["MountainCar-v0"], ["ppo", "ppo+pa"], 2, steps=5000, every=500)
    return root


def test_the_page_stands_alone(study):
    path = write_report(study)
    assert path == study / "report.html"
    page = read(path)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 3  # data, Plotly, ours
    for tag in ("link", "iframe", "img", "object", "embed", "base", "form"):
        assert tag not in tags
    for _, attributes in page.tags:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not [name for name in attributes if name.startswith("on")]
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy.split("script-src")[1].split(";")[0]
    assert path.stat().st_size < 3_000_000


def test_names_are_escaped_everywhere(tmp_path):
    rng = np.random.default_rng(0)
    for seed in range(2):
        write_run(tmp_path, EVIL, EVIL, seed, maps=maps(rng), options={EVIL: EVIL}, choices=[EVIL])
        write_run(tmp_path, EVIL, f"{EVIL}+pa", seed, evaluations=[(10, 1.0)], explorer=EVIL)
    write_run(tmp_path, "_hidden", "_also")
    path = write_report(tmp_path, figures=True)
    page = read(path)
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert any(EVIL in text for text in page.text)
    assert EVIL not in path.read_text(encoding="utf-8")
    assert json.loads(embedded({EVIL: EVIL})) == {EVIL: EVIL}


def test_the_data_are_plain_json(study):
    text = embedded(page_data(find_runs(study)))
    assert not set("<>&") & set(text)
    data = json.loads(text)
    assert [method["name"] for method in data["methods"]] == ["ppo", "ppo+pa"]
    assert data["tasks"][0]["explored"] is True


def test_one_seed_one_episode_and_unequal_lengths_have_a_page(tmp_path):
    write_run(tmp_path, "short", returns=[1.0])
    write_run(tmp_path, "uneven", seed=0, returns=[1.0, 2.0, 3.0])
    write_run(tmp_path, "uneven", seed=1, returns=[1.0, 2.0])
    write_run(tmp_path, "huge", returns=[-1e12, 1e12])
    write_run(tmp_path, "no threshold", "ppo", threshold=None, evaluations=[(10, 1.0)])
    write_run(tmp_path, "mixed", "ppo", evaluations=[(10, 1.0), (20, 5.0)])
    write_run(tmp_path, "mixed", "committee")
    page = read(write_report(tmp_path, figures=True))
    assert sum(attributes.get("class", "").startswith("task") for tag, attributes in page.tags if tag == "section") == 5


def test_the_same_runs_give_the_same_files(study, tmp_path):
    first = write_report(study, tmp_path / "elsewhere" / "a.html", figures=True).read_bytes()
    figures = {path.name: path.read_bytes() for path in (study / "figures").iterdir()}
    assert first == write_report(study, tmp_path / "b.html", figures=True).read_bytes()
    assert figures == {path.name: path.read_bytes() for path in (study / "figures").iterdir()}
    assert set(figures) == {f"{kind}-MountainCar-v0.{end}" for kind in ("curves", "maps") for end in ("png", "pdf")}
    assert figures["curves-MountainCar-v0.pdf"].startswith(b"%PDF")


def test_figures_show_what_drove(tmp_path):
    for method, actors in (("dqn", "agent"), ("ppo", "agent"), ("ppo+pa", "explorer")):
        for seed in range(2):
            end = 3.0 if "+" in method else 0.0
            write_run(tmp_path, method=method, seed=seed, returns=[0.0, end, end], actors=[actors, "agent", "agent"],
                      evaluations=[(10, 0.0), (20, end)])  # fmt: skip
    runs = find_runs(tmp_path)
    alone, drove, strips = _curves("T", runs, in_order(run.method for run in runs)).axes
    assert all(len(axes.lines) == 4 for axes in (alone, drove))  # three methods and the threshold
    assert [mesh.get_array().ravel().tolist() for mesh in strips.collections] == [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert strips.get_xlabel() == "environment steps"
    plain = [run for run in runs if run.method != "ppo+pa"]
    assert len(_curves("T", plain, ["dqn", "ppo"]).axes) == 2  # nobody else drove


def test_no_runs_and_damaged_runs_are_told(tmp_path):
    with pytest.raises(InvalidInputError, match="folder"):
        write_report(tmp_path / "none")
    with pytest.raises(InvalidInputError, match="finished run"):
        write_report(tmp_path)
    damaged = write_run(tmp_path)
    (damaged / "episodes.csv").write_text("episode,step\n1,x\n")
    with pytest.raises(StateError, match=re.escape(str(damaged))):
        write_report(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".html"]


def test_plotly_comes_with_its_licence():
    vendor = files("polaug.report").joinpath("vendor")
    assert "MIT License" in vendor.joinpath("LICENSE").read_text()
    version = re.search(r"v(\d+\.\d+\.\d+)", vendor.joinpath("plotly-cartesian.min.js").read_text()[:200])[1]
    assert version in vendor.joinpath("README.md").read_text()


def test_scripts_stay_readable():
    for path in files("polaug.report").joinpath("assets").iterdir():
        assert len(path.read_text().splitlines()) < 250


@pytest.mark.parametrize(("base", "width"), [(0.0, 1.0), (47.6, 0.25), (1e6, 1.0), (-3.0, 1e-4)])
def test_maps_show_small_differences_of_large_values(base, width):
    values = base + width * np.random.default_rng(0).random((1, 4, 4))
    maps = {"steps": np.array([1]), "visits": np.ones((1, 4, 4), int), "observed": values, "median": np.zeros(2),
            "edges": np.zeros((2, 5)), "dimensions": np.array([0, 1])}  # fmt: skip
    drawn = np.array(pack(maps)["layers"]["observed"]["cells"])
    assert np.abs(drawn - values.transpose(0, 2, 1)).max() <= width / 254
