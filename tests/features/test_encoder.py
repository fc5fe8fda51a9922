"""Pictures as a few numbers: equal pictures give equal numbers, and what moves can be read from them."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from polaug import Transitions, make_explorer
from polaug.errors import InvalidInputError
from polaug.features.encoder import SIZE, Encoder
from polaug.features.spaces import Flattener

SIDE = 24


def dots(places):
    """Pictures (n, SIDE, SIDE) of a bright square whose corner is at `places` (n, 2)."""
    pictures = np.zeros((len(places), SIDE, SIDE), np.uint8)
    for picture, (row, column) in zip(pictures, places, strict=True):
        picture[row : row + 3, column : column + 3] = 255
    return pictures


@pytest.mark.parametrize(
    ("shape", "dtype", "size"),
    [
        ((84, 84, 3), np.uint8, SIZE),
        ((4, 84, 84), np.uint8, SIZE),
        ((2, 30, 40, 3), np.uint8, SIZE),
        ((7, 7, 3), np.uint8, SIZE),
        ((1, 40, 40), np.float32, SIZE),
        ((210, 160), np.uint8, SIZE),
        ((2, 2), np.uint8, SIZE),
        ((2835,), np.uint8, 64),
        ((600,), np.float32, 64),
        ((147,), np.uint8, 147),
        ((4, 4), np.float32, 16),
    ],
)
def test_pictures_of_any_layout_become_few_numbers_and_vectors_stay_vectors(shape, dtype, size):
    space = spaces.Box(0, 255 if dtype == np.uint8 else 1, shape, dtype)
    space.seed(0)
    flatten = Flattener(space)
    batch = np.stack([space.sample() for _ in range(3)])
    codes = flatten(batch)
    assert codes.shape == (3, size) == (3, flatten.size)
    assert np.isfinite(codes).all()
    # Alone or together, now or later: the same to the bit.
    again = Flattener(space)
    for picture, code in zip(batch[::-1], codes[::-1], strict=True):
        np.testing.assert_array_equal(again(picture[None])[0], code)
    assert not np.array_equal(codes[0], codes[1])


def test_where_a_thing_is_can_be_read_off_linearly():
    rng = np.random.default_rng(0)
    places = rng.integers(0, SIDE - 3, (600, 2))
    flatten = Flattener(spaces.Box(0, 255, (SIDE, SIDE), np.uint8))
    codes = np.column_stack([flatten(dots(places)), np.ones(len(places))])
    weights = np.linalg.lstsq(codes[:300], places[:300].astype(float), rcond=None)[0]
    errors = places[300:] - codes[300:] @ weights
    assert (1 - errors.var(axis=0) / places[300:].var(axis=0) > 0.9).all()


def test_a_single_cell_that_differs_is_seen():
    """Small pictures of categories, as MiniGrid shows them."""
    encoder = Encoder((7, 7, 3), np.zeros(147), np.full(147, 255.0))
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 6, 147).astype(float)
    changed = np.tile(picture, (147, 1)) + np.eye(147)
    distances = np.abs(encoder(changed) - encoder(picture[None])).max(axis=1)
    assert distances.min() > 1e-4


@pytest.mark.parametrize("name", ["committee", "counting", "rnd", "model"])
def test_explorers_take_pictures(name):
    space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    explorer = make_explorer(name, space, spaces.Discrete(4), seed=0)
    at = np.array([[5, 5]])
    for _ in range(40):
        action = explorer.act(dots(at))
        following = np.clip(at + [[0, 1], [0, -1], [1, 0], [-1, 0]][action[0]], 0, SIDE - 3)
        explorer.observe(Transitions(dots(at), action, [0.0], dots(following), [False], [False]))
        at = following
    before = explorer.state_dict()
    for wrong in (dots(at)[0], dots(at)[:, 1:], dots(at).astype(complex)):
        with pytest.raises(InvalidInputError, match="observations"):
            explorer.act(wrong)
    assert all(np.array_equal(before[key], value) for key, value in explorer.state_dict().items())


def test_pixels_that_are_not_finite_are_named():
    flatten = Flattener(spaces.Box(0, 1, (30, 30), np.float32))
    pictures = np.zeros((2, 30, 30))
    pictures[1, 0, 7] = np.nan
    with pytest.raises(InvalidInputError, match="environment 1, dimension 7: must be finite, got nan"):
        flatten(pictures)
