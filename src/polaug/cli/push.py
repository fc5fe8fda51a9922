"""`polaug push`: a run for the Hugging Face Hub, with a model card that says how the agent was trained."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

import polaug
from polaug.checks import package
from polaug.cli.options import flag
from polaug.errors import invalid
from polaug.study.levels import reached
from polaug.study.methods import ALGORITHMS, trained
from polaug.study.results import Run, read_run
from polaug.study.wording import counted, number


def push_(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder with a model.zip.")],
    repo: Annotated[str, flag("Repository on the Hugging Face Hub.", "USER/NAME")] = "",
    private: Annotated[bool, typer.Option("--private", help="Make the repository private.")] = False,
    out: Annotated[Path | None, flag("Folder for the files to upload. Required with --dry-run.", "DIR")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the files, but do not upload them.")] = False,
) -> None:
    """Upload an agent and its model card to the Hugging Face Hub.

    This needs huggingface_hub.

    Examples:
      polaug push runs/train/MountainCar-v0/ppo+pa/seed_0 --repo me/mountain-car
      polaug push runs/train/MountainCar-v0/ppo+pa/seed_0 --dry-run --out card
    """
    if dry_run:
        if out is None:
            raise invalid("--out", "must be given with --dry-run", None, "Pass for example --out card.")
        print(f"model card: {prepare(run, out)}")
        return
    if "/" not in repo:
        raise invalid("--repo", "must be USER/NAME", repo, "Pass for example --repo me/mountain-car.")
    hub = package("huggingface_hub", "push", "huggingface_hub, or use --dry-run")
    with tempfile.TemporaryDirectory() as folder:
        prepare(run, out or Path(folder))
        api: Any = hub.HfApi()  # the token is the one that `hf auth login` has stored
        api.create_repo(repo, private=private, exist_ok=True)
        address = api.upload_folder(repo_id=repo, folder_path=str(out or folder), commit_message="polaug push")
    print(f"pushed: {address}")


FILES = ("model.zip", "normalization.npz", "config.json", "done.json", "evaluations.csv", "confirmations.csv",
         "report.html")  # fmt: skip
"""What is copied of a run folder, where it is there."""


def prepare(run: Path, folder: Path) -> Path:
    """Fill `folder` with what is uploaded; gives the model card's path."""
    from polaug.watch.agent import find_file  # torch comes with it

    found = read_run(find_file(run).parent)
    if folder.exists() and any(folder.iterdir()):
        raise invalid("folder", "must be empty or not there yet", str(folder), "Choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if (found.path / name).exists():
            shutil.copyfile(found.path / name, folder / name)
    card = folder / "README.md"
    card.write_text(model_card(found), encoding="utf-8")
    return card


def model_card(run: Run) -> str:
    """The card: metadata that the Hub reads, results, settings, and how to load the agent."""
    level, episodes = reached(run), run.config["confirm_episodes"]
    agent = ALGORITHMS[trained(run.config).algo]
    solved = (
        f"solved (mean return of at least {number(run.threshold)}) after {counted(level.steps, 'environment step')}"
        if level.solved and run.threshold is not None else "not solved" if run.threshold is not None else "no threshold"
    )  # fmt: skip
    meta = {
        "library_name": "stable-baselines3",
        "tags": [str(run.config["env_id"]), "deep-reinforcement-learning", "reinforcement-learning", "polaug"],
        "model-index": [{
            "name": run.method,
            "results": [{
                "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
                "dataset": {"name": run.task, "type": str(run.config["env_id"])},
                "metrics": [{"type": "mean_reward", "value": round(level.final, 2), "name": "mean_reward"}],
            }],
        }],
    }  # fmt: skip
    settings = json.dumps(run.config["settings"], indent=1, sort_keys=True)
    return f"""---
{json.dumps(meta, indent=1)}
---
# {run.method} on {run.task}

Trained with polaug {polaug.__version__}: {counted(int(run.done["steps"]), "environment step")}, seed {run.seed}.

- Final return: {number(level.final)}, the mean of {counted(episodes, "episode")} from fresh starts, deterministic.
- {solved[0].upper()}{solved[1:]}.

## Use

```python
from huggingface_sb3 import load_from_hub
from polaug import augment
from {agent.module} import {agent.cls}

file = load_from_hub("USER/NAME", "model.zip")
model = augment({agent.cls}).load(file)
```

The file holds pickles: load only what you trust.

## Settings

```json
{settings}
```
"""
