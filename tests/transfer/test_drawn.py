"""Returns of a lesson: rows that belong together, in the agent's units."""

import numpy as np
import torch

from polaug.exploration import Transitions
from polaug.transfer import Student
from polaug.transfer.drawn import DrawnReturns
from polaug.transfer.episodes import FinishedEpisodes


def student(scale=1.0):
    return Student(
        "value_based", gamma=0.5, parameters=list, tensor=lambda s: torch.as_tensor(np.asarray(s)),
        actions=lambda a: torch.as_tensor(np.asarray(a).reshape(len(a), -1)), reward_scale=lambda: scale,
    )  # fmt: skip


def finished(steps=64):
    """One episode whose rows can be told apart: state k, action 2 k, and a reward of 1 at its end."""
    episodes = FinishedEpisodes(0.5, 1000)
    for k in range(steps):
        last = k == steps - 1
        episodes.watch(Transitions(np.array([[k]], np.float32), np.array([2 * k]), np.array([float(last)]),
                                   np.array([[k + 1]], np.float32), np.array([last]), np.array([False])))  # fmt: skip
    return episodes


def test_rows_belong_together_and_are_in_the_agents_units():
    drawn = DrawnReturns(finished(), student(scale=3.0), np.random.default_rng(0), batches=4, size=16)
    seen = []
    for _ in range(4):
        past = drawn.next()
        assert past.states.shape == (16, 1)
        at = past.states[:, 0].numpy()
        np.testing.assert_array_equal(past.actions[:, 0].numpy(), 2 * at)
        np.testing.assert_allclose(past.returns.numpy(), 3.0 * 0.5 ** (63 - at), rtol=1e-6)
        seen.append(past.returns.numpy())
    assert drawn.next() is None
    np.testing.assert_allclose(drawn.spread, np.concatenate(seen).std(), rtol=1e-5)
    assert drawn.spread > 0


def test_without_a_finished_episode_there_is_nothing():
    drawn = DrawnReturns(FinishedEpisodes(0.5, 10), student(), np.random.default_rng(0), batches=4, size=16)
    assert drawn.next() is None
    assert drawn.spread == 0.0
