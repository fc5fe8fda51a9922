"""Random streams: one seed gives each component its own stream.

Gymnasium seeds an environment with `default_rng(seed)`. A component that did the same would see the environment's
random numbers before the environment uses them. Every generator of polaug therefore comes from here.
"""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator that is independent of `default_rng(seed)` and of the streams for other purposes.

    Parameters
    ----------
    seed : int
        The seed of the run, at least 0.
    *purpose : str or int
        What the numbers are for, from coarse to fine, for example `"explorer", "policy_search"`.
    """
    return np.random.default_rng(_sequence(seed, purpose))


def subseed(seed: int, *purpose: str | int) -> int:
    """A seed below 2³² for a component that takes no generator, such as an environment."""
    return int(_sequence(seed, purpose).generate_state(1)[0])


def subseeds(seed: int, count: int, *purpose: str | int) -> list[int]:
    """`count` such seeds."""
    return [int(word) for word in _sequence(seed, purpose).generate_state(count)]


def _sequence(seed: int, purpose: tuple[str | int, ...]) -> np.random.SeedSequence:
    names = ("polaug", *(str(part) for part in purpose))
    return np.random.SeedSequence(seed, spawn_key=tuple(zlib.crc32(name.encode()) for name in names))
