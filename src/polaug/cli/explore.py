"""Let explorers drive alone, without an agent, and report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from polaug.cli.arguments import (
    RUNS_ARE_KEPT,
    add_envs,
    add_out,
    add_seeds,
    check_out,
    described,
    envs,
    names,
    seeds,
    whole_number,
)
from polaug.cli.progress import episode_bar
from polaug.errors import UnsupportedSpaceError, unknown
from polaug.exploration import METHODS, make_explorer
from polaug.study import RunFolder, Task, explore, task
from polaug.study.folder import run_path
from polaug.study.methods import unseen

_EXAMPLE = "example:\n  polaug explore MountainCar-v0 --explorer committee,random --episodes 30 --seeds 3"


def add_parser(commands: Any) -> None:
    """`polaug explore`."""
    parser = commands.add_parser("explore", **described(f"{__doc__}\n\n{_EXAMPLE}"))
    add_envs(parser)
    parser.add_argument(
        "--explorer", default="committee", metavar="NAME[,NAME]", help="who drives (default: %(default)s)"
    )
    parser.add_argument(
        "--episodes", type=whole_number(1, 40), default=40, metavar="N", help="episodes per seed (%(default)s)"
    )
    add_seeds(parser, 3)
    add_out(parser, "runs/explore")
    parser.set_defaults(command=run, interrupted=RUNS_ARE_KEPT)


def run(args: argparse.Namespace) -> None:
    """Every task, explorer and seed that is not finished yet, one after the other."""
    tasks = list(dict.fromkeys(task(name) for name in envs(args)))
    explorers = list(dict.fromkeys(names(args.explorer)))
    for name in explorers or [args.explorer]:
        if name not in METHODS:
            raise unknown("explorer", name, METHODS)
    _check_fit(tasks, explorers)
    check_out(args.out)
    for name in explorers:
        if METHODS[name].pays:
            print(f"note: {name} only pays an agent for what is new; alone it acts at random", file=sys.stderr)
    cells = [(t, n, s) for t in tasks for n in explorers for s in seeds(args)]
    with episode_bar(len(cells) * args.episodes) as advance:
        for found, name, seed in cells:
            _run(args, found, name, seed, advance)
    _tell(args, {(found.name, name) for found, name, _ in cells})


def _tell(args: argparse.Namespace, wanted: set[tuple[str, str]]) -> None:
    from polaug.report import write_report
    from polaug.report.summary import groups, sentence
    from polaug.study.results import find_runs
    from polaug.study.wording import counted

    seen = [group for group in groups(find_runs(args.out)) if (group.task, group.method) in wanted]
    for group in seen:
        print(f"{group.task}, {sentence(group)}")
    runs = [run for group in seen for run in group.runs]
    steps = counted(sum(int(run.steps[-1]) for run in runs), "environment step")
    print(f"{counted(len(runs), 'run')}, {steps}, all of them counted")
    print(f"report: {write_report(args.out)}")


def _check_fit(tasks: list[Task], explorers: list[str]) -> None:
    """Build each explorer once, so that a pair that can't work is refused before hours of the others."""
    for found in tasks:
        env = found.make()
        try:
            for name in explorers:
                try:
                    make_explorer(name, env.observation_space, env.action_space)
                except UnsupportedSpaceError as fault:
                    raise unseen(f"explorer: {name}", found, fault) from fault
        finally:
            env.close()


def _run(args: argparse.Namespace, found: Task, name: str, seed: int, advance: Callable[[str, int], None]) -> None:
    settings = {
        "kind": "explore", "task": found.name, "env_id": found.env_id, "kwargs": dict(found.kwargs),
        "episode_limit": found.episode_limit, "threshold": found.threshold, "success": found.success,
        "method": name, "explorer": name, "options": {}, "settings": {}, "steps": None, "episodes": args.episodes,
        "seed": seed, "package": found.package or None,
    }  # fmt: skip
    label = f"{found.name} · {name} · seed {seed}"
    with RunFolder(run_path(args.out, found.name, name, seed), settings) as folder:
        if folder.finished:
            advance(label, args.episodes)
            return

        def progress(episode: Any) -> None:
            folder.add(episode)
            advance(label, 1)

        result = explore(found, name, episodes=args.episodes, seed=seed, progress=progress)
        summary = {
            "episodes": len(result.episodes), "steps": result.steps, "seconds": round(result.seconds, 3),
            "explorer_us_per_step": round(1e6 * result.explorer_seconds / result.steps, 1), "explorer_share": 1.0,
            "statistics": result.explorer.statistics(),
        }  # fmt: skip
        for episode, member in enumerate(result.choices, start=1):
            folder.row("choices.csv", episode, member)
        folder.finish(summary, result.maps)
