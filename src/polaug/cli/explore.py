"""`polaug explore`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from polaug.checks import whole
from polaug.cli import options
from polaug.cli.progress import ProgressDisplay
from polaug.cli.study_output import grid, printed
from polaug.errors import unknown
from polaug.explorers import ALIASES, METHODS
from polaug.study import RunFolder, Task, explore, task
from polaug.study.folder import run_path
from polaug.study.methods import built
from polaug.study.study import task_settings
from polaug.study.wording import counted


def explore_(
    env: options.Envs = None,
    more_envs: options.MoreEnvs = None,
    explorer: options.Explorers = "portfolio",
    episodes: Annotated[int, options.whole("Episodes per seed.")] = 40,
    seeds: options.Seeds = 3,
    seed: options.Seed = 0,
    out: options.Out = Path("runs/explore"),
) -> None:
    """Run explorers alone, without an agent, and write a report.

    Example:
      polaug explore MountainCar-v0 --explorer portfolio,random --episodes 30 --seeds 3
    """
    for what, value, least in (("episodes", episodes, 1), ("seeds", seeds, 1), ("seed", seed, 0)):
        whole(what, value, least)
    tasks = list(dict.fromkeys(task(name) for name in options.envs(env, more_envs)))
    explorers = list(dict.fromkeys(options.names(explorer)))
    known = METHODS | {alias: METHODS[name] for alias, name in ALIASES.items()}
    for name in explorers or [explorer]:
        if name not in known:
            raise unknown("explorer", name, METHODS)
    for found in tasks:  # a pair that can't work is refused before hours of the others
        with contextlib.closing(found.make()) as made:
            for name in explorers:
                built(f"explorer: {name}", name, found, made)
    for name in explorers:
        if known[name].pays:
            print(f"note: {name} only adds a bonus to an agent's rewards; alone it acts at random", file=sys.stderr)
    cells = [(t, n, s) for t in tasks for n in explorers for s in range(seed, seed + seeds)]
    with ProgressDisplay() as shown:
        for k, (found, name, number) in enumerate(cells):
            label = f"{found.name} · {name} · seed {number}"
            shown.say(label)

            def advance(done: int, label: str = label, before: int = k) -> None:
                shown.update(label, (before + done / episodes) / len(cells))

            _run(out, episodes, found, name, number, advance)
    _print_summary(out, {(found.name, name) for found, name, _ in cells})


def _print_summary(out: Path, wanted: set[tuple[str, str]]) -> None:
    from polaug.report import find_runs, write_report
    from polaug.report.tables import explored_table

    runs = [run for run in find_runs(out) if (run.task, run.method) in wanted]
    for name, same in groupby(runs, key=lambda run: run.task):
        mine = list(same)
        found = explored_table(mine, list(dict.fromkeys(run.method for run in mine)))
        rows = [[each.lines[0][0][1] for each in row.cells] for row in found.rows]
        title = f"{name}: {counted(len(mine[0].returns), 'episode')} of each run"
        print(printed(title, grid(found.heads, rows)), end="\n\n")
    steps = counted(sum(int(run.steps[-1]) for run in runs), "environment step")
    print(f"{counted(len(runs), 'run')}, {steps}, all of them counted")
    print(f"report: {write_report(out)}")


def _run(out: Path, episodes: int, found: Task, name: str, seed: int, advance: Callable[[int], None]) -> None:
    settings = task_settings(found) | {
        "kind": "explore", "method": name, "explorer": name, "options": {}, "settings": {}, "steps": None,
        "episodes": episodes, "seed": seed,
    }  # fmt: skip
    with RunFolder(run_path(out, found.name, name, seed), settings) as folder:
        if folder.finished:
            return

        def progress(episode: Any) -> None:
            folder.add(episode)
            advance(episode.episode)

        result = explore(found, name, episodes=episodes, seed=seed, progress=progress)
        summary = {
            "episodes": len(result.episodes), "steps": result.steps, "seconds": round(result.seconds, 3),
            "explorer_us_per_step": round(1e6 * result.explorer_seconds / result.steps, 1), "explorer_share": 1.0,
            "statistics": result.explorer.statistics(),
        }  # fmt: skip
        for episode, member in enumerate(result.choices, start=1):
            folder.row("choices.csv", episode, member)
        folder.finish(summary, result.maps)
