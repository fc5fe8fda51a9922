"""A million adversarial steps: `python -m benchmarks.soak [--explorer portfolio] [--steps 1000000]` (several minutes).

Rewards are huge, constant, alternating and of every size in turn, transitions are random, episodes end at random. After
every thousand steps Q̂ must be finite and actions must belong to the space; memory and speed are noted. Writes
results/soak.json.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import polaug
from benchmarks.timing import save
from polaug.testing import SPACES, Rollout

REWARDS = (
    lambda t: 1e12 * (-1.0) ** t,
    lambda t: 1e100,
    lambda t: 0.0,
    lambda t: -3.0,
    lambda t: 10.0 ** (t % 40 - 20),
)
TURN = 20_000  # steps before the next kind of rewards


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--explorer", default="portfolio", choices=polaug.explorers())
    parser.add_argument("--steps", type=int, default=1_000_000)
    arguments = parser.parse_args()
    observation_space, action_space = SPACES["vector, discrete"]
    explorer = polaug.make_explorer(arguments.explorer, observation_space, action_space, seed=0)
    rollout = Rollout(observation_space, 1, 0)
    memory, speed = {}, {}
    start = time.perf_counter()
    for t in range(arguments.steps):
        actions = explorer.act(rollout.observations)
        step = rollout.step(actions)
        reward = REWARDS[t // TURN % len(REWARDS)](t)
        explorer.observe(
            polaug.Transitions(
                step.observations, actions, np.array([reward]), step.next_observations, step.terminated, step.truncated
            )
        )
        if (t + 1) % 1000 == 0:
            assert action_space.contains(int(actions[0]))
            values = explorer.q_values(rollout.observations)
            assert values is None or np.isfinite(values).all(), f"a non-finite value after {t + 1} steps"
        if (t + 1) % (arguments.steps // 10) == 0:
            memory[t + 1] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            speed[t + 1] = round(1e6 * (time.perf_counter() - start) / (arguments.steps // 10), 1)
            start = time.perf_counter()
            print(f"{t + 1} steps: finite; {memory[t + 1]} MiB; {speed[t + 1]} us/step", flush=True)
    save("soak", {"explorer": arguments.explorer, "memory_mib": memory, "us_per_step": speed})


if __name__ == "__main__":
    main()
