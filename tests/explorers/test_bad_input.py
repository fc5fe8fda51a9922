"""Bad input is named, with the rule and a remedy, and nothing that was learnt is lost."""

import numpy as np
import pytest
from gymnasium import spaces

from polaug import Transitions, make_explorer
from polaug.errors import InvalidInputError
from polaug.testing import Rollout

ACTIONS = spaces.Discrete(3)
NUMBERS = spaces.Box(-1.0, 1.0, (2,))
GOALS = spaces.Dict(observation=NUMBERS, achieved_goal=NUMBERS, desired_goal=NUMBERS)


def learnt(space, **options):
    """An explorer that has seen forty steps, and the next ones."""
    explorer = make_explorer("portfolio", space, ACTIONS, seed=0, **options)
    rollout = Rollout(space, 1, 0)
    for _ in range(40):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    return explorer, rollout


def refused(explorer, call, rule):
    before = explorer.state_dict()
    with pytest.raises(InvalidInputError, match=rule):
        call()
    after = explorer.state_dict()
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("masks", "rule"),
    [
        (np.ones((1, 2), bool), r"masks: must be truth values of shape \(1, 3\).*shape \(1, 2\).*action_masks"),
        (np.ones(3, bool), r"masks: must be truth values of shape \(1, 3\).*one row for each environment"),
        (np.zeros((1, 3), bool), "masks: environment 0: at least one action must be legal.*end the episode"),
        (np.full((1, 3), 0.5), "masks: must be truth values"),
    ],
)
def test_masks(masks, rule):
    explorer, rollout = learnt(NUMBERS)
    refused(explorer, lambda: explorer.act(rollout.observations, masks), rule)
    assert explorer.act(rollout.observations, np.array([[False, True, False]])) == [1]


def test_observations_of_another_shape():
    explorer, _ = learnt(NUMBERS)
    rule = r"observations: must have the batched shape \(n, 2\), got an array of shape \(1, 3\)"
    refused(explorer, lambda: explorer.act(np.zeros((1, 3))), rule)
    step = Transitions(np.zeros((1, 3)), np.array([0]), [0.0], np.zeros((1, 2)), [False], [False])
    refused(explorer, lambda: explorer.observe(step), rule)
    refused(explorer, lambda: explorer.act(np.zeros(2)), r"a single one is a batch of one, x\[None\]")


def test_a_goal_dict_without_its_keys():
    explorer, rollout = learnt(GOALS)
    partial = {key: rollout.observations[key] for key in ("observation", "achieved_goal")}
    refused(explorer, lambda: explorer.act(partial), "observations: must have the key 'desired_goal'.*achieved_goal")
    refused(explorer, lambda: explorer.act(rollout.observations["observation"]), "must be a dict with the keys")


def test_an_encoder_that_returns_nan():
    broken = []

    def encoder(observations):
        return np.full((len(observations), 2), np.nan) if broken else observations[:, :2]

    explorer, rollout = learnt(spaces.Box(-1.0, 1.0, (4,)), features=encoder)
    broken.append(True)
    rule = r"features callable .*encoder.*: environment 0, feature 0: must be finite, got nan. Fix the output"
    refused(explorer, lambda: explorer.act(rollout.observations), rule)
    seen = rollout.observations
    refused(explorer, lambda: explorer.observe(Transitions(seen, np.array([0]), [0.0], seen, [False], [False])), rule)
