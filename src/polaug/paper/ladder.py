"""The ladder from the paper to polaug: the printed algorithm, then one change after the other, measured alike.

A rung is a row of RUNGS: what drives, with which options, and whether an agent learns from it. A finished cell (task,
rung, seed) is one line of `ladder.jsonl`; the same command goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from polaug.checks import whole
from polaug.errors import StateError
from polaug.explorers import Explorer, make_explorer
from polaug.explorers.paper import PaperExplorer
from polaug.paper.ladder_explorer import CompletedQ, FourierGrid
from polaug.report.figures import STYLE, save_figure
from polaug.state import safe_write
from polaug.study.explore import drive
from polaug.study.levels import CONFIRM_EPISODES
from polaug.study.statistics import estimate
from polaug.study.tasks import PAPER, Task
from polaug.study.wording import counted

EPISODES = 100
"""Of which the paper's figures show the returns."""
AGENT_STEPS = 8_192
"""Four rollouts of PPO at its defaults."""
_RESTARTED = 50  # episodes that restarts may leave uncounted: the printed algorithm restarts without end on MountainCar
_RESTART_BELOW = {"CartPole-paper": 50.0, "MountainCar-paper": -199.5}
"""The value below which it restarts, which the paper does not give: an agent at random is below it."""

Cell = tuple[str, str, int]  # task, rung, seed
Row = dict[str, Any]


@dataclass(frozen=True)
class Rung:
    """One step of the ladder: everything of the rung before, and a change."""

    name: str
    change: str
    drives: str
    """The printed algorithm ("paper"), "completed_q", or an explorer's name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    counts_restarts: bool = True
    transfer: str | None = None
    """How an agent (PPO) learns from it, a name of `polaug.transfers()`; None: the explorer is measured alone."""


_MASKED = {"reading": "masked"}
_FEATURES = _MASKED | {"fourier": True, "actions": "one_hot", "rank": 2}
RUNGS: tuple[Rung, ...] = (
    Rung("printed", "Algorithm 1 as printed", "paper", counts_restarts=False),
    Rung("masked", "fit the observed pairs only", "paper", _MASKED, counts_restarts=False),
    Rung("features", "features with a constant and both signs", "paper", _FEATURES, counts_restarts=False),
    Rung("restarts", "count restarted episodes", "paper", _FEATURES),
    Rung("bellman", "Bellman targets instead of Q/Nq", "completed_q"),
    Rung("optimism", "optimism where little is known", "completed_q", {"optimism": 0.1}),
    Rung("dynamics", "complete the dynamics, not Q", "completed_q", {"optimism": 0.1, "dynamics": True}),
    Rung("planning", "plan in the completed model", "model"),
    Rung("printed_foreign", "as printed: PPO trains on its rollouts", "paper", transfer="as_published"),
    Rung("planning_foreign", "planning: PPO trains on its rollouts", "model", transfer="as_published"),
    Rung("planning_taught", "planning: PPO is taught instead", "model", transfer="auto"),
)


def cells(seeds: int) -> list[Cell]:
    """All of them, seed by seed, so that a study under way has all rungs."""
    return [(task.name, rung.name, seed) for seed in range(seeds) for task in PAPER for rung in RUNGS]


def measure(cell: Cell) -> Row:
    """Run one cell: returns of the first episodes, and of an agent the mean return alone at the end."""
    name, rung_name, seed = cell
    task = next(each for each in PAPER if each.name == name)
    rung = next(each for each in RUNGS if each.name == rung_name)
    row: Row = {"task": name, "rung": rung_name, "seed": seed}
    if rung.transfer is not None:
        return row | {"agent": round(_agent(task, rung, seed), 3), "steps": AGENT_STEPS}
    with contextlib.closing(task.make()) as env:
        explorer = _explorer(rung, env, seed, _RESTART_BELOW[name])
        restarts: list[int] = []
        played = drive(
            env, explorer, episodes=EPISODES + (0 if rung.counts_restarts else _RESTARTED), seed=seed,
            progress=lambda episode: restarts.append(getattr(explorer, "restarts", 0)),
        )  # fmt: skip
    dropped = 0
    if not rung.counts_restarts:
        dropped = max((k + 1 for k in range(_RESTARTED) if restarts[k] > (restarts[k - 1] if k else 0)), default=0)
    returns = played.returns[dropped : dropped + EPISODES]
    return row | {"returns": [round(each, 3) for each in returns], "uncounted": dropped, "steps": played.steps}


def _explorer(rung: Rung, env: gym.Env[Any, Any], seed: int, restart_below: float) -> Explorer:
    observations, actions, options = env.observation_space, env.action_space, dict(rung.options)
    if rung.drives == "completed_q":
        return CompletedQ(observations, actions, seed=seed, **options)
    if rung.drives != "paper":
        return make_explorer(rung.drives, observations, actions, seed=seed, **options)
    if options.pop("fourier", False):
        options["hashing"] = FourierGrid(observations)
    return PaperExplorer(observations, actions, seed=seed, restart_below=restart_below, **options)


def _agent(task: Task, rung: Rung, seed: int) -> float:
    """Mean return alone of a PPO agent that learnt from the rung's explorer."""
    from polaug.study.train import train  # torch is imported here

    with tempfile.TemporaryDirectory() as out:
        method = f"ppo+{rung.drives}{'' if rung.transfer == 'auto' else f':{rung.transfer}'}"
        run = train(task, method, steps=AGENT_STEPS, seed=seed, out=out, every=AGENT_STEPS, early_every=None)
    assert run.confirmations is not None  # every agent is evaluated at its end
    return float(run.confirmations.means[-1])


def read(path: Path) -> dict[Cell, Row]:
    """The finished cells of a file."""
    rows: dict[Cell, Row] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines() if path.exists() else (), start=1):
        try:
            row = json.loads(line)
            rows[str(row["task"]), str(row["rung"]), int(row["seed"])] = row
        except (ValueError, KeyError, TypeError):
            raise StateError(f"out: line {number} of {path} is damaged. Delete that line, or the file.") from None
    return rows


def run_ladder(out: str | os.PathLike[str], seeds: int = 10, progress: Callable[[str], None] = print) -> Path:
    """Measure the missing cells of `out`/ladder.jsonl, and draw `out`/figures/ladder; gives the results file."""
    path = Path(out) / "ladder.jsonl"
    wanted, done = cells(whole("seeds", seeds, 1)), read(path)
    missing = [cell for cell in wanted if cell not in done]
    progress(f"{len(wanted)} cells, {len(wanted) - len(missing)} from before; results go to {path}")
    for number, cell in enumerate(missing, start=1):
        row = done[cell] = measure(cell)
        safe_write(path, "".join(f"{json.dumps(each)}\n" for each in done.values()).encode())
        level = row["agent"] if "agent" in row else float(np.mean(row["returns"]))
        progress(f"{number}/{len(missing)} {row['task']} {row['rung']} seed {row['seed']}: {level:.1f}")
    stem = Path(out) / "figures" / "ladder"
    stem.parent.mkdir(parents=True, exist_ok=True)
    for figure in save_figure(ladder(done), stem, _DPI):
        progress(f"figure: {figure}")
    progress(table(done))
    return path


_PRINTED, _BETWEEN, _OUR = "#D55E00", "#7F7F7F", "#009E73"  # Okabe and Ito's, as in the other figures
_STYLE: Any = STYLE | {"font.size": 9, "axes.spines.left": False}
_GAP = 0.9  # rows between the explorer alone and agents
_DPI = 150


def levels(rows: Mapping[Cell, Row], task: str, rung: Rung) -> list[float]:
    """The number of each seed: the mean return of the first episodes, or the agent's alone."""
    mine = [row for (name, what, _), row in sorted(rows.items()) if (name, what) == (task, rung.name)]
    return [float(row["agent"] if "agent" in row else np.mean(row["returns"])) for row in mine]


def successes(rows: Mapping[Cell, Row], task: Task, rung: Rung) -> tuple[int, int]:
    """Seeds that succeeded, of how many: an episode at the goal, or an agent at the threshold."""
    mine = [row for (name, what, _), row in rows.items() if (name, what) == (task.name, rung.name)]
    goal, threshold = task.success, task.threshold
    assert goal is not None
    assert threshold is not None
    good = [row["agent"] >= threshold if "agent" in row else max(row["returns"]) >= goal for row in mine]
    return sum(map(bool, good)), len(mine)


def ladder(rows: Mapping[Cell, Row]) -> Figure:
    """Two panels, one for each task, and a row for each rung."""
    places = [k + (_GAP if rung.transfer is not None else 0.0) for k, rung in enumerate(RUNGS)]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10.5, 5.6), layout="constrained")
        panels: Sequence[Axes] = figure.subplots(1, len(PAPER), sharey=True)
        for axes, task in zip(panels, PAPER, strict=True):
            _panel(axes, task, rows, places)
        panels[0].set_yticks(places, [rung.change for rung in RUNGS])
        for label, rung in zip(panels[0].get_yticklabels(), RUNGS, strict=True):
            label.set_color(_colour(rung))
        panels[0].set_ylim(places[-1] + 0.6, -1.1)
        seeds = len({seed for _, _, seed in rows})
        figure.suptitle(
            f"Which change makes the paper's claim true? Each row is the one above with one change "
            f"({counted(seeds, 'seed')})\n"
            f"above: mean return of the first {EPISODES} episodes; below: PPO alone on {CONFIRM_EPISODES} fresh "
            f"episodes after {AGENT_STEPS:,} steps", fontsize=10,
        )  # fmt: skip
    return figure


def _panel(axes: Axes, task: Task, rows: Mapping[Cell, Row], places: Sequence[float]) -> None:
    assert task.threshold is not None
    axes.axvline(task.threshold, color="black", lw=0.7, ls=(0, (4, 4)), zorder=0)
    axes.annotate("solved", (task.threshold, 0.0), (-3, 4), xycoords=("data", "axes fraction"), fontsize=7.5,
                  textcoords="offset points", rotation=90, ha="right", va="bottom")  # fmt: skip
    goal = "seeds that reached the goal" if task.goal is not None else "seeds with a solved episode"
    axes.annotate(goal, (1.12, -0.75), xycoords=("axes fraction", "data"), ha="right", fontsize=7.5, color="#555555",
                  annotation_clip=False, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    joined: list[tuple[float, float]] = []
    for rung, y in zip(RUNGS, places, strict=True):
        values = levels(rows, task.name, rung)
        if not values:
            continue
        colour, interval = _colour(rung), estimate(values)
        axes.axhline(y, color="#ececec", lw=0.8, zorder=0)
        axes.scatter(values, np.full(len(values), y) + np.linspace(-0.18, 0.18, len(values)), s=14, color=colour,
                     alpha=0.35, lw=0, zorder=2)  # fmt: skip
        axes.plot([interval.low, interval.high], [y, y], color=colour, lw=3.2, alpha=0.55, solid_capstyle="round")
        axes.scatter([interval.value], [y], s=62, color=colour, edgecolor="white", lw=1.0, zorder=4)
        good, n = successes(rows, task, rung)
        axes.annotate(f"{good}/{n}", (1.02, y), xycoords=("axes fraction", "data"), va="center", fontsize=8.5,
                      color=colour, fontweight="bold" if good == n else "normal", annotation_clip=False)  # fmt: skip
        if rung.transfer is None:
            joined.append((interval.value, y))
    axes.plot(*zip(*joined, strict=True), color="#b5b5b5", lw=1.0, zorder=1)
    axes.set_title(task.name, loc="left", fontweight="bold", fontsize=10)
    axes.set_xlabel("return per episode")
    axes.tick_params(axis="y", length=0)


def _colour(rung: Rung) -> str:
    if rung.name.startswith("printed"):
        return _PRINTED
    return _OUR if rung.name in ("planning", "planning_taught") else _BETWEEN


def table(rows: Mapping[Cell, Row]) -> str:
    """The same as Markdown."""
    lines = ["| change | " + " | ".join(f"{task.name} | goal" for task in PAPER) + " |"]
    lines.append("|---" * (1 + 2 * len(PAPER)) + "|")
    for rung in RUNGS:
        cells_: list[str] = [rung.change]
        for task in PAPER:
            values = levels(rows, task.name, rung)
            if values:
                interval = estimate(values)
                good, n = successes(rows, task, rung)
                spread = f" [{interval.low:.1f}, {interval.high:.1f}]" if np.isfinite(interval.low) else ""  # one seed
                level = f"{interval.value:.1f}{spread}".replace("-", "−")
                cells_ += [level, f"{good}/{n}"]
            else:
                cells_ += ["", ""]
        lines.append("| " + " | ".join(cells_) + " |")
    return "\n".join(lines)
