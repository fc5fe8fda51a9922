import importlib.util

import psutil
import pytest
import ray
from tests.waiting import PATIENCE

if not importlib.util.find_spec("ormsgpack"):  # of what ray[rllib] brings along
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this machine; nothing of it is left behind."""
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False,
             configure_logging=False)  # fmt: skip
    yield
    ray.shutdown()
    left = [each for each in psutil.Process().children(recursive=True) if each.pid not in before]
    assert not psutil.wait_procs(left, timeout=PATIENCE)[1]


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/rllib" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # Ray's own
