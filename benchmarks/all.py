"""Every table of the results page, at one commit: `python -m benchmarks.all [--seeds 5] [--only classic costs]`.

Each part runs a few `polaug` commands or other benchmarks; all of them take hours. Finished parts are not run again, so
the same command continues after Ctrl-C. After each part the command rewrites docs/results.md, which names the commit.
Runs of another commit are refused. No setting was chosen on the seeds from 9000 on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.studies import keep
from benchmarks.timing import RESULTS, machine
from benchmarks.variants import PERMUTED
from polaug.study.results import find_runs
from polaug.study.summary import Headline, headline, plain, reference
from polaug.study.wording import interval, keeping, number, ratio

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "results.md"
CODE = ("src", "benchmarks/*.py")
"""What the measurements depend on: results and pages may be committed between two parts."""
BEGIN, END = "<!-- measured by benchmarks.all -->\n", "<!-- end of what is measured -->\n"
FRESH = 9_000
"""The first seed."""


@dataclass(frozen=True)
class Comparison:
    """One `polaug compare`: methods on tasks."""

    tasks: tuple[str, ...]
    methods: tuple[str, ...]
    steps: int
    title: str


STUDIES: dict[str, Comparison] = {
    "classic": Comparison(
        ("MountainCar-v0", "Acrobot-v1", "CartPole-v1"),
        ("ppo+pa", "dqn+pa", "ppo", "dqn", "ppo-tuned", "a2c-tuned", "dqn-tuned", "qrdqn-tuned", "dqn-strong",
         "sarsa-tiles", "ppo-tuned+rnd", "ppo-tuned+icm"),
        15_000, "Discrete actions",
    ),
    "continuous": Comparison(
        ("MountainCarContinuous-v0", "Pendulum-v1"),
        ("ppo+pa", "sac+pa", "ppo", "sac", "ppo-tuned", "sac-tuned", "tqc-tuned", "crossq"), 10_000,
        "Continuous actions",
    ),
    "lunar": Comparison(
        ("LunarLander-v3",), ("ppo+pa", "dqn+pa", "ppo", "dqn", "dqn-tuned", "qrdqn-tuned", "dqn-strong"), 50_000,
        "LunarLander",
    ),
    "sparse": Comparison(
        (*PERMUTED, *PERMUTED.values()),
        ("ppo+pa", "dqn+pa", "ppo", "dqn", "dqn-strong", "ppo+counting", "ppo+rnd"), 5_000, "Sparse rewards",
    ),
}  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    "costs": ("completion", "rank_one", "recovery", "explorer_cost", "agent_cost", "study_cost"),
    "explorers": ("explorers",),
    "soak": ("soak",),
}
"""Other benchmarks, by part; those of explorers take seeds."""
PARTS = (*STUDIES, "paper", *COMMANDS)


def commit() -> str:
    """What is measured: the last commit that changed code, and whether code differs from it."""
    found = _git("log", "-1", "--format=%h", "--abbrev=10", "--", *CODE) or "unknown"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    return found + (" with uncommitted changes" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def claim(out: Path, measured: str) -> None:
    """Note the commit in `out`, and refuse a folder that holds measurements of another."""
    file = out / "commit.json"
    if file.exists():
        before = json.loads(file.read_text())["commit"]
        if before != measured:
            raise SystemExit(f"--out: {out} holds measurements of {before}, this is {measured}. Choose another folder.")
        return
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"commit": measured, "machine": machine()}) + "\n")


def command(part: str, out: Path, seeds: int, steps: int | None, workers: int) -> list[list[str]]:
    """The commands of a part."""
    python = [sys.executable, "-m"]
    shared = ["--seeds", str(seeds), "--workers", str(workers), "--out", str(out / part)]
    if part in STUDIES:
        study = STUDIES[part]
        given = ["--methods", ",".join(study.methods), "--seed", str(FRESH), "--steps", str(steps or study.steps)]
        return [[*python, "polaug", "compare", *study.tasks, *given, *shared]]
    if part == "paper":
        return [[*python, "polaug", "paper", *shared, *(["--steps", str(steps), "--episodes", "2"] if steps else [])]]
    if part == "explorers":
        words = ["--seeds", str(seeds), "--first-seed", str(FRESH), "--workers", str(workers), "--robustness"]
        return [[*python, "benchmarks.explorers", *words, "--out", str(out / "explorers.csv")]]
    return [[*python, f"benchmarks.{name}"] for name in COMMANDS[part]]


def run(part: str, out: Path, seeds: int, steps: int | None, workers: int) -> None:
    """Run what is not finished of a part, and note what it printed; studies are kept in benchmarks/results."""
    said, text = out / f"{part}.txt", ""
    if part in COMMANDS and said.exists():
        return
    for words in command(part, out, seeds, steps, workers):
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in (0, 1):  # 1: some runs failed, and are said
            raise SystemExit(f"{' '.join(words[1:])} ended with {done.returncode}; the same command goes on")
        text += done.stdout
    said.write_text(text)


def page(out: Path, seeds: int) -> str:
    """The measured part of the results page, from what there is in `out`."""
    told = json.loads((out / "commit.json").read_text())
    rows = {name: headline(find_runs(out / name)) for name in (*STUDIES, "paper") if (out / f"{name}.txt").exists()}
    augmented = [row for each in rows.values() for row in _augmented(each)]
    parts = ["## Summary", summary(augmented)] if augmented else []
    parts += [
        "## Details",
        f"Measured at commit {told['commit']} on {told['machine']}, by `python -m benchmarks.all --seeds {seeds}`. "
        f"Seeds start at {FRESH}, those of the paper's study at 0. "
        "[Statistics](statistics.md) defines solved, kept and the final return.",
    ]
    for name, each in rows.items():
        title = STUDIES[name].title if name in STUDIES else "The paper's study"
        parts += [f"### {title}", f"Command: `{_shown(name, seeds)}`", table(each)]
    for name in COMMANDS:
        if (out / f"{name}.txt").exists():
            parts += [f"### {name.capitalize()}", f"```text\n{(out / f'{name}.txt').read_text().strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _shown(part: str, seeds: int) -> str:
    (words,) = command(part, Path("runs/all"), seeds, None, 2)
    return " ".join(words[2:])


def _augmented(rows: Iterable[Headline]) -> list[Headline]:
    return [row for row in rows if row.method.endswith("+pa") and reference(row) is not None]


def summary(rows: Iterable[Headline]) -> str:
    """The table that the page begins with: one line for each task and augmented agent."""
    lines = []
    for row in sorted(rows, key=lambda row: (row.task, row.method)):
        name = str(reference(row))
        solved = f"{row.reached} of {row.seeds}" if row.reached is not None else ""
        speed_up = ratio(row.speed_ups[name]) if row.speed_ups else ""
        lines.append((row.task, row.method, _steps(row), solved, name, speed_up, keeping(row)))
    heads = ("task", "agent", "steps to solved", "solved", "strongest reference", "speed-up [95% interval]", "kept")
    return _markdown(heads, lines)


def table(rows: Sequence[Headline]) -> str:
    """All methods of a study; the reference of each task is marked."""
    lines = [
        (row.task, f"{row.method}{' (reference)' if plain(row.method) and row.method == row.reference else ''}",
         str(row.seeds), _steps(row), "" if row.reached is None else f"{row.reached} of {row.seeds}", keeping(row),
         interval(row.final, spread=row.spread))
        for row in rows
    ]  # fmt: skip
    heads = ("task", "method", "seeds", "steps to solved", "solved", "kept", "final return")
    return _markdown(heads, lines)


def _steps(row: Headline) -> str:
    return interval(row.steps_to_threshold, row.budget, row.spread) if row.reached is not None else "no threshold"


def _markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *lines))


def write(measured: str, path: Path) -> None:
    """Put it between the marks of the page; what is written by hand around them stays."""
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        marks = f"{BEGIN.strip()!r} and {END.strip()!r}"
        raise SystemExit(f"{path}: lacks the marks {marks}. Put them where the tables belong.")
    before, rest = text.split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{measured}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    """All parts, or those of --only."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--steps", type=int, default=None, help="of every study, for a trial")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "all")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--keep", action="store_true", help="also write summaries and runs to benchmarks/results")
    args = parser.parse_args(arguments)
    claim(args.out, commit())
    started = time.monotonic()
    for k, part in enumerate(args.only, start=1):
        say(f"[{k}/{len(args.only)}] {part}, after {(time.monotonic() - started) / 3600:.1f} hours")
        run(part, args.out, args.seeds, args.steps, args.workers)
        if args.keep and part in (*STUDIES, "paper"):
            keep(args.out / part, part)
        elif args.keep and part == "explorers":
            shutil.copy(args.out / "explorers.csv", RESULTS)
        write(page(args.out, args.seeds), args.page)
    say(f"written: {args.page}; {number((time.monotonic() - started) / 3600)} hours")


if __name__ == "__main__":
    main()
