"""The examples run, and a dozen lines augment a single-file agent."""

import importlib.util
from pathlib import Path

import pytest
import torch

from polaug import Coach

ROOT = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_an_example_trains_with_a_coach(name, monkeypatch):
    coaches, observe = [], Coach.observe

    def noted(coach, transitions, **options):
        coaches.append(coach)
        return observe(coach, transitions, **options)

    monkeypatch.setattr(Coach, "observe", noted)
    module = load(name)
    network = module.train("CartPole-v1", 1536, seed=0)
    coach = coaches[0]
    assert coach.steps == 1536
    assert 0 < coach.guide_steps < coach.steps
    assert coach.updates > 0
    assert all(torch.isfinite(weights).all() for weights in network.parameters())
    assert module.evaluate("CartPole-v1", network, episodes=3) > 15.0  # chance lasts some 20 steps, at most 500


@pytest.mark.filterwarnings("ignore:.*ReseedWrapper")  # it says that it ignores SB3's seed
def test_the_example_of_minigrid_solves_a_small_task():
    module = load("minigrid")
    model = module.train("MiniGrid-Empty-5x5-v0", 2048, seed=0)
    assert module.evaluate("MiniGrid-Empty-5x5-v0", model, seed=0, episodes=2) > 0.9


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_an_example_is_short_and_so_is_what_augments_it(name):
    lines = (ROOT / f"{name}.py").read_text().splitlines()
    assert len(lines) < 200
    assert 5 <= sum("# polaug" in line for line in lines) <= 13
