"""The report says what the runs say, stands alone, and trusts no name."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from polaug.errors import InvalidInputError, StateError
from polaug.report import find_runs, groups, write_report
from polaug.report.summary import first_success, sentence, shown
from polaug.study import Episode, RunFolder, explore

EVIL = "<script>alert(1)</script>$x_1$&\"'"


def run(root, task="T", explorer="e", seed=0, returns=(1.0, 2.0), *, maps=None, **settings):
    config = {"task": task, "explorer": explorer, "seed": seed, "threshold": 2.0, "success": 2.0} | settings
    with RunFolder(root / f"{len(list(root.iterdir()))}", config) as folder:
        for k, value in enumerate(returns, start=1):
            folder.add(Episode(k, 10 * k, value, 10, "explorer"))
        folder.finish({"steps": 10 * len(returns), "explorer_us_per_step": 12.0}, maps)
    return folder.path


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    VOID = ("meta", "br", "link")

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


def read(path):
    return Page(path.read_text(encoding="utf-8"))


def test_runs_are_found_at_any_depth_and_unfinished_ones_left_out(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    run(tmp_path / "a" / "b", seed=1)
    run(tmp_path / "a", seed=0)
    unfinished = run(tmp_path / "a", seed=2)
    (unfinished / "done.json").unlink()
    found = find_runs(tmp_path)
    assert [each.seed for each in found] == [0, 1]
    assert found[0].returns.tolist() == [1.0, 2.0]
    assert found[0].steps.tolist() == [10, 20]


def test_numbers_of_a_group(tmp_path):
    run(tmp_path, seed=0, returns=[0.0] * 4 + [3.0] * 4)
    run(tmp_path, seed=1, returns=[1.0] * 7 + [5.0])
    (group,) = groups(find_runs(tmp_path))
    assert group.episodes == 8
    assert group.early == 0.5
    assert group.late == np.mean([3, 3, 1, 5])
    assert group.first_successes == (5.0, 8.0)
    assert first_success(group) == "episode 6.5"
    assert "first success in episode 6.5" in sentence(group)


def test_success_that_did_not_happen_is_not_claimed(tmp_path):
    run(tmp_path, seed=0, returns=[0.0, 0.0])
    (never,) = groups(find_runs(tmp_path))
    assert first_success(never) == "never"
    assert "no success in 2 episodes" in sentence(never)
    run(tmp_path, seed=1, returns=[0.0, 2.0])
    (some,) = groups(find_runs(tmp_path))
    assert first_success(some) == "1 of 2 seeds"
    run(tmp_path, task="U", threshold=None, success=None)
    assert first_success(groups(find_runs(tmp_path))[1]) == "no threshold"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.001, "0"), (-200.0, "−200"), (12345.6, "12,346"), (0.994, "0.99"), (1e9, "1e+09"),
     (np.inf, "never"), (100.0, "100"), (-1.5, "−1.5"), (20.0, "20")],
)  # fmt: skip
def test_numbers_for_people(value, text):
    assert shown(value) == text


def test_the_page_stands_alone(tmp_path):
    maps = explore("MountainCar-v0", "paper", episodes=1).maps
    for seed in range(2):
        for explorer in ("first", "second"):
            run(tmp_path, "MountainCar-v0", explorer, seed, [-200.0, -150.0, -120.0, -110.0], maps=maps)
    path = write_report(tmp_path)
    assert path == tmp_path / "report.html"
    page = read(path)
    tags = [tag for tag, _ in page.tags]
    assert "script" not in tags
    assert "link" not in tags
    assert "iframe" not in tags
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!data:|#)([^"')\s>]+)""", text)
    figures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(figures) == 1 + 2 * 2  # curves, then two maps of each explorer
    assert all(figure["role"] == "img" and figure["aria-label"] for figure in figures)
    assert any(tag == "meta" and "width=device-width" in attributes.get("content", "") for tag, attributes in page.tags)
    assert "prefers-color-scheme: dark" in text
    assert "default-src 'none'" in text
    assert path.stat().st_size < 1_000_000


def test_numbers_on_the_page_are_those_of_the_data(tmp_path):
    run(tmp_path, returns=[-7.0, 0.25, 3.5, 4.5])
    words = " ".join(read(write_report(tmp_path)).text)
    for number in ("−7", "4.5", "episode 3", "40", "12"):
        assert number in words
    assert "polaug" in words  # versions


def test_names_are_escaped_everywhere(tmp_path):
    maps = explore("MountainCar-v0", "paper", episodes=1).maps
    run(tmp_path, EVIL, EVIL, maps=maps, options={EVIL: EVIL})
    run(tmp_path, "_hidden", "_also")
    path = write_report(tmp_path)
    assert "<script" not in path.read_text(encoding="utf-8")
    page = read(path)
    assert EVIL in page.text
    assert "_also" in page.text
    assert not [1 for _, attributes in page.tags for name in attributes if name.startswith("on")]


def test_one_episode_and_unequal_lengths_can_be_drawn(tmp_path):
    run(tmp_path, "short", returns=[1.0])
    run(tmp_path, "uneven", seed=0, returns=[1.0, 2.0, 3.0])
    run(tmp_path, "uneven", seed=1, returns=[1.0, 2.0])
    run(tmp_path, "huge", returns=[-1e12, 1e12])
    write_report(tmp_path)


def test_the_same_runs_give_the_same_page(tmp_path):
    run(tmp_path)
    first = write_report(tmp_path, tmp_path / "elsewhere" / "a.html").read_bytes()
    assert first == write_report(tmp_path, tmp_path / "b.html").read_bytes()


def test_no_runs_and_damaged_runs_are_told(tmp_path):
    with pytest.raises(InvalidInputError, match="folder"):
        find_runs(tmp_path / "none")
    with pytest.raises(InvalidInputError, match="finished run"):
        write_report(tmp_path)
    damaged = run(tmp_path)
    (damaged / "episodes.csv").write_text("episode,step\n1,x\n")
    with pytest.raises(StateError, match=re.escape(str(damaged))):
        write_report(tmp_path)
    (damaged / "episodes.csv").write_text("episode,step,return,length,actor\n")
    (damaged / "config.json").write_text(json.dumps([1]))
    with pytest.raises(StateError, match="damaged"):
        write_report(tmp_path)
