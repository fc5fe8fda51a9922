"""Saved explorers: what may differ between saving and loading, and what damage is refused when it is loaded."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from tests.explorers.playing import play

import polaug
from polaug.errors import StateError
from polaug.snapshot import CHECKSUMS, with_checksums
from polaug.state import part, prefixed
from polaug.testing import Rollout, states_equal

CAR = spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))
ACTIONS = spaces.Discrete(3)


def trained(name, space=CAR, steps=60, seed=0, **options):
    explorer = polaug.make_explorer(name, space, ACTIONS, seed=seed, **options)
    rollout = Rollout(space, 2, seed)
    for _ in range(steps):
        explorer.observe(rollout.step(explorer.act(rollout.observations)))
    return explorer


def test_how_numbers_are_printed_does_not_matter():
    state = trained("random").state_dict()
    with np.printoptions(precision=1):
        polaug.make_explorer("random", CAR, ACTIONS).load_state_dict(state)


OTHERWISE = {
    "a shape": lambda array: np.zeros((7, 5, 3, 2), array.dtype),
    "a text": lambda array: np.array(["x"] * 3),
    "nothing": lambda array: array.ravel()[:0],
    "one row less": lambda array: array[1:] if array.ndim else array[None],
    "one column less": lambda array: array[..., 1:] if array.ndim > 1 else array[None],
    "negative": lambda array: -7 - np.zeros_like(array) if array.dtype.kind == "i" else array[None],
    "huge": lambda array: (
        min(10**12, np.iinfo(array.dtype).max) + np.zeros_like(array) if array.dtype.kind == "i" else array[None]
    ),
    "zero": lambda array: np.zeros_like(array) if array.dtype.kind in "ib" else array[None],
}


@pytest.mark.parametrize("damage", OTHERWISE)
@pytest.mark.parametrize("name", polaug.explorers())
def test_damage_is_refused_when_loaded_or_does_no_harm(name, damage):
    """Compiled loops follow indices blindly: out of their arrays, or round and round."""
    space = spaces.Discrete(16) if name == "tabular" else CAR
    state, rollout = trained(name, space).state_dict(), Rollout(space, 2, 5)
    for key, array in state.items():
        explorer = polaug.make_explorer(name, space, ACTIONS, seed=2)
        try:
            explorer.load_state_dict(state | {key: OTHERWISE[damage](array)})
        except StateError:
            continue
        for _ in range(3):
            explorer.observe(rollout.step(explorer.act(rollout.observations)))
        explorer.q_values(rollout.observations)


def without_the_first_attribute_of_a_part(text):
    tree = json.loads(text)
    part = next(value for value in tree[3].values() if isinstance(value, list) and value[0] == "object")
    part[3].pop(next(iter(part[3])))
    return json.dumps(tree)


def without_the_last_attribute(text):
    tree = json.loads(text)
    tree[3].popitem()
    return json.dumps(tree)


@pytest.mark.parametrize("name", ["model", "tabular"])
@pytest.mark.parametrize(
    "forged",
    [
        lambda text: "[" * 100_000,
        lambda text: "{}",
        lambda text: "5",
        lambda text: json.dumps(["object", 0, "Returns", {}]),
        without_the_first_attribute_of_a_part,
        without_the_last_attribute,
    ],
)
def test_a_forged_structure_with_right_checksums_is_refused_and_changes_nothing(name, forged):
    explorer = trained(name)
    before = explorer.state_dict()
    own = part("state", before)
    own.pop(CHECKSUMS)
    own["structure"] = np.array(forged(str(own["structure"])))
    with pytest.raises(StateError, match="state: "):
        explorer.load_state_dict(before | prefixed("state", with_checksums(own)))
    assert states_equal(before, explorer.state_dict())


def flipped(array, rng):
    """The array with a few bits flipped: as a damaged disk leaves it."""
    damaged = np.array(array)
    raw = damaged.reshape(-1).view(np.uint8) if damaged.ndim else damaged[None].view(np.uint8)
    for _ in range(int(rng.integers(1, 4))):
        raw[rng.integers(len(raw))] ^= np.uint8(1 << int(rng.integers(8)))
    return damaged


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", polaug.explorers())
def test_random_damage_is_refused_or_does_no_harm(name):
    """A fixed budget of states with flipped bits: each is refused with StateError, or plays on with finite values."""
    space = spaces.Discrete(16) if name == "tabular" else CAR
    state, rng = trained(name, space, steps=150).state_dict(), np.random.default_rng(0)
    keys = [key for key, array in state.items() if array.dtype.kind in "fiub" and array.size]
    rollout, explorer = Rollout(space, 2, 5), polaug.make_explorer(name, space, ACTIONS, seed=2)
    for key in rng.choice(keys, 120):
        try:
            explorer.load_state_dict(state | {key: flipped(state[key], rng)})
        except StateError:
            continue
        with np.errstate(all="ignore"):
            for _ in range(3):
                explorer.observe(rollout.step(explorer.act(rollout.observations)))
            values = explorer.q_values(rollout.observations)
        assert values is None or np.isfinite(values).all(), key
        explorer = polaug.make_explorer(name, space, ACTIONS, seed=2)


@pytest.mark.parametrize("name", ["portfolio", "model"])
def test_the_saved_state_is_small(name, tmp_path):
    env = gym.make("MountainCar-v0")
    explorer = polaug.make_explorer(name, env.observation_space, env.action_space, seed=0)
    play(env, explorer, steps=2000)
    explorer.save(tmp_path / "explorer.npz")
    assert (tmp_path / "explorer.npz").stat().st_size < 500_000
    assert explorer.experience.buffer.capacity == 6000  # what is yet to come is no more than three times as much


@pytest.mark.parametrize("at", [0, 30, 300])
def test_it_goes_on_to_the_bit_whatever_is_under_way(at):
    env = gym.make("MountainCar-v0")
    explorer = polaug.make_explorer("portfolio", env.observation_space, env.action_space, seed=0)
    play(env, explorer, steps=600)
    while at and explorer._model._solution is None:
        play(env, explorer, steps=7)
    twin = polaug.make_explorer("portfolio", env.observation_space, env.action_space, seed=5)
    twin.load_state_dict(explorer.state_dict())
    taken = []
    for each in (explorer, twin):
        rollout = Rollout(CAR, 2, 9)
        for _ in range(at + 60):
            taken.append(each.act(rollout.observations))
            each.observe(rollout.step(taken[-1]))
    half = len(taken) // 2
    assert np.array_equal(taken[:half], taken[half:])
