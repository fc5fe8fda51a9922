"""Dict observations and goals: agents with MultiInputPolicy are taught, and hindsight replay works beside the guide."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, HerReplayBuffer
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from polaug.config import Augmentation
from polaug.errors import InvalidInputError
from polaug.sb3 import augment
from polaug.sb3.extractor import StandardisingCombinedExtractor


class Reach(gym.Env):
    """Walk on a line to a goal: 0 there, −1 elsewhere, 20 steps at most. Observations are a goal Dict."""

    def __init__(self, continuous=False):
        line = spaces.Box(-5.0, 5.0, (1,), np.float32)
        self.observation_space = spaces.Dict({"observation": line, "achieved_goal": line, "desired_goal": line})
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = 0.0, 0
        self.goal = float(self.np_random.choice([-3.0, 3.0]))
        return self._see(), {}

    def _see(self):
        at, goal = np.array([self.at], np.float32), np.array([self.goal], np.float32)
        return {"observation": at, "achieved_goal": at.copy(), "desired_goal": goal}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.abs(achieved_goal - desired_goal)[..., 0] > 0.5).astype(np.float32)

    def step(self, action):
        move = float(np.asarray(action).reshape(-1)[0]) if isinstance(self.action_space, spaces.Box) else 2 * action - 1
        self.at, self.t = float(np.clip(self.at + move, -5, 5)), self.t + 1
        seen = self._see()
        reward = float(self.compute_reward(seen["achieved_goal"], seen["desired_goal"], {}))
        return seen, reward, reward == 0.0, self.t >= 20, {}


def towards(observation):
    """A guide for one observation: walk towards the goal."""
    return int(observation["desired_goal"][0] > observation["achieved_goal"][0])


def small():
    return {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize(("cls", "options"), [(PPO, {"n_steps": 64}), (DQN, {"learning_starts": 50})])
def test_agents_with_dict_observations_are_taught(cls, options, normalized):
    env = make_vec_env(Reach, 2)
    env = VecNormalize(env) if normalized else env
    settings = Augmentation(guide=towards, teach_every=50)
    model = augment(cls)("MultiInputPolicy", env, augmentation=settings, **options, **small()).learn(600)
    env.training = False
    assert evaluate_policy(model, env, n_eval_episodes=6)[0] > -4.0


class Sign(gym.Env):
    """A picture of 7 × 7 cells; the one in the middle says which of four actions is paid. MiniGrid's numbers."""

    action_space = spaces.Discrete(4)

    def __init__(self, nested=False):
        cells = spaces.Box(0, 255, (7, 7, 3), np.uint8)
        self.nested = nested
        self.observation_space = spaces.Dict({"image": cells, "direction": spaces.Discrete(4)}) if nested else cells

    def _see(self):
        self.sign = int(self.np_random.integers(4))
        image = np.full((7, 7, 3), 2, np.uint8)
        image[3, 3, 0] = self.sign
        return {"image": image, "direction": int(self.np_random.integers(4))} if self.nested else image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def step(self, action):
        self.t += 1
        paid = float(action == self.sign)
        return self._see(), paid, False, self.t >= 10, {}


def follow(observations):
    """A guide for a batch of pictures, channels first: do what the sign says."""
    image = observations["image"] if isinstance(observations, dict) else observations
    return image[:, 0, 3, 3].astype(np.int64)


@pytest.mark.parametrize(("nested", "policy"), [(False, "MlpPolicy"), (True, "MultiInputPolicy")])
def test_small_pictures_of_small_numbers_are_learnt(nested, policy):
    """SB3 divides them by 255, and its network for pictures needs larger ones."""
    settings = Augmentation(guide=follow, teach_every=50)
    model = augment(PPO)(policy, Sign(nested), n_steps=128, augmentation=settings, **small()).learn(1000)
    assert evaluate_policy(model, model.env, n_eval_episodes=20)[0] > 8.0  # chance is 2.5


def test_large_pictures_in_a_dict_go_through_a_convolutional_network():
    parts = spaces.Dict({"picture": spaces.Box(0, 255, (3, 36, 40), np.uint8), "at": spaces.Box(-1, 1, (2,))})
    extractor = StandardisingCombinedExtractor(parts)
    assert list(extractor.networks) == ["picture"]
    seen = {"picture": torch.rand(4, 3, 36, 40), "at": torch.rand(4, 2)}
    assert extractor(seen).shape == (4, 258)
    torch.testing.assert_close(extractor(seen)[:, :2], seen["at"])  # the identity until it is fitted


@pytest.mark.parametrize("cls", [PPO, DQN])
def test_a_run_with_dict_observations_goes_on_to_the_bit(cls, tmp_path):
    settings = Augmentation("random", teach_every=50)
    options = {"n_steps": 32, "batch_size": 32} if cls is PPO else {"learning_starts": 20}
    model = augment(cls)("MultiInputPolicy", Reach(), augmentation=settings, **options, **small()).learn(96)
    model.save(tmp_path / "agent")
    again = augment(cls).load(tmp_path / "agent", env=Reach())
    saved, loaded = model._polaug.state_dict(), again._polaug.state_dict()
    assert saved.keys() == loaded.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(array, loaded[name], err_msg=name)


def test_hindsight_replay_works_beside_a_guide():
    settings = Augmentation(guide=lambda o: np.sign(o["desired_goal"] - o["achieved_goal"]), teach_every=50)
    model = augment(SAC)(
        "MultiInputPolicy", Reach(True), replay_buffer_class=HerReplayBuffer, learning_starts=50,
        augmentation=settings, **small(),
    ).learn(500)  # fmt: skip
    coach = model._polaug.coach
    assert coach.guide_steps > 0
    assert coach.statistics()["teaching_updates"] > 0
    assert model.replay_buffer.size() == 500
    assert model._n_updates > 0


@pytest.mark.parametrize("environments", [1, 2])
def test_hindsight_tells_the_explorer_what_is_paid(environments):
    """The goals are out of reach: without hindsight every reward would be −1."""

    class Far(Reach):
        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.goal = float(self.np_random.choice([-50.0, 50.0]))
            return self._see(), {}

    model = augment(SAC)(
        "MultiInputPolicy", make_vec_env(lambda: Far(True), environments), replay_buffer_class=HerReplayBuffer,
        learning_starts=50, augmentation=Augmentation("model", teach_every=10**6), **small(),
    ).learn(200)  # fmt: skip
    experience = model.explorer.experience
    rewards, goals = experience.buffer.rewards, experience.buffer.states[:, 1]  # achieved, desired, observation
    assert experience.buffer.size == 400
    assert model.explorer.steps <= 200
    assert (rewards[:400] == 0.0).sum() >= 10
    assert (np.abs(goals[:400]) < 6.0).sum() == 200
    assert experience.record.ended == 10  # relabelled episodes were played by nobody


def test_a_reward_that_takes_no_batches_is_named():
    class Single(Reach):
        def compute_reward(self, achieved_goal, desired_goal, info):
            return -1.0

    model = augment(SAC)(
        "MultiInputPolicy", Single(True), replay_buffer_class=HerReplayBuffer, learning_starts=50, **small()
    )
    with pytest.raises(InvalidInputError, match=r"compute_reward: must return 20 rewards.*batch"):
        model.learn(40)


def test_hindsight_needs_goals():
    class Aimless(gym.ObservationWrapper):
        observation_space = spaces.Dict({"observation": spaces.Box(-5.0, 5.0, (1,), np.float32)})

        def observation(self, observation):
            return {"observation": observation["observation"]}

    her = {"replay_buffer_class": HerReplayBuffer}
    with pytest.raises(InvalidInputError, match=r"'desired_goal'.*got \['observation'\].*leave out replay"):
        augment(SAC)("MultiInputPolicy", Aimless(Reach(True)), **her, **small())
    augment(SAC)("MultiInputPolicy", Aimless(Reach(True)), augmentation=Augmentation("random"), **small()).learn(40)
