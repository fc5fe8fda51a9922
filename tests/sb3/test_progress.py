"""The progress bar of an augmented agent shows what drives, in a terminal and in a notebook."""

import re

import nbclient
import nbformat
import pytest
from stable_baselines3 import DQN
from tests.waiting import PATIENCE

import polaug


@pytest.mark.filterwarnings("ignore::tqdm.TqdmExperimentalWarning")  # of the plain agent's bar
@pytest.mark.parametrize("augmented", [True, False])
def test_the_bar_counts_the_guides_recent_episodes(capfd, monkeypatch, augmented):
    monkeypatch.setenv("COLUMNS", "200")
    ended = []

    def look(local, _):
        ended.extend(info["actor"] for info in local["infos"] if "actor" in info)

    settings = {} if augmented else {"augmentation": None}
    model = polaug.augment(DQN)("MlpPolicy", "CartPole-v1", seed=0, learning_starts=50, **settings)
    model.learn(500, callback=look, progress_bar=True)
    shown = "".join(capfd.readouterr())
    assert "500" in shown
    if not augmented:
        assert "guide" not in shown
        return
    recent = ended[-20:]
    told = re.findall(r"guide drove (\d+) of (\d+)", " ".join(shown.split()))
    assert told[-1] == (str(sum(actor != "agent" for actor in recent)), str(len(recent)))


def test_a_notebook_shows_one_bar_without_further_packages():
    code = """
from stable_baselines3 import A2C
import polaug
model = polaug.augment(A2C)("MlpPolicy", "CartPole-v1", augmentation="random", seed=0)
model.learn(100, progress_bar=True);
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=PATIENCE).execute()
    (shown,) = notebook.cells[0].outputs
    assert re.search(r'<progress value="100" max="100">.* guide drove \d+ of \d+', shown["data"]["text/html"])
