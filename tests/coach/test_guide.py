"""Anything that acts can guide: functions, policies, demonstrations, several at once; what does not fit is named."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from polaug import augment, make_explorer
from polaug.coach.guide import BestOf, DemonstrationGuide, FunctionGuide, make_guide
from polaug.config import Augmentation
from polaug.errors import ExplorerError, InvalidInputError, StateError, UnknownNameError
from polaug.explorers import Explorer, Transitions

SPACES = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)


def guide_of(given, where=SPACES, **settings):
    return make_guide(Augmentation(guide=given, **settings), *where, seed=0)


def states(n=7, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2)).astype(np.float32)


def single(observation):
    """A controller of one observation."""
    assert np.shape(observation) == (2,)
    return 1 if observation[0] > 0 else 0


def batched(observations):
    """The same of a batch."""
    return (observations[:, 0] > 0).astype(int)


@pytest.mark.parametrize("function", [single, batched, lambda obs: np.where(obs.T[0] > 0, 1, 0)])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_function_may_take_one_observation_or_a_batch(function, n):
    guide = guide_of(function)
    actions = guide.act(states(n))
    np.testing.assert_array_equal(actions, states(n)[:, 0] > 0)
    assert actions.dtype == np.int64
    np.testing.assert_array_equal(guide.greedy(states(n)), actions)


@pytest.mark.parametrize("n", [1, 3])
def test_functions_of_continuous_actions(n):
    box = SPACES[0], spaces.Box(-2.0, 2.0, (3,), np.float32)
    for function in (lambda obs: np.full((*obs.shape[:-1], 3), obs[..., :1]), lambda obs: [float(obs[0])] * 3):
        np.testing.assert_allclose(guide_of(function, box).act(states(n)), np.tile(states(n)[:, :1], 3), rtol=1e-6)


@pytest.mark.parametrize(("function", "told"), [
    (lambda obs: 5, r"guide '<lambda>': must return actions of Discrete\(2\), got 5"),
    (lambda obs: [0, 1, 1], r"guide '<lambda>': must return actions of shape \(3,\)"),
    (lambda obs: "left", "guide '<lambda>': must return"),
    (lambda obs: None, "guide '<lambda>': must return"),
    (lambda obs: 0.5, "guide '<lambda>': must return"),
])  # fmt: skip
def test_an_illegal_action_names_the_guide(function, told):
    with pytest.raises(InvalidInputError, match=told):
        guide_of(function).act(states(3))


def test_a_function_that_raises_is_named_and_its_fault_is_shown():
    def planner(observation):
        return 1 // 0

    with pytest.raises(ExplorerError, match=r"guide 'planner': failed with ZeroDivisionError.*You can still save"):
        guide_of(planner).act(states(3))


def test_actions_out_of_bounds_are_refused_rather_than_clipped():
    box = SPACES[0], spaces.Box(-1.0, 1.0, (1,), np.float32)
    with pytest.raises(InvalidInputError, match="Clip or round the actions"):
        guide_of(lambda obs: np.array([3.0]), box).act(states(1))


def test_what_cannot_act_is_refused():
    with pytest.raises(InvalidInputError, match="guide: must be an explorer or its name, a function, a policy or"):
        guide_of(3)
    with pytest.raises(UnknownNameError, match="Did you mean 'random'"):
        guide_of("randon")
    with pytest.raises(InvalidInputError, match="at least one guide"):
        guide_of([])
    other = make_explorer("random", SPACES[0], spaces.Discrete(3))
    with pytest.raises(InvalidInputError, match="its action space must be the environment's"):
        guide_of(other)


def test_an_explorer_its_class_or_its_name_guides():
    live = make_explorer("random", *SPACES)
    assert guide_of(live) is live
    assert type(guide_of("random")) is type(live)
    assert type(guide_of(type(live))) is type(live)


EPISODES = [{"observations": np.append(states(5), states(1), axis=0), "actions": batched(states(5))},
            {"obs": states(9, 1), "actions": batched(states(9, 1))}]  # fmt: skip


class Recorded:
    """As an episode of Minari or a trajectory of `imitation`: one observation more than actions."""

    def __init__(self, seed):
        self.observations, self.actions = states(9, seed), batched(states(9, seed))[:-1]


class DataSet:
    """As Minari's: episodes are read one by one."""

    def iterate_episodes(self):
        return (Recorded(seed) for seed in range(3))


@pytest.mark.parametrize("given", [
    (states(60), batched(states(60))), (states(60).tolist(), batched(states(60)).tolist()),
    {"observations": states(60), "actions": batched(states(60))}, EPISODES, [Recorded(0), Recorded(1)], DataSet(),
], ids=["pair", "lists", "dict", "episodes", "objects", "data set"])  # fmt: skip
def test_demonstrations_in_all_their_forms(given):
    guide = guide_of(given)
    assert isinstance(guide, DemonstrationGuide)
    clear = np.array([[0.9, 0.1], [-0.9, 0.1]], np.float32)
    np.testing.assert_array_equal(guide.act(clear), [1, 0])


def test_demonstrations_are_near_in_units_of_their_spread():
    seen = np.array([[0.0, 1e4], [1.0, 2e4], [0.0, 2e4], [1.0, 1e4]])
    wide = spaces.Box(-np.inf, np.inf, (2,)), SPACES[1]
    guide = guide_of((seen, np.array([0, 1, 0, 1])), wide)
    np.testing.assert_array_equal(guide.act(np.array([[0.1, 1.6e4], [0.9, 1.4e4]])), [0, 1])


@pytest.mark.parametrize(("given", "told"), [
    ((np.zeros((5, 3)), np.zeros(5, int)), r"guide: demonstrations must belong to this environment"),
    ((np.zeros((5, 2)), np.full(5, 9)), r"guide: demonstrations must belong to this environment"),
    ((np.zeros((5, 2)), np.zeros(3, int)), r"guide: demonstrations must have one action for each observation"),
    ((np.zeros((0, 2)), np.zeros(0, int)), r"guide: demonstrations must"),
])  # fmt: skip
def test_demonstrations_of_another_task_are_refused(given, told):
    with pytest.raises(InvalidInputError, match=told):
        guide_of(given)


def test_of_several_guides_the_better_one_drives_and_teaches():
    guide = guide_of([lambda obs: int(obs[0] < 0), single])
    assert isinstance(guide, BestOf)
    rng, n, driven = np.random.default_rng(0), 3, []
    seen = states(n)
    for t in range(600):
        guide.drive_only(np.array([True, True, False]))
        actions = np.where([True, True, False], guide.act(seen), rng.integers(2, size=n))
        over = np.full(n, t % 4 == 3)
        rewards = np.where(actions == (seen[:, 0] > 0), 1.0, 0.0)
        driven.append(rewards[:2].mean())
        following = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
        guide.observe(Transitions(seen, actions, rewards, following, over, np.zeros(n, bool)))
        seen = following
    assert np.mean(driven[-200:]) > 0.95
    np.testing.assert_array_equal(guide.greedy(seen), seen[:, 0] > 0)
    assert guide.statistics()["guide_1_return"] > guide.statistics()["guide_0_return"]
    assert guide.steps == 1800


def test_several_guides_go_on_from_their_state():
    first, second = (guide_of(["random", single]) for _ in range(2))
    assert isinstance(first.guides[1], FunctionGuide)
    seen, end = states(2), np.ones(2, bool)
    for _ in range(30):
        actions = first.act(seen)
        first.observe(Transitions(seen, actions, actions.astype(float), seen, end, ~end))
    second.load_state_dict(first.state_dict())
    for _ in range(30):
        actions = first.act(seen)
        np.testing.assert_array_equal(actions, second.act(seen))
        for each in (first, second):
            each.observe(Transitions(seen, actions, actions.astype(float), seen, end, ~end))


# -- through augment ---------------------------------------------------------------------------------------------------


class Corridor(gym.Env):
    """Walk right ten cells; 25 steps at most."""

    observation_space, action_space = spaces.Box(-1.0, 11.0, (2,), np.float32), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = 0.0, 0
        return self._see(), {}

    def _see(self):
        return np.array([self.at, self.t / 25], np.float32)

    def step(self, action):
        self.at, self.t = float(np.clip(self.at + 2 * int(action) - 1, 0, 10)), self.t + 1
        return self._see(), float(self.at >= 10) - 0.01, self.at >= 10, self.t >= 25 and self.at < 10, {}


def expert():
    """A policy that always walks right."""
    import torch

    model = PPO("MlpPolicy", Corridor(), device="cpu", policy_kwargs={"net_arch": [8]})
    with torch.no_grad():
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias.copy_(torch.tensor([-5.0, 5.0]))
    return model


def demonstrated():
    return np.stack([np.arange(10.0), np.arange(10) / 25], 1).astype(np.float32), np.ones(10, int)


GUIDES = {"function": lambda: lambda obs: 1, "policy": expert, "demonstrations": demonstrated,
          "several": lambda: ["random", lambda obs: 1]}  # fmt: skip


@pytest.mark.parametrize("cls", [PPO, DQN])
@pytest.mark.parametrize("kind", GUIDES)
def test_every_kind_of_guide_teaches_an_agent_and_is_passed_again_to_go_on(kind, cls, tmp_path):
    options = {"n_steps": 64} if cls is PPO else {"learning_starts": 50}
    settings = Augmentation(guide=GUIDES[kind](), teach_every=50)
    env = make_vec_env(Corridor, 2)
    model = augment(cls)("MlpPolicy", env, augmentation=settings, seed=0, device="cpu",
                         policy_kwargs={"net_arch": [16]}, **options).learn(800)  # fmt: skip
    assert evaluate_policy(model, make_vec_env(Corridor, 1), n_eval_episodes=2)[0] > 0.8
    model.save(tmp_path / "agent")
    with pytest.raises(StateError, match=r"its own guide.*Load it with the same augmentation="):
        augment(cls).load(tmp_path / "agent")
    again = augment(cls).load(tmp_path / "agent", env=env, augmentation=settings)
    first, second = model._polaug.state_dict(), again._polaug.state_dict()
    assert sorted(first) == sorted(second)
    for key, array in first.items():
        np.testing.assert_array_equal(array, second[key], err_msg=key)
    again.learn(100, reset_num_timesteps=False)


@pytest.mark.parametrize("fault", ["raises", "illegal"])
def test_an_agent_with_a_faulty_guide_can_be_saved_as_it_is(fault, tmp_path):
    calls = []

    def controller(observation):
        calls.append(1)
        if len(calls) < 60:
            return 1
        return 1 // 0 if fault == "raises" else 7

    model = augment(PPO)("MlpPolicy", Corridor(), n_steps=64, augmentation=Augmentation(guide=controller), seed=0,
                         device="cpu")  # fmt: skip
    with pytest.raises((ExplorerError, InvalidInputError), match="guide 'controller'"):
        model.learn(1000)
    assert model.num_timesteps > 30
    model.save(tmp_path / "agent")
    PPO.load(tmp_path / "agent", env=Corridor()).learn(64)


def test_an_agent_becomes_better_than_a_mediocre_guide():
    """The guide turns back now and then; the agent may learn from it and from its own steps."""
    rng = np.random.default_rng(0)

    def wavering(observation):
        return int(rng.random() < 0.8)

    model = augment(PPO)("MlpPolicy", Corridor(), augmentation=Augmentation(guide=wavering), seed=0, device="cpu",
                         n_steps=128, policy_kwargs={"net_arch": [16]}).learn(2500)  # fmt: skip
    assert evaluate_policy(model, make_vec_env(Corridor, 1), n_eval_episodes=2)[0] == pytest.approx(0.9, abs=0.01)


def test_an_explorer_class_gets_the_options():
    class Own(Explorer):
        def __init__(self, *args, colour, **kwargs):
            super().__init__(*args, **kwargs)
            self.colour = colour

        def _choose(self, flat, states):
            return np.zeros(len(flat), int)

        def _learn(self, batch):
            pass

    assert guide_of(Own, explorer_options={"colour": "red"}).colour == "red"


@pytest.mark.parametrize("guide", ["expert.zip", PPO])
def test_a_file_or_a_class_is_refused_as_a_guide_with_the_way_to_load_it(guide):
    with pytest.raises(InvalidInputError, match=r"guide: must be .*PPO\.load"):
        guide_of(guide)
