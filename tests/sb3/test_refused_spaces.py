"""Environments whose spaces Stable-Baselines3 does not take are refused with a remedy that works."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FilterObservation, FlattenObservation, TransformAction, TransformObservation
from stable_baselines3 import PPO

import minigrid  # noqa: F401  (registers its tasks)
from polaug.config import Augmentation
from polaug.errors import UnsupportedSpaceError
from polaug.sb3 import augment

NUMBERS = spaces.Box(-1.0, 1.0, (3,), np.float32)
CHOICES = spaces.Discrete(2)
GRAPH = spaces.Graph(spaces.Box(-1, 1, (2,)), None)


class Drawn(gym.Env):
    """Sends members of its observation space."""

    def __init__(self, observations, actions=CHOICES):
        self.observation_space, self.action_space = observations, actions
        observations.seed(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.t += 1
        return self.observation_space.sample(), 0.0, False, self.t >= 10, {}


def trained(env, policy="MlpPolicy"):
    settings = Augmentation("random", teach_every=10**6)
    options = {"n_steps": 16, "batch_size": 16, "seed": 0, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
    return augment(PPO)(policy, env, augmentation=settings, **options).learn(16)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Tuple((NUMBERS, CHOICES)),
        spaces.Dict(inner=spaces.Dict(a=NUMBERS), b=CHOICES),
        spaces.Dict(a=NUMBERS, words=spaces.Text(4)),
        spaces.Text(4),
        spaces.Discrete(5, start=3),
        spaces.Dict(a=spaces.Discrete(2, start=1)),
        spaces.MultiDiscrete([[3, 2], [2, 2]]),
        spaces.Box(-1.0, 1.0, ()),
    ],
)
def test_what_can_be_flattened_is(space):
    with pytest.raises(UnsupportedSpaceError, match=r"observation_space.*as Stable-Baselines3 requires.*Flatten"):
        trained(Drawn(space))
    assert trained(FlattenObservation(Drawn(space))).num_timesteps == 16


def test_what_cannot_be_flattened_is_left_out_or_turned_into_numbers():
    with pytest.raises(UnsupportedSpaceError, match="TransformObservation"):
        trained(Drawn(GRAPH))
    mean = TransformObservation(Drawn(GRAPH), lambda graph: graph.nodes.mean(axis=0), spaces.Box(-1.0, 1.0, (2,)))
    assert trained(mean).num_timesteps == 16
    within = Drawn(spaces.Dict(a=NUMBERS, graph=GRAPH))
    with pytest.raises(UnsupportedSpaceError, match=r"\['graph'\].*FilterObservation\(env, \['a'\]\)"):
        trained(within, "MultiInputPolicy")
    assert trained(FilterObservation(within, ["a"]), "MultiInputPolicy").num_timesteps == 16


def test_the_mission_of_minigrid_is_left_out():
    env = gym.make("MiniGrid-DoorKey-5x5-v0")
    with pytest.raises(UnsupportedSpaceError, match=r"\['mission'\].*\(env, \['direction', 'image'\]\)"):
        trained(env, "MultiInputPolicy")
    left = FilterObservation(env, ["direction", "image"])
    assert trained(left, "MultiInputPolicy").num_timesteps == 16


def test_actions_without_bounds_get_some():
    env = Drawn(NUMBERS, spaces.Box(-np.inf, np.inf, (2,)))
    with pytest.raises(UnsupportedSpaceError, match=r"action_space.*finite bounds.*TransformAction"):
        trained(env)
    bounded = spaces.Box(-1.0, 1.0, env.action_space.shape)
    assert trained(TransformAction(env, lambda action: action, bounded)).num_timesteps == 16
