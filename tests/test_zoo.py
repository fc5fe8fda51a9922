"""RL Zoo trains a registered augmented agent from a YAML file; run by `make zoo`, in an environment of its own."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rl_zoo3", reason="`make zoo` runs this in an environment with rl_zoo3")

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("algo", "env", "said"), [
    ("dqn_pa", "MountainCar-v0", '"window": 8'), ("ppo_pa", "CartPole-v1", '"explorer": "model"'),
])  # fmt: skip
def test_a_yaml_file_trains_an_augmented_agent(algo, env, said, tmp_path):
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / "zoo.py"), "--algo", algo, "--env", env,
               "--conf-file", str(ROOT / "examples" / "zoo.yml"), "-n", "600", "--log-folder", str(tmp_path),
               "--eval-freq", "-1", "--seed", "1"]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    (saved,) = tmp_path.rglob(f"{env}.zip")
    with zipfile.ZipFile(saved) as archive:
        entry = io.BytesIO(archive.read("polaug.npz"))
    with np.load(entry, allow_pickle=False) as arrays:
        assert said in str(arrays["augmentation"])
        assert int(arrays["coach.counters"][0]) >= 600
