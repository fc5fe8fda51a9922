"""Nobody predicts the environment's coin: no explorer and no agent draws from the environment's stream of numbers."""

import pytest
from tests.cli.coin_env import STEPS

from polaug import cli
from polaug.explorers import METHODS
from polaug.study import find_runs

COIN = "tests.cli.coin_env:Coin-v0"
LUCK = 0.75
"""Share of right guesses in 200 tosses that luck alone exceeds once in 10¹² times; one shared stream gives 1."""


def guessed(folder):
    for run in find_runs(folder):
        yield run.returns[:4].sum() / (4 * STEPS)


@pytest.mark.parametrize("explorer", METHODS)
def test_explorers_alone_do_not_know_the_coin(tmp_path, explorer):
    coin = COIN.replace("Coin-", "CoinCells-") if explorer == "tabular" else COIN
    words = ["explore", coin, "--explorer", explorer, "--episodes", "4", "--seeds", "3", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    shares = list(guessed(tmp_path))
    assert len(shares) == 3
    assert max(shares) < LUCK


@pytest.mark.parametrize("algo", ["dqn", "ppo"])
@pytest.mark.parametrize("explorer", ["random", "committee", "none"])
def test_agents_and_their_explorers_do_not_know_it_either(tmp_path, algo, explorer):
    words = ["train", COIN, "--algo", algo, "--explorer", explorer, "--steps", "200", "--early-every", "0"]
    assert cli.main([*words, "--eval-episodes", "1", "--confirm-episodes", "4", "--out", str(tmp_path)]) == 0
    (share,) = guessed(tmp_path)
    assert share < LUCK
