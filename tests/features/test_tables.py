"""The tables: every map is listed under its file's name, seeds repeat, states travel, typos get help."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

import polaug.features
from polaug.errors import InvalidInputError, StateError, UnknownNameError
from polaug.features import (
    ACTION_FEATURES,
    STATE_FEATURES,
    action_features,
    state_features,
)

FOLDER = Path(polaug.features.__file__).parent
BOX = spaces.Box(-np.inf, np.inf, (3,), np.float64)
NUMBERS = ("fourier", "grid", "random_fourier", "simhash")
VARIANTS = [*((name, {}) for name in NUMBERS), ("grid", {"scaled": False})]


def classes_with(folder: Path, package: str, *methods: str) -> dict[str, type]:
    """Concrete classes that have these methods, by the stem of the file that defines them."""
    found = {}
    for path in sorted(folder.glob("[!_]*.py")):
        module = importlib.import_module(f"{package}.{path.stem}")
        for cls in vars(module).values():
            if not inspect.isclass(cls) or cls.__module__ != module.__name__ or inspect.isabstract(cls):
                continue
            if not getattr(cls, "_is_protocol", False) and set(methods) <= {m for c in cls.__mro__ for m in vars(c)}:
                found[path.stem] = cls
    return found


def test_every_file_that_defines_a_state_map_is_listed_under_its_name():
    found = classes_with(FOLDER, "polaug.features", "__call__", "observe", "state_dict", "load_state_dict")
    found.pop("scaling")  # a part of maps: scales flat arrays, knows no space
    assert found == STATE_FEATURES


def test_every_file_that_defines_an_action_map_is_listed_under_its_name():
    found = classes_with(FOLDER / "actions", "polaug.features.actions", "to_environment", "to_indices")
    found.pop("base")  # their common body
    assert found == ACTION_FEATURES


def test_only_one_module_knows_gymnasium():
    knowing = [
        path.name for path in FOLDER.rglob("*.py") if re.search("^(import|from) gymnasium", path.read_text(), re.M)
    ]
    assert knowing == ["spaces.py"]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_same_seed_repeats_and_another_differs(name):
    x = np.random.default_rng(0).standard_normal((40, 3))
    results = []
    for seed in (1, 1, 2):
        features = state_features(name, BOX, seed=seed)
        features.observe(x)
        results.append(features(x))
    np.testing.assert_array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2]) == (name not in ("random_fourier", "simhash"))


@pytest.mark.parametrize("name", NUMBERS)
def test_calling_changes_neither_the_map_nor_the_observations(name):
    x = np.random.default_rng(0).standard_normal((40, 3))
    features = state_features(name, BOX)
    features.observe(x)
    copy, first = x.copy(), features(x)
    first_copy = first.copy()
    np.testing.assert_array_equal(features(x * 100), features(x * 100))
    np.testing.assert_array_equal(features(x), first_copy)
    np.testing.assert_array_equal(x, copy)
    np.testing.assert_array_equal(np.concatenate([features(row[None]) for row in x]).round(9), first.round(9))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_loaded_map_is_the_same_and_goes_on_in_the_same_way(name, options):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3)) * [1, 100, 0.01]
    features = state_features(name, BOX, seed=1, **options)
    features.observe(x[:40])
    twin = state_features(name, BOX, seed=2, **options)
    state = features.state_dict()
    twin.load_state_dict(state)
    for array in state.values():
        array *= 0  # the state is a copy on both sides
    np.testing.assert_array_equal(twin(x), features(x))
    for row in x * 3:
        assert twin.observe(row[None]) == features.observe(row[None])
    np.testing.assert_array_equal(twin(x), features(x))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_damaged_states_are_refused_and_change_nothing(name, options):
    x = np.random.default_rng(0).standard_normal((60, 3))
    features = state_features(name, BOX, **options)
    features.observe(x)
    before, good = features(x), features.state_dict()
    for key, array in good.items():
        broken = np.full(array.shape, np.nan) if array.dtype.kind == "f" else array.astype(np.float64)
        for damage in (broken, np.zeros((*array.shape, 2), array.dtype)):
            with pytest.raises(StateError, match=key.split(".")[-1]):
                features.load_state_dict(good | {key: damage})
        with pytest.raises(StateError, match="lacks key"):
            features.load_state_dict({k: v for k, v in good.items() if k != key})
    for nonsense in (good | {"extra": np.zeros(1)}, None, 3):
        with pytest.raises(StateError):
            features.load_state_dict(nonsense)
    np.testing.assert_array_equal(features(x), before)
    with pytest.raises(StateError):
        state_features(name, spaces.Box(-1, 1, (2,)), **options).load_state_dict(good)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (BOX, "random_fourier"),
        (spaces.Discrete(3), "one_hot"),
        (spaces.MultiDiscrete([2, 2]), "one_hot"),
        (spaces.MultiBinary(3), "one_hot"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), "one_hot"),
        (spaces.Tuple((spaces.Discrete(2), BOX)), "random_fourier"),
        (spaces.Tuple((BOX, BOX)), "random_fourier"),
    ],
)
def test_auto_chooses_by_the_space(space, expected):
    assert type(state_features("auto", space)) is STATE_FEATURES[expected]


def test_auto_chooses_actions_by_the_space():
    assert type(action_features("auto", spaces.Discrete(3))) is ACTION_FEATURES["one_hot"]
    assert type(action_features("auto", spaces.Box(-1, 1, (2,)))) is ACTION_FEATURES["polynomial"]


def test_typos_get_the_nearest_name():
    with pytest.raises(UnknownNameError, match="'random_fourier'"):
        state_features("random_furier", BOX)
    with pytest.raises(UnknownNameError, match="'ordinal'"):
        action_features("ordnal", spaces.Discrete(3))
    with pytest.raises(UnknownNameError, match=r"fourier.*Did you mean 'order'"):
        state_features("fourier", BOX, ordr=3)
    with pytest.raises(UnknownNameError, match="Did you mean 'spread'"):
        action_features("ordinal", spaces.Box(-1, 1, (1,)), spred=3)


def test_a_finished_map_is_taken_as_it_is_but_without_options():
    states, actions = state_features("fourier", BOX), action_features("auto", spaces.Discrete(3))
    assert state_features(states, BOX) is states
    assert action_features(actions, spaces.Discrete(3)) is actions
    with pytest.raises(InvalidInputError, match="only for maps built by name"):
        state_features(states, BOX, order=3)
    with pytest.raises(InvalidInputError, match="only for maps built by name"):
        action_features(actions, spaces.Discrete(3), spread=3)
    with pytest.raises(InvalidInputError, match="name or an ActionFeatures"):
        action_features(3, spaces.Discrete(3))


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_a_bad_seed_is_refused(seed):
    with pytest.raises(InvalidInputError, match="seed"):
        state_features("random_fourier", BOX, seed=seed)
