"""The benchmark of everything: a tiny part really runs, goes on where it was, and ends in the page."""

import json

import pytest
from benchmarks import all as benchmark
from benchmarks.all import BEGIN, END, PARTS, STUDIES, claim, command, main
from benchmarks.variants import PERMUTED
from gymnasium import spaces

from polaug.study.methods import METHODS
from polaug.study.results import find_runs
from polaug.study.tasks import CLASSIC, TASKS, task


def test_its_studies_name_what_there_is():
    methods = {name for study in STUDIES.values() for name in study.methods}
    assert methods <= set(METHODS)
    with_ids = {each.name for each in CLASSIC if isinstance(each.make().observation_space, spaces.Discrete)}
    assert with_ids == set(PERMUTED)
    permuted = {PERMUTED[name] for name in with_ids}  # both columns of every task with ids
    assert {task(name).threshold for name in permuted} == {TASKS[name].threshold for name in with_ids}
    assert {name for study in STUDIES.values() for name in study.tasks} == {task.name for task in CLASSIC} | permuted
    for part in PARTS:
        assert command(part, benchmark.ROOT, 5, None, 2)
    for names in benchmark.COMMANDS.values():
        assert all((benchmark.ROOT / "benchmarks" / f"{name}.py").exists() for name in names)


def test_a_part_runs_goes_on_and_ends_in_the_page(tmp_path, monkeypatch):
    tiny = benchmark.Comparison(("CartPole-v1",), ("ppo", "ppo+pa"), 400, "A trial")
    monkeypatch.setattr(benchmark, "STUDIES", {"classic": tiny})
    sheet, out = tmp_path / "results.md", tmp_path / "out"
    sheet.write_text(f"# Results\n\nBy hand.\n\n{BEGIN}old\n{END}\n## Below\n")
    words = ["--only", "classic", "--seeds", "1", "--workers", "1", "--out", str(out), "--page", str(sheet)]
    said = []
    main(words, said.append)
    text = sheet.read_text()
    assert text.startswith("# Results\n\nBy hand.\n")
    assert text.endswith("## Below\n")
    assert "old" not in text
    assert f"Measured at commit {json.loads((out / 'commit.json').read_text())['commit']}" in text
    assert f"| CartPole-v1 | ppo (reference) | 1 | > {400} |" in text
    assert "| CartPole-v1 | ppo+pa | " in text
    assert said[0].startswith("[1/1] classic")
    before = {run.path: (run.path / "done.json").stat().st_mtime_ns for run in find_runs(out)}
    assert len(before) == 2
    main(words, said.append)
    assert before == {run.path: (run.path / "done.json").stat().st_mtime_ns for run in find_runs(out)}
    assert sheet.read_text() == text


def test_measurements_of_another_commit_are_not_mixed(tmp_path):
    claim(tmp_path, "abc")
    claim(tmp_path, "abc")
    with pytest.raises(SystemExit, match=r"holds measurements of abc, this is def. Choose another folder"):
        claim(tmp_path, "def")


def test_a_page_without_marks_is_not_overwritten(tmp_path):
    (tmp_path / "page.md").write_text("mine")
    with pytest.raises(SystemExit, match="lacks the marks"):
        benchmark.write("tables", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == "mine"
