import numpy as np
import pytest

from polaug.coach.teaching.memory import Memory
from polaug.errors import StateError


def test_it_keeps_the_last_rows():
    memory = Memory(5)
    assert memory.sample(3, np.random.default_rng(0)) is None
    for k in range(12):
        memory.add(np.array([[k, -k]]))
    assert sorted(memory.rows[:, 0].tolist()) == [7, 8, 9, 10, 11]
    assert memory.sample(100, np.random.default_rng(0)).shape == (100, 2)


def test_it_grows_past_its_first_size():
    memory = Memory(3000)
    for start in range(0, 4000, 4):
        memory.add(np.arange(start, start + 4)[:, None])
    assert sorted(memory.rows[:, 0].tolist()) == list(range(1000, 4000))


@pytest.mark.parametrize("count", [0, 3, 8])
def test_a_loaded_one_goes_on_alike(count):
    first, second = Memory(5), Memory(5)
    for k in range(count):
        first.add(np.array([k]))
    second.load_state_dict(first.state_dict())
    for memory in (first, second):
        for k in range(100, 104):
            memory.add(np.array([k]))
    np.testing.assert_array_equal(first.rows, second.rows)


def test_a_damaged_state_is_refused():
    with pytest.raises(StateError, match="damaged"):
        Memory(3).load_state_dict({"memory": np.zeros(9), "memory_next": np.array(2)})
