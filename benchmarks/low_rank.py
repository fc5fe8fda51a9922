"""What low rank buys with many actions: `python -m benchmarks.low_rank [--actions 3 9 27 81 243] [--seeds 3]`.

Q is Pendulum's reward of a step plus the discounted value of where it leads, over a torque in N bins that the features
do not order (Y is the identity), so that nothing but rank joins actions. Random pairs are observed, twice as many each
time, until the greedy action loses less than a tenth of what an action at random loses. Reported for `als` and for full
ridge (`recursive`): observed steps, seconds of that fit, and megabytes of the fitted model. Every row is written as it
comes.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from benchmarks.timing import save
from polaug.completion import InductiveCompletion
from polaug.features.fourier import Fourier
from polaug.streams import stream

Array = NDArray[np.float64]

ACTIONS = (3, 9, 27, 81, 243)
SOLVERS: dict[str, dict[str, Any]] = {"als": {"ridge": 1e-4}, "recursive": {"ridge": 1e-2}}
ENOUGH = 0.1  # of the loss of a random action
MOST = 25_600  # observed steps
TESTED = 500  # states on which the greedy action is judged
_HIGH = np.array([np.pi, 8.0])


def q_values(states: Array, actions: int) -> Array:
    """Q (n, N) of states (angle, speed) for evenly spaced torques: Gymnasium's Pendulum, one step ahead."""
    torque = np.linspace(-2.0, 2.0, actions)[None]
    angle, speed = states[:, :1], states[:, 1:]
    cost = angle**2 + 0.1 * speed**2 + 0.001 * torque**2
    faster = np.clip(speed + (15.0 * np.sin(angle) + 3.0 * torque) * 0.05, -8.0, 8.0)
    later = angle + faster * 0.05
    return np.asarray(-cost - 0.99 * 10.0 * (later**2 + 0.1 * faster**2 + 0.3 * later * faster))


def measure(actions: int, solver: str, seed: int) -> dict[str, Any]:
    """Double the observed steps until the greedy action is good enough."""
    rng = stream(seed, "low_rank", actions)
    states = rng.uniform(-_HIGH, _HIGH, (MOST, 2))
    columns = rng.integers(actions, size=MOST)
    tested = rng.uniform(-_HIGH, _HIGH, (TESTED, 2))
    basis = Fourier(spaces.Box(-_HIGH, _HIGH, dtype=np.float64), order=3)
    X, Y, wanted = basis(states), np.eye(actions), q_values(tested, actions)
    values = q_values(states, actions)[np.arange(MOST), columns]
    loss_at_random = (wanted.max(axis=1, keepdims=True) - wanted).mean()
    n = 50
    while True:
        start = time.perf_counter()
        model = InductiveCompletion(solver, **SOLVERS[solver]).fit(X[:n], Y, np.arange(n), columns[:n], values[:n])
        seconds = time.perf_counter() - start
        best = model.greedy(basis(tested), Y)
        loss = float((wanted.max(axis=1) - wanted[np.arange(TESTED), best]).mean() / loss_at_random)
        if loss <= ENOUGH or 2 * n > MOST:
            break
        n *= 2
    size = sum(array.nbytes for array in model.state_dict().values())
    return {
        "actions": actions, "solver": solver, "seed": seed, "rank": model.rank, "steps": n if loss <= ENOUGH else None,
        "loss": round(loss, 4), "fit_seconds": round(seconds, 3), "megabytes": round(size / 1e6, 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.low_rank", description=__doc__)
    parser.add_argument("--actions", type=int, nargs="+", default=list(ACTIONS))
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for actions in args.actions:
        for solver in SOLVERS:
            for seed in range(args.seeds):
                rows.append(measure(actions, solver, seed))
                print(rows[-1], flush=True)
        save("low_rank", {"rows": rows})


if __name__ == "__main__":
    main()
