import importlib.util

import psutil
import pytest
import ray
from tests.waiting import PATIENCE

if not importlib.util.find_spec("ormsgpack"):  # of what ray[rllib] brings along
    collect_ignore_glob = ["test_*.py"]


def _of_ray(process):
    """Whether Ray started `process`: the browser of other tests may come and go in the meantime."""
    try:
        return any(part.startswith("ray::") or "/ray/" in part for part in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this machine; none of its processes is left behind. A trial of Tune needs three CPUs."""
    ray.init(address="local", num_cpus=3, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False,
             configure_logging=False)  # fmt: skip
    yield
    running = [each for each in psutil.Process().children(recursive=True) if _of_ray(each)]
    assert running
    ray.shutdown()
    assert not psutil.wait_procs(running, timeout=PATIENCE)[1]
    assert not [each for each in psutil.Process().children(recursive=True) if _of_ray(each)]


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/rllib" in str(item.path):
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # Ray's own
