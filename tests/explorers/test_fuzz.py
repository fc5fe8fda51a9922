"""Randomly damaged states are refused when they are loaded, or do no harm: a fixed budget for each explorer.

No harm: it goes on acting and learning, every error is polaug's own, and Q̂ and bonuses are finite.
"""

import numpy as np
import pytest
from gymnasium import spaces

import polaug
from polaug.errors import PolaugError, StateError
from polaug.streams import stream
from polaug.testing import Rollout

EXPLORERS = polaug.explorers()
DAMAGES = 60  # for each explorer and space
SPACES = {
    "numbers": (spaces.Box(-1.0, 1.0, (2,)), spaces.Discrete(3)),
    "categories": (spaces.Discrete(16), spaces.Discrete(3)),
}


def flipped(array, rng):
    """Some bits of it are others."""
    raw = np.frombuffer(array.tobytes(), np.uint8).copy()
    for at in rng.integers(len(raw) * 8, size=rng.integers(1, 4)):
        raw[at // 8] ^= 1 << (at % 8)
    return np.frombuffer(raw.tobytes(), array.dtype).reshape(array.shape)


def replaced(array, rng):
    """One number is another."""
    other = array.copy()
    choices = {"f": [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 0.0, -1.0, 1e9],
               "i": [-1, -7, 0, 1, 10**6, 2**62, -(2**63), 2**63 - 1],
               "u": [0, 1, 2**64 - 1], "b": [True, False]}.get(array.dtype.kind)  # fmt: skip
    if choices is None:
        return np.array("x")
    with np.errstate(over="ignore"):  # 1e300 is inf in 32 bits
        other.reshape(-1)[rng.integers(array.size)] = choices[rng.integers(len(choices))]
    return other


def resized(array, rng):
    """A row more or less, or another shape."""
    changes = [lambda: array[None], lambda: array.ravel()[:-1], lambda: array[..., None]]
    if array.ndim:
        changes += [lambda: array[:-1], lambda: np.concatenate([array, array[-1:]])]
    return changes[rng.integers(len(changes))]()


def shuffled(array, rng):
    """The same numbers in another order."""
    return rng.permutation(array.ravel()).reshape(array.shape)


def retyped(array, rng):
    """The same numbers in another dtype."""
    if array.dtype.kind == "U":
        return np.array(3)
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype([np.float32, np.int64, np.float64, np.bool_, np.int8][rng.integers(5)])


KINDS = (flipped, replaced, resized, shuffled, retyped)


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("name", EXPLORERS)
def test_random_damage_is_refused_or_does_no_harm(name, kind):
    observations, actions = SPACES[kind]
    rng, learnt = stream(0, "fuzz", name, kind), polaug.make_explorer(name, observations, actions, seed=0)
    rollout = Rollout(observations, 2, 0)
    for _ in range(150):
        learnt.observe(rollout.step(learnt.act(rollout.observations)))
    state = learnt.state_dict()
    keys = [key for key in sorted(state) if state[key].size]
    refused = 0
    for _ in range(DAMAGES):
        key, damage = keys[rng.integers(len(keys))], KINDS[rng.integers(len(KINDS))]
        damaged = damage(state[key], rng)
        explorer = polaug.make_explorer(name, observations, actions, seed=1)
        try:
            explorer.load_state_dict(state | {key: damaged})
        except StateError:
            refused += 1
            continue
        try:
            use(explorer, Rollout(observations, 2, 1))
        except PolaugError:
            raise
        except Exception as fault:
            raise AssertionError(f"{key}, {damage.__name__}: {fault!r}") from fault
    assert refused > 0


def use(explorer, rollout):
    """A few steps across an episode's end, with all that is asked of an explorer."""
    for t in range(6):
        step = rollout.step(explorer.act(rollout.observations))
        bonus, values = explorer.bonus(step), explorer.q_values(rollout.observations)
        assert np.isfinite(bonus).all(), "a bonus is not finite"
        assert values is None or np.isfinite(values).all(), "Q is not finite"
        explorer.observe(step)
        if t == 3:
            explorer.reset()
    explorer.uncertainty(rollout.observations)
    assert all(np.isfinite(value) for value in explorer.statistics().values()), "a statistic is not finite"
    explorer.state_dict()
