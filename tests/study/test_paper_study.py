"""The paper's study and its figures, from run folders made by hand."""

import numpy as np
import pytest
from tests.study.run_folders import write_run

from polaug.errors import InvalidInputError
from polaug.paper.figures import figures, learning_curves
from polaug.paper.study import METHODS, OURS, PUBLISHED, paper_study
from polaug.paper.tables import SHAPE, q_tables
from polaug.state import load_state
from polaug.study.results import find_runs


@pytest.fixture(scope="module")
def tables():
    return q_tables(episodes=2, seed=1)


def test_the_study_is_the_papers():
    study = paper_study(seeds=2, steps=300, episodes=2)
    assert [task.name for task in study.tasks] == ["CartPole-paper", "MountainCar-paper"]
    assert [method.name for method in study.methods] == list(METHODS)
    assert len(PUBLISHED) == 6
    assert not set(PUBLISHED) & set(OURS)
    assert len(study.cells()) == 2 * 9 * 2
    assert not study.skipped


def test_q_is_shown_on_the_papers_grid(tables):
    assert SHAPE[0] * SHAPE[1] == 285
    for name in ("paper", "portfolio"):
        observed, completed = tables[f"{name}.observed"], tables[f"{name}.completed"]
        assert observed.shape == completed.shape == (19, 15, 3)
        assert 0 < np.isfinite(observed).sum() < observed.size / 2
        unknown = name == "portfolio" and np.isnan(completed).all()  # no Q̂ while rewards tell nothing
        assert unknown or np.isfinite(completed).all()
    assert tables["paper.steps"] == 400


def test_as_printed_q_hat_has_rank_one(tables):
    """One column of Y: Q̂(s, a) = f(s) · y(a), so that coasting, between the others, is never the best."""
    completed = tables["paper.completed"].reshape(-1, 3)
    assert np.linalg.matrix_rank(completed, tol=1e-9 * np.abs(completed).max()) == 1
    assert completed[:, 0] * 11 == pytest.approx(completed[:, 2] * -9)
    assert not (completed.argmax(axis=1) == 1).any()


def test_observed_returns_are_discounted(tables):
    """Without the flag in an episode of 200 steps of −1, nothing lies below −(1 − γ^200)/(1 − γ)."""
    seen = tables["portfolio.observed"]
    assert np.nanmin(seen) >= -(1 - 0.99**200) / 0.01 - 1e-9
    assert np.nanmax(seen) <= 10.0


def test_figures_from_folders(tmp_path, tables):
    rng = np.random.default_rng(0)
    for k, method in enumerate(METHODS):
        for seed in range(2):
            returns = 20 + rng.random(6) * 10 * k
            explored = 3 if "+pa" in method else 0
            write_run(tmp_path / "runs", "CartPole-paper", method, seed, returns=returns, explored=explored)
    write_run(tmp_path / "runs", "Other", "ppo", 0)
    files = figures(tmp_path / "runs", tmp_path / "figures", q_episodes=1)
    names = ["figure_1.pdf", "figure_1.png", "figure_2b.pdf", "figure_2b.png"]
    assert sorted(file.name for file in files) == names
    for file in files:
        assert file.read_bytes().startswith(b"%PDF" if file.suffix == ".pdf" else b"\x89PNG")
    assert load_state(tmp_path / "figures" / "figure_1.npz")["episodes"] == 1


def test_curves_show_what_all_runs_have(tmp_path):
    write_run(tmp_path, "CartPole-paper", "ppo", 0, returns=np.arange(12.0))
    write_run(tmp_path, "CartPole-paper", "ppo", 1, returns=2 + np.arange(8.0))
    write_run(tmp_path, "CartPole-paper", "my+method", 0, returns=np.arange(150.0), threshold=-110.0)
    figure = learning_curves(find_runs(tmp_path))
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in panels] == ["ppo", "my+method"]  # ours after the paper's
    line = panels[0].get_lines()[1]
    assert line.get_ydata() == pytest.approx(1 + np.arange(8.0))
    band = panels[0].collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(1 - np.sqrt(2.0))  # one standard deviation below the first mean


def test_no_runs_of_the_paper(tmp_path):
    write_run(tmp_path, "Other", "ppo", 0)
    with pytest.raises(InvalidInputError, match="polaug paper"):
        figures(tmp_path)
