"""What a finished study leaves in the repository: its summary, its learning curves, its figures and a table.

    polaug paper --seeds 10 --out runs/paper
    python -m benchmarks.studies runs/paper --name paper

writes benchmarks/results/NAME.json (the summary of `polaug export`) and NAME_curves.csv (mean and standard deviation of
the training return by episode, and of the agent's own evaluation by step, over seeds), for a study of the paper's tasks
also the paper's figures into docs/figures, and prints the table for the documentation. The runs themselves, without
the maps of Q̂, are kept in NAME_runs.tar.xz: with --restore they come back into an empty folder, and the study goes on
from there.
"""

from __future__ import annotations

import argparse
import csv
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.timing import FIGURES, RESULTS
from polaug.paper.figures import FIGURES as PAPER_FIGURES
from polaug.paper.figures import figures
from polaug.study.results import Run, find_runs
from polaug.study.summary import Headline, headline, summary_json
from polaug.study.wording import interval

EPISODES = 100
KEPT = ("config.json", "done.json", "episodes.csv", "evaluations.csv", "confirmations.csv",
        "bonuses.csv", "choices.csv", "clock.csv")  # fmt: skip


def curves(runs: Sequence[Run]) -> Iterator[tuple[str | int | float, ...]]:
    """Rows task, method, by, at, mean, std, seeds: as far as all seeds of a method go, episodes up to 100."""
    for task, method in sorted({(run.task, run.method) for run in runs}):
        mine = [run for run in runs if (run.task, run.method) == (task, method)]
        episodes = min(EPISODES, *(len(run.returns) for run in mine))
        returns = np.array([run.returns[:episodes] for run in mine])
        yield from _rows((task, method, "episode"), np.arange(1, episodes + 1), returns)
        tested = [run.evaluations for run in mine if run.evaluations is not None]
        points = min((len(each.steps) for each in tested), default=0)
        if points:
            levels = np.array([each.means[:points] for each in tested])
            yield from _rows((task, method, "step"), tested[0].steps[:points], levels)


def _rows(head: tuple[str, ...], at: Sequence[int], values: np.ndarray) -> Iterator[tuple[str | int | float, ...]]:
    for k, where in enumerate(at):
        yield (
            *head,
            int(where),
            round(float(values[:, k].mean()), 2),
            round(float(values[:, k].std()), 2),
            len(values),
        )


def pack(folder: Path, archive: Path) -> None:
    """All finished runs in one small file."""
    with tarfile.open(archive, "w:xz") as tar:
        for path in sorted(folder.rglob("*")):
            if path.name in KEPT and (path.parent == folder or (path.parent / "done.json").exists()):
                tar.add(path, path.relative_to(folder))


def keep(folder: Path, name: str) -> None:
    """The runs, their summary, their curves, and the paper's figures if they are of its tasks."""
    runs = find_runs(folder)
    RESULTS.mkdir(parents=True, exist_ok=True)
    pack(folder, RESULTS / f"{name}_runs.tar.xz")
    (RESULTS / f"{name}.json").write_text(json.dumps(summary_json(runs), indent=1) + "\n")
    with (RESULTS / f"{name}_curves.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("task", "method", "by", "at", "mean", "std", "seeds"))
        writer.writerows(curves(runs))
    if {run.task for run in runs} & set(PAPER_FIGURES):
        for path in figures(folder):
            if path.suffix == ".png":
                (FIGURES / f"{name}_{path.name}").write_bytes(path.read_bytes())


def restore(archive: Path, folder: Path) -> None:
    """What `pack` kept, into a folder that is empty or not there yet."""
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder}: must be empty, or finished runs would be overwritten. Pass another folder.")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def table(rows: Sequence[Headline]) -> str:
    """The headline numbers as Markdown."""
    columns = ("task", "method", "seeds", "mean return, first 100 episodes", "agent alone at the end",
               "steps to threshold", "reached", "kept")  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        steps = row.steps_to_threshold.value
        told = "" if np.isnan(steps) else f"{steps:,.0f}" if np.isfinite(steps) else f"> {row.budget:,}"
        final = interval(row.final, spread=row.spread)
        reached = "" if row.reached is None else f"{row.reached}/{row.seeds}"
        kept = f"{row.keepers}/{row.judged}" if row.judged else ""
        lines.append(
            f"| {row.task} | {row.method} | {row.seeds} | {row.first_100:.1f} | {final} | {told} | {reached} | {kept} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--restore", action="store_true", help="unpack NAME_runs.tar.xz into FOLDER, and nothing else")
    args = parser.parse_args()
    archive = RESULTS / f"{args.name}_runs.tar.xz"
    if args.restore:
        restore(archive, args.folder)
        return
    keep(args.folder, args.name)
    print(table(headline(find_runs(args.folder))))


if __name__ == "__main__":
    main()
