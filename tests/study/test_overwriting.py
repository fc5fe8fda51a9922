"""Files that polaug did not write are named and kept; its own are replaced."""

import json
import zipfile

import numpy as np
import pytest
from PIL import Image
from tests.study.run_folders import write_run

from polaug import cli
from polaug.cli.export import COLUMNS, export
from polaug.errors import StateError
from polaug.paper.figures import figures
from polaug.report import write_report
from polaug.state import save_state
from polaug.study import RunFolder, find_runs
from polaug.study.folder import COLUMNS as RUN_COLUMNS

SETTINGS = {"task": "CartPole-v1", "explorer": "random", "seed": 0}
HEADER = "episode,step,return,length,actor\r\n"


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "runs", "CartPole-paper", "ppo", 0)
    return tmp_path / "runs"


# -- run folders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("episodes.csv", "a,b\n1,2\n"),  # no longer than our header
        ("episodes.csv", "x"),
        ("failed.json", '{"error": "mine"}'),
        ("failed.json", '{"error": "", "traceback": "of mine"}'),
        ("failed.json", "[]"),
        ("failed.json", "text"),
        ("evaluations.csv", ""),
        ("normalization.npz", ""),
    ],
)
def test_a_run_folder_keeps_files_of_others(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(StateError, match=rf"{name} was not written by polaug.* Move it away"):
        RunFolder(tmp_path, SETTINGS)
    assert (tmp_path / name).read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", [*RUN_COLUMNS, "failed.json"])
def test_so_does_one_with_a_run_of_ours_under_way(tmp_path, name):
    with RunFolder(tmp_path, SETTINGS):
        pass
    (tmp_path / name).write_text("my own\n")
    with pytest.raises(StateError, match=f"{name} was not written by polaug"):
        RunFolder(tmp_path, SETTINGS)
    assert (tmp_path / name).read_text() == "my own\n"


@pytest.mark.parametrize("content", ["", "episode,st", HEADER, HEADER + "1,20,1.0,20,agent\r\n2,4"])
def test_what_a_killed_run_left_is_started_anew(tmp_path, content):
    (tmp_path / "episodes.csv").write_text(content, newline="")
    (tmp_path / "failed.json").write_text(json.dumps({"error": "killed", "traceback": "", "polaug": "1.0"}))
    with RunFolder(tmp_path, SETTINGS):
        assert (tmp_path / "episodes.csv").read_bytes().decode() == HEADER
    assert not (tmp_path / "failed.json").exists()


# -- what is made from runs -------------------------------------------------------------------------------------------


def test_the_report_of_somebody_else_is_kept(runs, capsys):
    (runs / "report.html").write_text("<html>mine</html>")
    with pytest.raises(StateError, match=r"report\.html was not written by polaug.*Move it away"):
        write_report(runs, figures=True)
    assert cli.main(["report", str(runs)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (runs / "report.html").read_text() == "<html>mine</html>"
    assert not (runs / "figures").exists()
    (runs / "report.html").unlink()
    assert write_report(runs).read_bytes() == write_report(runs).read_bytes()  # ours is replaced


@pytest.mark.parametrize("name", [*(f"{t}.{k}" for t in COLUMNS for k in ("csv", "parquet")), "summary.json"])
def test_an_export_keeps_files_of_others(runs, tmp_path, name):
    pytest.importorskip("pyarrow")
    formats = ("csv", "parquet", "json")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text('{"rows": "mine"}')
    with pytest.raises(StateError, match=f"{name} was not written by polaug"):
        export(runs, tmp_path / "out", formats)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]  # and nothing was written before it
    assert (tmp_path / "out" / name).read_text() == '{"rows": "mine"}'
    (tmp_path / "out" / name).unlink()
    assert export(runs, tmp_path / "out", formats) == export(runs, tmp_path / "out", formats)


def picture(path):
    Image.new("RGB", (3, 3)).save(path)


def table(path):
    save_state(path, {"episodes": np.array(1), "mine": np.zeros(2)})


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("figure_1.npz", table),
        ("figure_1.png", picture),
        ("figure_2b.png", picture),
        ("figure_2b.pdf", lambda path: path.write_bytes(b"%PDF-1.4 mine")),
    ],
)
def test_the_papers_figures_keep_files_of_others(runs, quick_tables, name, write):
    (runs / "figures").mkdir()
    write(runs / "figures" / name)
    before = (runs / "figures" / name).read_bytes()
    with pytest.raises(StateError, match=f"{name} was not written by polaug"):
        figures(runs)
    assert {path.name: path.read_bytes() for path in (runs / "figures").iterdir()} == {name: before}


def test_figures_of_ours_are_marked_and_drawn_again(runs, quick_tables):
    first = {path: path.read_bytes() for path in figures(runs)}
    assert {path: path.read_bytes() for path in figures(runs, q_episodes=1)} == first
    write_report(runs, figures=True)
    write_report(runs, figures=True)
    for name in ("figure_2b", "curves-CartPole-paper"):
        with Image.open(runs / "figures" / f"{name}.png") as image:
            assert image.info["Software"] == "polaug"


@pytest.mark.parametrize("name", ["curves-CartPole-paper.png", "maps-CartPole-paper.pdf"])
def test_a_reports_figures_keep_files_of_others(runs, name):
    (runs / "figures").mkdir()
    (runs / "figures" / name).write_text("mine")
    with pytest.raises(StateError, match=f"{name} was not written by polaug"):
        write_report(runs, figures=True)
    assert [path.name for path in (runs / "figures").iterdir()] == [name]
    assert not (runs / "report.html").exists()


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("export", lambda runs: cli.main(["export", str(runs)])),
        ("figures", lambda runs: cli.main(["report", str(runs), "--figures"])),
        ("figures", lambda runs: figures(runs) and 0),
    ],
)
def test_links_do_not_lead_out(runs, tmp_path, quick_tables, capsys, name, write):
    (tmp_path / "elsewhere").mkdir()
    (runs / name).symlink_to(tmp_path / "elsewhere")
    try:
        assert write(runs) == 2
        told = capsys.readouterr().err
    except StateError as fault:
        told = str(fault)
    assert f"{runs / name} leads out of {runs}, and results stay inside it. Remove the link." in told
    assert not list((tmp_path / "elsewhere").iterdir())


def test_who_names_another_folder_may_mean_a_link(runs, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    export(runs, tmp_path / "link")
    assert (tmp_path / "elsewhere" / "runs.csv").exists()
    assert len(find_runs(runs)) == 1


def test_a_state_of_another_program_is_kept(runs, quick_tables):
    (runs / "figures").mkdir()
    with zipfile.ZipFile(runs / "figures" / "figure_1.npz", "w") as archive:
        archive.writestr("mine.txt", "text")
    with pytest.raises(StateError, match=r"figure_1\.npz was not written by polaug"):
        figures(runs)
