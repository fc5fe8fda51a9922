"""The studio in a real browser beside a run that really trains, and what it refuses."""

import json
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
import uvicorn
from tests.report import synthetic
from tests.waiting import PATIENCE

import polaug.studio
from polaug.cli import main
from polaug.errors import InvalidInputError
from polaug.studio.server import HOST, application
from polaug.study.results import read_run, run_folders
from polaug.study.train import train

ENDS = """([episodes, evaluations]) => { const [run] = polaugStudio.report().runs;
    return run && run.episodes === episodes && run.returns.evaluation && run.returns.evaluation.x.length === evaluations
        && polaugStudio.charts.every((chart) => !chart.near || !chart.stale); }"""
"""Whether the page has drawn so many rows."""
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>%{x}"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def studio(root):
    """The studio's pages from a thread, which starts at once; gives their address."""
    root.mkdir()
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(application(root), log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://{HOST}:{listening.getsockname()[1]}/"
        server.should_exit = True
        thread.join()


@pytest.fixture
def started(root):
    """A studio in a process of its own."""
    with polaug.studio.start(root) as studio:
        yield studio


class Training(threading.Thread):
    """A run that waits, once it has been evaluated, until it is told to go on."""

    def __init__(self, root, method, steps=1_500):
        super().__init__(daemon=True)
        self.settings = {"steps": steps, "every": 250, "eval_episodes": 2, "out": root, "progress": self.wait}
        self.method, self.reached, self.go_on = method, threading.Event(), threading.Event()
        self.start()

    def wait(self, progress):
        if progress.evaluation == progress.evaluation:
            self.reached.set()
            assert self.go_on.wait(PATIENCE)

    def run(self):
        train("CartPole-v1", self.method, **self.settings)


def drawn(page, selector):
    """The traces of a chart, once it is drawn."""
    box = page.locator(selector).first
    box.wait_for()
    box.scroll_into_view_if_needed()
    page.wait_for_function("box => box.data && !box.chart.stale", arg=box.element_handle())
    return box.evaluate("box => JSON.parse(JSON.stringify(box.data))")


def test_a_run_that_trains_is_followed_from_its_start_to_its_end(root, started, open_studio):
    page = open_studio(started.url)
    page.get_by_text("no runs yet").wait_for()
    training = Training(root, "dqn+pa")
    assert training.reached.wait(PATIENCE)
    page.locator(".run .state.running").wait_for()  # it came by itself
    (path,) = run_folders(root)
    early = read_run(path, under_way=True)

    def shown():
        return {trace["name"]: trace for trace in drawn(page, "[data-part=returns]")}

    page.wait_for_function(ENDS, arg=[len(early.returns), len(early.evaluations.means)])
    points = shown()
    assert len(points["guide"]["x"]) == sum(actor == "explorer" for actor in early.episodes.actors) > 0
    assert points["agent alone"]["y"] == pytest.approx(early.evaluations.means, rel=1e-3)
    assert f"{early.evaluations.steps[-1]:,} of 1,500 steps" in page.locator(".run .said").inner_text()
    shares = drawn(page, "[data-part=guide]")
    logged = {trace["name"]: trace["y"][-1] for trace in shares}
    for name, scalar in (("p: probability that the guide is better", "p_guide"), ("weight of teaching", "teaching")):
        assert logged[name] == pytest.approx(early.scalars[f"augmentation/{scalar}"][1][-1])
    picture = page.locator(".stage img")
    picture.scroll_into_view_if_needed()
    page.wait_for_function("image => image.naturalWidth > 100", arg=picture.element_handle())
    first = picture.get_attribute("src")
    page.wait_for_function("([image, src]) => image.src !== src", arg=[picture.element_handle(), first])

    training.go_on.set()
    training.join(PATIENCE)
    page.locator(".run .state.finished").wait_for()
    run = read_run(path)
    page.wait_for_function(ENDS, arg=[len(run.returns), len(run.evaluations.means)])
    assert sum(len(shown()[name]["x"]) for name in ("guide", "agent, in training")) == len(run.returns)
    z = np.array(drawn(page, "[data-map=completed]")[0]["z"], dtype=float)
    wanted = run.maps["completed"][-1].T
    assert np.nanmax(np.abs(z - wanted)) <= np.ptp(run.maps["completed"][np.isfinite(run.maps["completed"])]) / 254


def test_it_survives_its_own_restart_and_that_of_a_run(root, open_studio):
    synthetic.write_run(root, "T", "ppo", returns=[1.0, 2.0], evaluations=[(10, 1.0), (20, 2.0)])
    with polaug.studio.start(root) as first:
        page = open_studio(first.url, lost_is_fine=True)
        page.locator(".run .state.finished").wait_for()
    page.get_by_text("does not answer").wait_for()
    config = root / "T" / "ppo" / "seed_0"
    (config / "done.json").unlink()  # as a run that starts anew
    (config / "episodes.csv").write_text("episode,step,return,length,actor\n1,10,7.0,10,agent\n")
    port = int(first.url.rsplit(":", 1)[1].rstrip("/"))
    with polaug.studio.start(root, port):
        page.locator(".run .state.running").wait_for()
        page.wait_for_function("() => polaugStudio.report().runs[0].episodes === 1")
        assert page.locator("#status.lost").count() == 0


def test_runs_stand_side_by_side_and_are_chosen_by_a_tick(root, studio, open_studio):
    synthetic.write_study(root, ["T"], ["dqn", "dqn+pa"], 2, steps=3_000, every=500)
    page = open_studio(studio)
    page.locator("article.run").nth(3).wait_for()
    places = [card.bounding_box() for card in page.locator("article.run").all()]
    assert len({place["y"] for place in places}) < len(places)
    assert {trace["name"] for trace in drawn(page, "[data-kind=evaluation]") if "meta" in trace} == {
        f"{method} · seed {seed}" for method in ("dqn", "dqn+pa") for seed in (0, 1)
    }
    legend = page.locator("section.task > .lines span").all_inner_texts()
    assert sorted(legend) == [f"{method} · seed {seed}" for method in ("dqn", "dqn+pa") for seed in (0, 1)]
    page.locator("#runs li", has_text="dqn+pa/seed_1").locator("input").uncheck()
    page.wait_for_function("() => document.querySelectorAll('article.run').length === 3")
    page.reload()  # what was chosen is in the address
    page.locator("article.run").nth(2).wait_for()
    assert page.locator("article.run").count() == 3
    slider = page.locator("article.run:has(.timeline) input[type=range]").first
    slider.fill("0")
    assert "1,000 steps" in page.locator("article.run:has(.timeline) output").first.inner_text()


def test_a_list_that_changes_under_the_mouse_keeps_its_rows(root, studio, open_studio):
    """A press and its release are one click, whatever starts or ends between them."""
    synthetic.write_study(root, ["T"], ["dqn"], 2, steps=3_000, every=500)
    running = synthetic.write_run(root, "T", "ppo", evaluations=[(10, 1.0), (20, 2.0)])
    (running / "done.json").rename(running / "later")
    page = open_studio(studio)
    box = page.locator("#runs li", has_text="T/dqn/seed_1").locator("input")
    box.wait_for()
    assert not box.is_checked()  # what is under way is shown at first
    box.scroll_into_view_if_needed()
    box.focus()
    at = box.bounding_box()
    page.mouse.move(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    page.mouse.down()
    (running / "later").rename(running / "done.json")
    page.locator("#runs li", has_text="T/ppo/seed_0").locator(".state.finished").wait_for()
    page.mouse.up()
    page.locator("article.run").nth(1).wait_for()
    assert box.is_checked()
    assert box.evaluate("box => box === document.activeElement")
    synthetic.write_run(root, "U", "ppo", evaluations=[(10, 1.0)])
    page.locator("#runs li", has_text="U/ppo/seed_0").wait_for()
    assert "U/ppo" in page.locator("#runs li").first.inner_text()
    assert box.is_checked()
    page.locator("#runs li", has_text="T/ppo/seed_0").locator("input").uncheck()
    page.wait_for_function("() => document.querySelectorAll('article.run').length === 1")
    (running / "config.json").unlink()
    page.locator("#runs li", has_text="T/ppo/seed_0").wait_for(state="detached")
    assert page.locator("#runs li").count() == 3


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_in_light_and_dark(root, studio, open_studio, width):
    synthetic.write_study(root, ["T"], ["dqn+pa"], 1, steps=3_000, every=500)
    page = open_studio(studio, width=width, color_scheme="dark")
    page.locator("article.run").wait_for()
    for box in page.locator(".plot:visible").all():
        box.scroll_into_view_if_needed()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light page").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_hostile_names_are_harmless(root, studio, open_studio):
    rng = np.random.default_rng(0)
    synthetic.write_run(root, EVIL, EVIL, evaluations=[(10, 1.0), (20, 2.0)], choices=[EVIL], maps=synthetic.maps(rng))
    broken = root / "b<b>"
    broken.mkdir()
    (broken / "config.json").write_text("no json <img src=x onerror=alert(3)>")
    page = open_studio(studio)
    page.locator("#runs input").nth(1).wait_for()
    for box in page.locator("#runs input").all():
        box.check()
    page.locator("article.run").nth(1).wait_for()
    assert page.locator("h2", has_text=EVIL).count() == 1
    assert page.locator("#board img:not(.stage img)").count() == 0
    assert "is damaged" in page.locator(".fault:not(:empty)").inner_text()
    drawn(page, "[data-kind=training]")


# -- without a browser ------------------------------------------------------------------------------------------------


def answer(url, path, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, headers=headers)) as response:
            return response.status, response.read().decode(), response.headers
    except urllib.error.HTTPError as fault:
        with fault:
            return fault.code, fault.read().decode(), fault.headers


OUTSIDE = [
    "../outside",
    "%2e%2e/outside",
    "/etc",
    "T/../../outside",
    "link",
    "T/ppo/seed_0/../../../../outside",
    "a%00b",
]


def test_folders_outside_the_root_are_refused_and_so_is_every_other_name(root, studio):
    synthetic.write_run(root, "T", "ppo", evaluations=[(10, 1.0)])
    outside = synthetic.write_run(root.parent / "outside", "T", "ppo", evaluations=[(10, 1.0)])
    (root / "link").symlink_to(outside, target_is_directory=True)
    for path in OUTSIDE:
        for page in ("board", "frame"):
            status, text, _ = answer(studio, f"api/{page}?run={path}")
            assert status == 403, path
            assert "not inside the studio's folder" in json.loads(text)["error"]
    listed = json.loads(answer(studio, "api/runs")[1])["runs"]
    assert [run["id"] for run in listed] == ["T/ppo/seed_0"]
    assert answer(studio, "api/runs", Host="evil.example")[0] == 400  # DNS rebinding
    for path in ("static/index.html", "..%2f..%2fpyproject.toml", "config.json", "api/board?run=unknown"):
        assert answer(studio, path)[0] == 404
    status, _, headers = answer(studio, "")
    assert status == 200
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert headers["Access-Control-Allow-Origin"] is None


def test_what_has_not_changed_is_not_sent_again_and_nothing_is_written(root, studio):
    path = synthetic.write_run(root, "T", "ppo", evaluations=[(10, 1.0), (20, 2.0)])
    before = {file: file.stat() for file in root.rglob("*")}
    query = "api/board?run=T/ppo/seed_0"
    _, text, headers = answer(studio, query)
    assert json.loads(text)["runs"][0]["episodes"] == 2
    assert answer(studio, query, **{"If-None-Match": headers["ETag"]})[0] == 304
    status, text, _ = answer(studio, "api/frame?run=T/ppo/seed_0")
    assert status == 409
    assert "has no policy.npz yet" in json.loads(text)["error"]
    assert {file: file.stat().st_mtime_ns for file in root.rglob("*")} == {
        file: stat.st_mtime_ns for file, stat in before.items()
    }
    (path / "evaluations.csv").write_text("step,mean_return,std_return\n10,1.0,0.0\n")
    assert answer(studio, query, **{"If-None-Match": headers["ETag"]})[0] == 200


def test_a_missing_folder_and_a_taken_port_are_said(root, studio, capsys):
    assert main(["studio", str(root / "nowhere")]) == 2
    assert "must be a folder" in capsys.readouterr().err
    port = int(studio.rsplit(":", 1)[1].rstrip("/"))
    with pytest.raises(InvalidInputError, match=r"port: must be a free one.*Pass another"):
        polaug.studio.serve(root, port)
