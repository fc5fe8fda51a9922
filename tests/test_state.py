"""Files of saved state: whatever happened to one, loading it gives what was saved or a StateError."""

import random

import numpy as np
import pytest

from polaug.errors import StateError
from polaug.state import load_state, save_state

SAVED = {"numbers": np.arange(300.0) ** 1.5, "name": np.array("a"), "flags": np.zeros((3, 40), dtype=bool)}


def opened(path):
    """What is in a file, or None where it is refused."""
    try:
        return load_state(path)
    except StateError:
        return None


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bits_give_what_was_saved_or_a_state_error(tmp_path, seed):
    save_state(tmp_path / "whole.npz", SAVED)
    whole, rng, refused = (tmp_path / "whole.npz").read_bytes(), random.Random(seed), 0
    path = tmp_path / "flipped.npz"
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(3):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        state = opened(path)
        refused += state is None
        for name, array in (state or {}).items():
            np.testing.assert_array_equal(array, SAVED.get(name, array))
    assert refused > 150


def test_a_file_cut_anywhere_is_refused(tmp_path):
    save_state(tmp_path / "whole.npz", SAVED)
    whole = (tmp_path / "whole.npz").read_bytes()
    for length in range(0, len(whole) - 1, 7):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        assert opened(tmp_path / "cut.npz") is None


def test_only_what_is_in_the_state_is_written_by_older_numpys_too(tmp_path, monkeypatch):
    """They store every keyword as an array."""
    monkeypatch.setattr(np, "savez_compressed", lambda file, **arrays: np.savez(file, **{"": sorted(arrays)}))
    save_state(tmp_path / "whole.npz", SAVED)
    assert list(load_state(tmp_path / "whole.npz")[""]) == sorted(SAVED)


def test_objects_are_refused_before_anything_is_written(tmp_path):
    save_state(tmp_path / "whole.npz", SAVED)
    with pytest.raises(StateError, match="odd"):
        save_state(tmp_path / "whole.npz", SAVED | {"odd": np.array([{}], dtype=object)})
    assert [path.name for path in tmp_path.iterdir()] == ["whole.npz"]
    assert load_state(tmp_path / "whole.npz").keys() == SAVED.keys()
