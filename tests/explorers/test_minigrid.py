"""MiniGrid as users bring it: raw dictionaries, its standard wrappers, nothing set."""

import gymnasium as gym
import numpy as np
import pytest
from minigrid.wrappers import FlatObsWrapper, ImgObsWrapper, ReseedWrapper, RGBImgPartialObsWrapper

from polaug import Transitions, make_explorer
from polaug.study.explore import batch_of_one

VIEWS = {
    "raw Dict": lambda env: env,
    "cells": ImgObsWrapper,
    "flat": FlatObsWrapper,
    "pixels": lambda env: ImgObsWrapper(RGBImgPartialObsWrapper(env)),
}


@pytest.mark.parametrize("view", VIEWS)
def test_the_key_the_door_and_the_goal_are_found_in_any_view(view):
    env = VIEWS[view](ReseedWrapper(gym.make("MiniGrid-DoorKey-5x5-v0"), seeds=(1,)))
    explorer = make_explorer("portfolio", env.observation_space, env.action_space, seed=0)
    observation, _ = env.reset()
    for _ in range(750):  # three episodes
        action = explorer.act(batch_of_one(observation))
        following, reward, terminated, truncated, _ = env.step(action[0])
        explorer.observe(
            Transitions(batch_of_one(observation), action, [reward], batch_of_one(following), [terminated], [truncated])
        )
        observation = following
        if reward > 0:
            break
        if terminated or truncated:
            observation, _ = env.reset()
    assert reward > 0
    values = explorer.q_values(batch_of_one(observation))
    assert values.shape == (1, 7)
    assert np.isfinite(values).all()
    assert explorer.statistics()["recurs"] == 1.0
