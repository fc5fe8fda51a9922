"""The code of docs/how-to/rllib.md runs as pasted, on a Ray that is running."""

import re
from pathlib import Path

import pytest
import ray

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "rllib.md"


@pytest.fixture(scope="module")
def cluster():
    """Enough CPUs for a trial of Tune: the algorithm and two runners."""
    ray.init(address="local", num_cpus=3, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False,
             configure_logging=False)  # fmt: skip
    yield
    ray.shutdown()


def test_the_page_runs_as_pasted(cluster, monkeypatch, tmp_path):
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))  # Tune's results
    names = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert len(blocks) == 3
    assert names["result"]["augmentation"]["guide_share"] > 0.0
    assert Path(names["path"]).is_dir()
    assert names["results"][0].metrics["num_env_steps_sampled_lifetime"] >= 1000
    assert names["results"][0].metrics["augmentation"]["guide_share"] > 0.0
