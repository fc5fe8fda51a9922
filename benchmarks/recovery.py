"""When is Q recovered exactly? `python -m benchmarks.recovery` (about two minutes on one core).

Noiseless Q = X W Yᵀ of rank 2 (M = 200, N = 60 and m = n = 10, so W has 100 numbers but 36 degrees of freedom),
completed from random entries. A trial succeeds if ‖Q̂ − Q‖ < 1e-4 ‖Q‖. The paper's bound is nm·log(nm) ≈ 461.
"""

from __future__ import annotations

import csv

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import polaug
from benchmarks.timing import FIGURES, RESULTS

M, N, m, n, RANK = 200, 60, 10, 10, 2
ENTRIES = (30, 36, 42, 48, 54, 60, 70, 80, 90, 95, 100, 105, 110, 120, 150, 200, 300, 461)
TRIALS = 40
CONTENDERS = {
    "als, rank 2": {"solver": "als", "rank": 2},
    "als, rank chosen": {"solver": "als"},
    "recursive": {"solver": "recursive", "ridge": 1e-8},
    "multiplicative, masked": {"solver": "multiplicative", "rank": 2, "reading": "masked", "max_iterations": 5000},
    "multiplicative, as printed": {"solver": "multiplicative", "rank": 2, "max_iterations": 5000},
}


def success(settings: dict[str, object], entries: int, trial: int) -> bool:
    rng = np.random.default_rng([entries, trial])
    X, Y = rng.standard_normal((M, m)), rng.standard_normal((N, n))
    Q = X @ rng.standard_normal((m, RANK)) @ rng.standard_normal((RANK, n)) @ Y.T
    at = rng.choice(M * N, entries, replace=False)
    rows, columns = at // N, at % N
    Q_hat = polaug.InductiveCompletion(**settings).fit(X, Y, rows, columns, Q[rows, columns]).predict(X, Y)
    return bool(np.linalg.norm(Q_hat - Q) < 1e-4 * np.linalg.norm(Q))


def draw(rows: list[dict[str, object]]) -> None:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for label, colour, style in zip(
        CONTENDERS, ("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#999999"), "os^Dv", strict=True
    ):
        mine = [row for row in rows if row["solver"] == label]
        axes.plot(
            [r["entries"] for r in mine], [r["success"] for r in mine], marker=style, ms=4, color=colour, label=label
        )
    for x, text in (
        (36, "degrees of freedom\nr(m + n − r)"),
        (m * n, "numbers in W\nnm"),
        (m * n * np.log(m * n), "paper's bound\nnm·log(nm)"),
    ):
        axes.axvline(x, color="0.6", lw=0.8, ls="--")
        side, shift = ("right", 0.98) if x > 300 else ("left", 1.02)
        axes.text(x * shift, 0.55, text, fontsize=8, color="0.35", ha=side)
    axes.set(xscale="log", xlabel="observed entries |Ω| of 12,000", ylabel=f"share of {TRIALS} trials recovered")
    axes.set_title("Exact recovery of a rank-2 Q from its features", loc="left")
    axes.set_xticks([30, 36, 50, 70, 100, 150, 200, 300, 461], minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.legend(fontsize=8, loc="center", bbox_to_anchor=(0.62, 0.25))
    figure.savefig(FIGURES / "recovery.png", dpi=130)


def main() -> None:
    rows: list[dict[str, object]] = []
    for label, settings in CONTENDERS.items():
        for entries in ENTRIES:
            share = np.mean([success(settings, entries, trial) for trial in range(TRIALS)])
            rows.append({"solver": label, "entries": entries, "success": float(share)})
        print(
            f"{label:28s}",
            " ".join(f"{r['entries']}:{r['success']:.2f}" for r in rows if r["solver"] == label),
            flush=True,
        )
    with (RESULTS / "recovery.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["solver", "entries", "success"])
        writer.writeheader()
        writer.writerows(rows)
    draw(rows)
    print("wrote benchmarks/results/recovery.csv and docs/figures/recovery.png")


if __name__ == "__main__":
    main()
