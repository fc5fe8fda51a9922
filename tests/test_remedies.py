"""What messages recommend exists and works: names, extras, pages, commands, and remedies in code."""

import ast
import importlib
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv
from tests.commands import flags, parsed

from polaug.baselines.atta2c import AttA2C
from polaug.errors import PolaugError, StateError, UnsupportedSpaceError
from polaug.sb3 import augment
from polaug.study.methods import check_fit, method
from polaug.study.tasks import Task

ROOT = Path(__file__).parent.parent


def messages():
    """The text of each string in the library, with … for what is filled in."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


TEXT = "\n".join(messages())


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\b(?:gymnasium|polaug)(?:\.[A-Za-z_]\w+)+", TEXT))))
def test_names_in_messages_exist(name):
    words = name.split(".")
    found = importlib.import_module(words[0])
    for k, word in enumerate(words[1:], 2):
        if not hasattr(found, word):
            if (ROOT / name).exists() or word in ("npz", "Transform"):  # a file's name; a name that is filled in
                return
            importlib.import_module(".".join(words[:k]))
        found = getattr(found, word)


def test_extras_in_messages_are_declared():
    declared = (ROOT / "pyproject.toml").read_text()
    extras = set(re.findall(r"polaug\[(\w+)\]", TEXT))
    assert extras
    for extra in extras:
        assert re.search(rf"^{extra} = \[", declared, flags=re.MULTILINE), extra


def test_pages_in_messages_exist():
    pages = set(re.findall(r"\bdocs/[\w/-]+\.md", TEXT))
    assert pages
    for page in pages:
        assert (ROOT / page).exists(), page


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`polaug ([a-z]+(?: [\w./-]+)*)`", TEXT))))
def test_commands_in_messages_parse(command):
    name, *options = command.split()
    assert name in flags()
    if options:
        parsed([name, *options])


class Odd(gym.Env):
    """Observations of any space; five steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, **options):
        self.observation_space, self.t = space, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.t += 1
        return self.observation_space.sample(), 1.0, self.t >= 5, False, {}


NUMBERS = spaces.Box(-1, 1, (2,))
ODD = {
    "Tuple": spaces.Tuple((NUMBERS, spaces.Discrete(3))),
    "Text": spaces.Text(4),
    "OneOf": spaces.OneOf((spaces.Discrete(2), NUMBERS)),
    "Graph": spaces.Graph(NUMBERS, None),
    "Sequence": spaces.Sequence(NUMBERS),
}


@pytest.mark.parametrize("kind", ODD)
def test_agents_learn_from_what_a_method_could_not_see_once_the_remedy_is_followed(kind, monkeypatch):
    monkeypatch.setitem(gym.registry, "Odd-v0", gym.envs.registration.EnvSpec("Odd-v0", Odd, disable_env_checker=True))
    with pytest.raises(PolaugError, match=r"method: ppo.* cannot see") as caught:
        check_fit(method("ppo"), Task("Odd", "Odd-v0", (("space", ODD[kind]),)))
    env = Odd(ODD[kind])
    if "FlattenObservation" in str(caught.value):
        env = gym.wrappers.FlattenObservation(env)
    else:
        assert "shows a few numbers" in str(caught.value)
        env = gym.wrappers.TransformObservation(env, lambda seen: np.zeros(2, np.float32), NUMBERS)
    PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu").learn(8)


def test_attention_agents_take_a_dict_that_is_flattened():
    space = spaces.Dict(a=NUMBERS, b=spaces.Discrete(2))
    with pytest.raises(UnsupportedSpaceError, match=r"Wrap the environment in gymnasium.wrappers.FlattenObservation"):
        AttA2C("MlpPolicy", DummyVecEnv([lambda: Odd(space)]))
    AttA2C("MlpPolicy", DummyVecEnv([lambda: gym.wrappers.FlattenObservation(Odd(space))])).learn(20)


def test_a_file_of_another_version_is_loaded_without_its_augmentation(tmp_path, monkeypatch):
    monkeypatch.setattr("polaug.sb3.bridge._VERSION", 3)
    augment(PPO)("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu").learn(64).save(tmp_path / "old")
    monkeypatch.undo()
    with pytest.raises(StateError, match=r"format 3, not .* or pass augmentation=None for the plain agent"):
        augment(PPO).load(tmp_path / "old", env=gym.make("CartPole-v1"))
    augment(PPO).load(tmp_path / "old", env=gym.make("CartPole-v1"), augmentation=None).learn(64)
