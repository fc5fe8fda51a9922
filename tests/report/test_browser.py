"""The page in a real browser: switches switch, numbers are those of the runs, and nothing is asked of any network."""

import csv
import io
import json
import os

import numpy as np
import pytest
from PIL import Image
from tests.report import synthetic
from tests.report.conftest import looking

from polaug.report import find_runs, write_report
from polaug.report.grids import POINTS
from polaug.report.labels import arm_colours
from polaug.study.statistics import interquartile_mean
from polaug.study.summary import headline

METHODS = ["dqn", "dqn+pa", "ppo", "ppo+pa"]
EVIL = (
    "<script>alert(1)</script>",
    '</script><img src=x onerror="alert(2)">',
    "%{x}$a_1$<b>&amp;'\"{{}}",
    '<a href="javascript:alert(3)">x</a>',
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    synthetic.write_study(root, ["CartPole-v1", "MountainCar-v0"], METHODS, 3)
    write_report(root)
    return root


@pytest.fixture(scope="module")
def opened(study, browser):
    """The study's page for all tests that leave its switches as they are."""
    with looking(browser) as look:
        yield look(study / "report.html")


def runs_of(study, task, method):
    return [run for run in find_runs(study) if (run.task, run.method) == (task, method)]


def chart(page, selector):
    """The traces that a chart shows, once it is drawn."""
    box = page.locator(selector).first
    box.scroll_into_view_if_needed()
    page.wait_for_function("box => box.data && !box.chart.stale", arg=box.element_handle())
    return box.evaluate("box => JSON.parse(JSON.stringify({data: box.data, layout: box.layout}))")


def lines(made):
    return {trace["name"]: trace for trace in made["data"] if "meta" in trace}


EVALUATION, TRAINING = '.plot[data-task="1"][data-kind="evaluation"]', '.plot[data-task="1"][data-kind="training"]'


def test_curves_are_those_of_the_runs(study, look):
    page = look(study / "report.html")
    runs = runs_of(study, "MountainCar-v0", "ppo+pa")
    drawn = lines(chart(page, EVALUATION))["ppo+pa"]
    values = np.array([run.evaluations.means for run in runs])
    assert drawn["x"] == runs[0].evaluations.steps.tolist()
    assert drawn["y"] == pytest.approx(interquartile_mean(values, axis=0), rel=1e-3)
    page.get_by_label("mean ± std").check()
    drawn = lines(chart(page, EVALUATION))["ppo+pa"]
    assert drawn["y"] == pytest.approx(values.mean(axis=0), rel=1e-3)
    low = [row[0] for row in drawn["customdata"]]
    assert low == pytest.approx(values.mean(axis=0) - values.std(axis=0, ddof=1), rel=1e-3)


def test_axes_can_be_switched(study, look):
    page = look(study / "report.html")
    titles = {
        "steps": "environment steps",
        "episodes": "episode",
        "time": "training time (seconds)",
    }
    ends = {"steps": 20_000, "episodes": 200, "time": 80}
    for label, title in titles.items():
        page.get_by_label(label, exact=True).check()
        made = chart(page, TRAINING)
        assert made["layout"]["xaxis"]["title"]["text"] == title
        assert lines(made)["dqn"]["x"][-1] == pytest.approx(ends[label])


def test_curves_can_be_smoothed_and_every_run_shown(study, look):
    page = look(study / "report.html")
    rough = lines(chart(page, TRAINING))["ppo"]
    page.get_by_label("5 points").check()
    smooth = lines(chart(page, TRAINING))["ppo"]
    assert smooth["y"][5] == pytest.approx(np.mean(rough["y"][3:8]), rel=1e-6)
    assert (smooth["y"][0], smooth["y"][-1]) == (rough["y"][0], rough["y"][-1])
    page.get_by_label("off", exact=True).check()
    page.get_by_label("every run").check()
    made = chart(page, EVALUATION)
    single = [trace for trace in made["data"] if trace.get("line", {}).get("width") == 1]
    assert len(single) == 3 * len(METHODS)
    runs = runs_of(study, "MountainCar-v0", "dqn")
    assert single[0]["y"] == pytest.approx(runs[0].evaluations.means, rel=1e-3)


def test_the_strips_have_a_legend(study, opened):
    page = opened
    key = page.locator("#task1 .key")
    assert key.inner_text().split("\n")[:2] == ["the guide drives", "the agent drives"]
    filled, bare = (key.locator("i").nth(k).evaluate("e => getComputedStyle(e).backgroundColor") for k in (0, 1))
    assert filled != bare


def test_maps_of_plain_agents_say_nothing_of_a_completed_q(tmp_path, look):
    rng = np.random.default_rng(0)
    synthetic.write_run(tmp_path, "T", "ppo", evaluations=[(10, 1.0), (20, 2.0)],
                        maps=synthetic.maps(rng, dimensions=4, completed=False))  # fmt: skip
    page = look(write_report(tmp_path))
    words = page.locator(".heat").inner_text()
    assert "Visits and observed returns" in words
    assert "median" not in words
    assert "Q̂" not in words


def test_films_beside_the_runs_are_embedded_and_play_without_a_network(tmp_path, look):
    path = synthetic.write_run(tmp_path, "T", "ppo", evaluations=[(10, 1.0), (20, 2.0)])
    Image.new("RGB", (60, 40), "red").save(path / "car<b>.gif")
    (tmp_path / "fake.gif").write_bytes(b"<script>alert(1)</script>")
    page = look(write_report(tmp_path))
    film = page.locator(".film img")
    film.scroll_into_view_if_needed()
    assert film.count() == 1
    page.wait_for_function("film => film.naturalWidth === 60", arg=film.element_handle())
    assert "car<b>.gif" in page.locator(".film figcaption").inner_text()


def test_settings_are_a_table_with_the_agents_own(tmp_path, look):
    for method, rate in (("dqn", 1e-4), ("dqn+pa", 5e-4)):
        given = {"gamma": 0.9, "augmentation": {"explorer": "pa"} if "+" in method else None}
        path = synthetic.write_run(tmp_path, "T", method, evaluations=[(10, 1.0), (20, 2.0)], settings=given,
                                   done={"agent": {"learning_rate": rate, "gamma": 0.99}})  # fmt: skip
        os.utime(path / "done.json", (0, 34 * 24 * 3600))
    page = look(write_report(tmp_path))
    page.get_by_text("Settings and versions").click()
    rows = [row.inner_text().split("\t") for row in page.locator("table.settings tr").all()]
    assert ["learning_rate", "0.0001", "0.0005"] in rows
    assert ["gamma", "0.9", "0.9"] in rows  # what was asked for counts
    assert "4 February 1970" in page.locator("header").inner_text()
    assert page.title() == "dqn, dqn+pa on T"


def test_methods_can_be_hidden_on_all_charts_at_once(study, look):
    page = look(study / "report.html")
    button = page.locator(".legend button", has_text="dqn+pa")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    for selector in (EVALUATION, TRAINING, '.plot[data-task="0"][data-kind="training"]'):
        assert set(lines(chart(page, selector))) == set(METHODS) - {"dqn+pa"}
    button.press("Enter")
    assert set(lines(chart(page, EVALUATION))) == set(METHODS)


def test_who_acted_and_the_threshold_are_there(study, opened):
    page = opened
    page.get_by_label("steps", exact=True).check()
    made = chart(page, TRAINING)
    strips = [trace for trace in made["data"] if trace.get("type") == "heatmap"]
    assert len(strips) == len(METHODS)
    shares = dict(zip(METHODS, (np.array(strip["z"][0]) for strip in strips), strict=True))
    assert (shares["ppo"] == 0).all()
    runs = runs_of(study, "MountainCar-v0", "ppo+pa")
    led = np.mean([np.mean([actor == "explorer" for actor in run.episodes.actors]) for run in runs])
    assert shares["ppo+pa"].mean() == pytest.approx(led, abs=0.02)
    assert made["layout"]["shapes"][0]["y0"] == -110
    assert [strip["name"] for strip in strips] == METHODS
    assert made["layout"]["annotations"][-1]["bgcolor"]  # readable where curves run through it


@pytest.mark.parametrize("width", [1280, 390])
def test_the_last_label_of_the_steps_is_there(study, look, width):
    page = look(study / "report.html", width=width)
    chart(page, EVALUATION)
    last = page.locator(f"{EVALUATION} .xtick text").last
    assert last.text_content() == "20k"
    assert last.is_visible()
    label, box = last.bounding_box(), page.locator(EVALUATION).bounding_box()
    assert label["x"] + label["width"] <= box["x"] + box["width"]


def test_a_strip_says_whose_it_is(study, opened):
    page = opened
    chart(page, TRAINING)
    strip = page.locator(f"{TRAINING} .xy2 .heatmaplayer image").nth(1).bounding_box()
    page.mouse.move(strip["x"] + 20, strip["y"] + strip["height"] / 2)
    page.wait_for_selector(f"{TRAINING} .hoverlayer text")
    assert "dqn+pa : guide" in page.locator(f"{TRAINING} .hoverlayer").text_content()


def test_hovering_gives_numbers(study, opened):
    page = opened
    chart(page, EVALUATION)
    box = page.locator(EVALUATION).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    page.wait_for_selector(f"{EVALUATION} .hoverlayer .legendtext, {EVALUATION} .hoverlayer text")
    words = page.locator(f"{EVALUATION} .hoverlayer").text_content()
    assert "ppo+pa" in words
    assert " to " in words


def test_the_headline_is_the_one_of_the_statistics_and_can_be_sorted(study, opened):
    page = opened
    table = page.locator("#task1 table.sortable")
    rows = {row.method: row for row in headline(find_runs(study)) if row.task == "MountainCar-v0"}
    for line in table.locator("tbody tr").all():
        row = rows[line.locator("th .name").inner_text()]
        assert float(line.locator("td").nth(0).get_attribute("data-sort")) == row.steps_to_threshold.value
        assert f"{row.steps_to_threshold.value:,.0f}" in line.locator("td").nth(0).inner_text()
        assert f"{100 * row.share_never:.0f} %" in line.locator("td").nth(1).inner_text()
    head = table.locator("thead th", has_text="steps to threshold")
    for direction, order in (("ascending", sorted), ("descending", lambda v: sorted(v, reverse=True))):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == direction
        keys = [float(cell.get_attribute("data-sort")) for cell in table.locator("tbody tr td:nth-child(2)").all()]
        assert keys == order(keys)


def test_the_slider_moves_the_maps_and_play_plays(study, look):
    page = look(study / "report.html")
    heat = page.locator("#task1 .heat")
    heat.locator("select").select_option(label="ppo+pa")
    maps = next(run.maps for run in runs_of(study, "MountainCar-v0", "ppo+pa") if run.maps)
    slider = heat.locator("input[type=range]")
    for at in (11, 3, 0):
        slider.fill(str(at))
        made = chart(page, '#task1 .plot[data-chart="completed"]')
        z = np.array(made["data"][0]["z"], dtype=float)
        step = np.ptp(maps["completed"]) / 254
        assert np.abs(z - maps["completed"][at].T).max() <= step
        action = np.array(chart(page, '#task1 .plot[data-chart="choice"]')["data"][0]["z"], dtype=float)
        assert (action == maps["choice"][at].T).all()
        visits = np.array(chart(page, '#task1 .plot[data-chart="visits"]')["data"][0]["customdata"], dtype=float)
        assert (np.nan_to_num(visits) == maps["visits"][at].T).all()
        assert f"{maps['steps'][at]:,}" in heat.locator("output").inner_text()
    unseen = np.array(chart(page, '#task1 .plot[data-chart="observed"]')["data"][0]["z"], dtype=float)
    assert (np.isnan(unseen) == (maps["visits"][0].T == 0)).all()
    # The test ticks the clock: on a busy machine the film would be over before it is stopped.
    page.evaluate("window.setInterval = (tick) => { window.tick = tick; return 1e9; }")
    heat.get_by_role("button", name="Play").click()
    for at in (1, 2):
        page.evaluate("tick()")
        assert slider.input_value() == str(at)
    heat.get_by_role("button", name="Pause").click()
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "3"


def test_maps_have_named_axes_and_no_tools_over_them(study, opened):
    page = opened
    layout = chart(page, '#task1 .plot[data-chart="completed"]')["layout"]
    assert [layout[axis]["title"]["text"] for axis in ("xaxis", "yaxis")] == ["observation[0]", "observation[1]"]
    assert page.locator('#task1 .plot[data-chart="completed"] .modebar-btn').count() == 0
    chart(page, TRAINING)
    tools = page.locator(f"{TRAINING} .modebar-btn").all()
    titles = [tool.get_attribute("data-title") for tool in tools]
    assert "Zoom" in titles
    assert not [title for title in titles if "share" in title.lower() or "cloud" in title.lower()]
    picture = page.locator(f"{TRAINING} .nsewdrag").first.bounding_box()
    assert all(tool.bounding_box()["y"] + tool.bounding_box()["height"] <= picture["y"] + 1 for tool in tools)


def test_a_single_run_has_a_headline_of_its_own(tmp_path, look):
    synthetic.write_run(tmp_path, "Car", "ppo+pa", 4, evaluations=[(10, 1.0), (20, 2.0), (30, 2.5)])
    page = look(write_report(tmp_path))
    assert page.title() == "ppo+pa on Car"
    assert "One run, seed 4; " in page.locator("header .soft").inner_text()
    heads = page.locator("table.sortable thead").inner_text()
    assert "kept" in heads
    assert "against" not in heads
    assert page.locator(".legend").count() == page.get_by_label("mean ± std").count() == 0
    chart(page, ".plot[data-kind=evaluation]")


def test_singular_values_and_choices(study, look):
    page = look(study / "report.html")
    heat = page.locator("#task1 .heat")
    heat.locator("select").select_option(label="dqn+pa")
    maps = next(run.maps for run in runs_of(study, "MountainCar-v0", "dqn+pa") if run.maps)
    made = chart(page, '#task1 .plot[data-chart="singular"]')
    assert made["layout"]["yaxis"]["type"] == "log"
    second = maps["singular_values"][:, 1] / maps["singular_values"][:, 0]
    assert made["data"][1]["y"] == pytest.approx(second, rel=1e-3)
    assert "Effective rank" in heat.locator(".rank").inner_text()
    bars = chart(page, '#task1 .plot[data-chart="choices"]')["data"]
    assert [bar["name"] for bar in bars] == ["fitted", "linear", "model"]
    assert np.sum([bar["y"] for bar in bars], axis=0) == pytest.approx(1.0, abs=0.01)
    assert [bar["marker"]["color"] for bar in bars] == arm_colours(["fitted", "linear", "model"])
    heat.locator("select").select_option(label="dqn")  # a method without Q̂
    assert heat.locator('.plot[data-chart="completed"]').is_hidden()
    assert heat.locator('.plot[data-chart="visits"]').is_visible()


def test_what_is_drawn_can_be_read_too(study, opened):
    page = opened
    for box in page.locator(".plot").all():
        assert box.get_attribute("role") == "img"
        assert len(box.get_attribute("aria-label")) > 10
    chart(page, EVALUATION)
    assert "ppo+pa from" in page.locator(EVALUATION).get_attribute("aria-label")
    figure = page.locator("figure", has=page.locator(EVALUATION))
    figure.locator("summary").click()
    figure.locator("table td").last.wait_for()  # it is filled when it is opened, not before
    cells = figure.locator("table tr").last.locator("th, td").all_inner_texts()
    assert cells[0] == "20,000"
    assert len(cells) == 1 + len(METHODS)
    for name in ("input", "select", "button"):  # everything that can be used has a name
        for found in page.locator(f"{name}:visible").all():
            assert found.evaluate(
                "e => (e.labels && e.labels.length) || e.getAttribute('aria-label') || e.textContent.trim()"
            )
    assert page.locator("html").get_attribute("lang") == "en"


def test_data_can_be_saved(study, look):
    page = look(study / "report.html", accept_downloads=True)

    def saved(name):
        with page.expect_download() as waiting:
            page.locator(f'button[data-file="{name}"]').click()
        assert waiting.value.suggested_filename == name
        return waiting.value.path().read_text(encoding="utf-8")

    assert {task["name"] for task in json.loads(saved("report.json"))["tasks"]} == {"CartPole-v1", "MountainCar-v0"}
    rows = list(csv.DictReader(io.StringIO(saved("curves.csv"))))
    run = runs_of(study, "CartPole-v1", "ppo")
    last = [row for row in rows if (row["task"], row["method"], row["curve"], row["axis"])
            == ("CartPole-v1", "ppo", "evaluation", "steps")][-1]  # fmt: skip
    assert float(last["x"]) == 20_000
    assert float(last["mean"]) == pytest.approx(np.mean([each.evaluations.means[-1] for each in run]), rel=1e-3)
    table = list(csv.DictReader(io.StringIO(saved("headline.csv"))))
    (row,) = (row for row in table if (row["task"], row["method"]) == ("CartPole-v1", "ppo+pa"))
    assert float(row["final.value"]) == pytest.approx(
        next(
            each for each in headline(find_runs(study)) if (each.task, each.method) == ("CartPole-v1", "ppo+pa")
        ).final.value
    )


def test_names_are_harmless(tmp_path, look):
    rng = np.random.default_rng(0)
    for k, name in enumerate(EVIL):
        for seed in range(2):
            synthetic.write_run(
                tmp_path, f"{name} task", name, seed, returns=[1.0, 2.0, 3.0], evaluations=[(10, 1.0), (20, 3.0 + k)],
                choices=(name, "b"), actors=["explorer", "agent", "agent"], maps=synthetic.maps(rng),
                options={name: name},
            )  # fmt: skip
    page = look(write_report(tmp_path))
    for k in range(len(EVIL)):
        for kind in ("evaluation", "training"):
            made = chart(page, f'.plot[data-task="{k}"][data-kind="{kind}"]')
            assert len(lines(made)) == 1
    chart(page, '.plot[data-chart="choices"]')
    assert page.locator("script").count() == 3
    assert page.locator("img").count() == 0
    shown = page.locator(".legend button[data-method]").all_inner_texts()
    assert sorted(shown) == sorted(EVIL)
    box = page.locator(".plot[data-kind=evaluation]").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert not page.locator(".hoverlayer a, .hoverlayer image").count()


def test_light_and_dark(study, look):
    def colours(page):
        made = chart(page, EVALUATION)
        return page.evaluate("getComputedStyle(document.body).backgroundColor"), made["layout"]["font"]["color"]

    light, dark = look(study / "report.html"), look(study / "report.html", color_scheme="dark")
    assert colours(light) != colours(dark)
    before = colours(light)
    light.get_by_role("button", name="Dark page").click()
    assert colours(light) == colours(dark)
    light.get_by_role("button", name="Light page").click()
    assert colours(light) == before


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_overflows(study, look, width):
    page = look(study / "report.html", width=width, height=740)
    for box in page.locator(".plot:visible").all():
        box.scroll_into_view_if_needed()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in page.locator(".plot:visible").all():
        place = box.bounding_box()
        assert place["x"] >= 0
        assert place["x"] + place["width"] <= width


def test_on_a_phone_every_method_is_a_card_with_all_that_is_known_of_it(study, look):
    page = look(study / "report.html", width=400, height=844)
    row = page.locator("#task1 table.sortable tbody tr").last
    places = [cell.bounding_box() for cell in row.locator("th, td").all()]
    assert len(places) == 8
    assert all(place["x"] >= 0 and place["x"] + place["width"] <= 400 for place in places)
    assert [place["y"] for place in places] == sorted({place["y"] for place in places})  # one below the other
    cell = row.locator("td").nth(3)
    assert "ppo: " in cell.inner_text()
    assert "against" in cell.evaluate("c => getComputedStyle(c, '::before').content")
    wide = look(study / "report.html", width=1280).locator("#task1 table.sortable tbody td").first
    assert wide.evaluate("c => getComputedStyle(c, '::before').content") == "none"


def test_lines_that_coincide_are_named(tmp_path, look):
    for method, end in (("dqn", -200.0), ("ppo", -200.0), ("ppo+pa", -100.0)):
        for seed in range(2):
            synthetic.write_run(tmp_path, "T", method, seed, evaluations=[(10, -200.0), (20, end), (30, end)])
    page = look(write_report(tmp_path))
    box = ".plot[data-kind=evaluation]"
    assert [note["text"] for note in chart(page, box)["layout"]["annotations"][:1]] == ["dqn, ppo: the same line"]
    page.locator(".legend button", has_text="dqn").click()
    assert not [note for note in chart(page, box)["layout"]["annotations"] if "same line" in note["text"]]


def test_a_table_wider_than_the_page_fades_out_where_it_goes_on(study, look):
    page = look(study / "report.html", width=390, height=844)
    page.locator("#task0 details[data-table] summary").first.click()
    frame = page.locator("#task0 details[data-table] .scroll").first
    page.wait_for_function("f => f.classList.contains('more')", arg=frame.element_handle())
    assert "gradient" in frame.evaluate("f => getComputedStyle(f).maskImage")
    frame.evaluate("f => f.scrollTo(f.scrollWidth, 0)")
    page.wait_for_function("f => f.className === 'scroll less'", arg=frame.element_handle())
    wide = look(study / "report.html", width=1400).locator("#task0 .scroll").first
    assert wide.get_attribute("class").strip() == "scroll"


def test_on_paper_everything_is_drawn_and_no_switch_is(study, look):
    page = look(study / "report.html", color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    undrawn = page.evaluate("polaugReport.charts.filter((c) => !c.box.closest('[hidden]') && c.stale).length")
    assert undrawn == 0
    assert page.locator(".controls").is_hidden()
    assert (
        page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 39)"
    )  # ink on paper, not light on dark
    widest = page.evaluate("Math.max(...[...document.querySelectorAll('.main-svg')].map((s) => s.clientWidth))")
    assert widest <= 703  # of A4 between the margins
    for figure in page.locator("figure:visible").all():
        assert figure.evaluate("f => getComputedStyle(f).breakInside") == "avoid"
    for selector in (EVALUATION, TRAINING, '.plot[data-overall="profile"]'):
        shown = page.locator(f"{selector} .legendtext").all_text_contents()
        assert shown == METHODS  # bands, dots and the threshold have no place in a legend
    assert page.locator("table.settings").first.is_visible()
    rows = page.locator("table.settings").first.locator("tr", has_text="python").inner_text()
    assert rows.split() == ["python", *["3.12"] * len(METHODS)]
    assert page.locator("summary:visible").count() == 0
    assert page.locator("#task1 .heat h3").first.inner_text() == "Q̂ at work: dqn+pa"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.evaluate("document.documentElement.dataset.theme") is None
    assert page.locator("table.settings").first.is_hidden()
    chart(page, EVALUATION)
    assert page.locator(f"{EVALUATION} .legendtext").count() == 0  # the switches are the legend again


def test_charts_that_nobody_scrolls_to_are_drawn_when_the_page_is_idle(study, look):
    page = look(study / "report.html")
    waiting = "polaugReport.charts.filter((c) => c.box.offsetParent && c.stale).length"
    page.wait_for_function(f"() => {waiting} === 0")
    assert page.locator(".plot.waiting:visible").count() == 0
    assert page.evaluate("scrollY") == 0
    page.get_by_label("mean ± std").check()  # a choice changes those out of sight too
    page.wait_for_function(f"() => {waiting} === 0")


def test_explorers_alone_have_a_page_too(tmp_path, look):
    rng = np.random.default_rng(0)
    for seed in range(2):
        synthetic.write_run(tmp_path, "T", "committee", seed, returns=rng.normal(0, 1, 20).tolist(),
                            choices=["model"] * 20, maps=synthetic.maps(rng, dimensions=4))  # fmt: skip
        synthetic.write_run(tmp_path, "T", "random", seed, returns=rng.normal(0, 1, 20).tolist())
    page = look(write_report(tmp_path))
    assert page.locator(".plot[data-kind=evaluation]").count() == 0
    page.get_by_label("episodes", exact=True).check()
    made = chart(page, ".plot[data-kind=training]")
    assert lines(made)["random"]["x"] == list(range(1, 21))
    assert not [trace for trace in made["data"] if trace.get("type") == "heatmap"]  # nobody else acted
    assert "a slice at the median of the others" in page.locator(".slice").inner_text()
    assert page.title() == "committee, random on T"


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    root = tmp_path_factory.mktemp("big")
    algorithms = ("ppo", "dqn", "a2c", "sac", "td3", "trpo")
    methods = [name + more for name in algorithms for more in ("", "+pa")]
    synthetic.write_study(root, [f"Task{k}-v0" for k in range(9)], methods, 5, steps=20_000, every=400)
    return write_report(root)


def test_a_page_of_twelve_methods_nine_tasks_and_five_seeds(big, look):
    assert big.stat().st_size < 10_000_000
    page = look(big)
    drawn = page.evaluate("polaugReport.first")  # before the page was idle
    assert 0 < drawn < 12  # the rest waits until it is looked at, or nothing else is to be done
    made = chart(page, '.plot[data-task="8"][data-kind="training"]')
    assert len(lines(made)) == 12
    assert all(len(line["x"]) <= POINTS for line in lines(made).values())
