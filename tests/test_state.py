"""Files of saved state: whatever happened to one, loading it gives what was saved or a StateError."""

import io
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from polaug import state
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
    whole, rng, lost = (tmp_path / "whole.npz").read_bytes(), random.Random(seed), 0
    path = tmp_path / "flipped.npz"
    for _ in range(300):
        content = bytearray(whole)
        for _ in range(3):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        found = opened(path)
        lost += found is None
        for name, array in (found or {}).items():
            np.testing.assert_array_equal(array, SAVED.get(name, array))
    assert lost > 150


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


# -- sizes ------------------------------------------------------------------------------------------------------------


def npy(array):
    content = io.BytesIO()
    np.lib.format.write_array(content, array)
    return content.getvalue()


def archive(path, *, declared=None, **parts):
    """A zip of these parts; `declared` is the size that the central directory names for the first."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as content:
        for name, part in parts.items():
            content.writestr(f"{name}.npy", part)
    if declared is not None:
        raw = bytearray(path.read_bytes())
        struct.pack_into("<I", raw, raw.index(b"PK\x01\x02") + 24, declared)
        path.write_bytes(raw)
    return path


def refused(path, words):
    """The state is refused, and not more than a few megabytes are needed for it."""
    tracemalloc.start()
    try:
        with pytest.raises(StateError, match=words):
            load_state(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_part_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    large = npy(np.zeros(4_000_000))
    assert len(large) > 30e6 > 1000 * archive(tmp_path / "a.npz", x=large).stat().st_size / 2
    assert load_state(tmp_path / "a.npz")["x"].shape == (4_000_000,)
    refused(archive(tmp_path / "b.npz", x=npy(np.zeros(3)), declared=3_000_000_000), "unpacks to 3,000,000,000 bytes")
    refused(archive(tmp_path / "c.npz", x=large, declared=1000), "no complete saved state")  # it says less than it has
    monkeypatch.setattr(state, "LARGEST_STATE", 10_000_000)
    refused(tmp_path / "a.npz", "more than the 10,000,000 that")
    with pytest.raises(StateError, match="state: has 16,000,000 bytes"):
        save_state(tmp_path / "d.npz", {"x": np.zeros(2_000_000)})
    assert not (tmp_path / "d.npz").exists()


@pytest.mark.parametrize("shape", [(10**12,), (-1,), (2,), (4,), (3, 10**9), (10**30, 0)])
def test_a_header_that_does_not_fit_its_numbers_is_refused(tmp_path, shape):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"shape": shape, "fortran_order": False, "descr": "<f8"})
    refused(archive(tmp_path / "a.npz", x=content.getvalue() + np.zeros(3).tobytes()), "no complete saved state")


@pytest.mark.parametrize("array", [
    np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 4)), np.array(2.5),
    np.array(["a", "lengthy"]), np.array([True, False]), np.array(""),
])  # fmt: skip
def test_arrays_come_back_with_their_order_and_can_be_written_to(tmp_path, array):
    save_state(tmp_path / "a.npz", {"x": array})
    found = load_state(tmp_path / "a.npz")["x"]
    np.testing.assert_array_equal(found, array)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.flags.f_contiguous == array.flags.f_contiguous
    assert found.flags.writeable


def test_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    refused(tmp_path / "a.npz", "it holds objects")
