"""`polaug tune`: a search with Optuna for an agent's hyperparameters and those of its augmentation.

A trial is a run like any other, below `--out`. Its value is the mean of the agent's evaluations over the run, which
rewards both learning early and ending high; the mean over the seeds counts.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from polaug.checks import package, whole
from polaug.cli import options
from polaug.errors import invalid
from polaug.study.folder import run_path
from polaug.study.methods import Method, check_fit
from polaug.study.methods import method as find_method
from polaug.study.tasks import Task
from polaug.study.tasks import task as find_task


def tune_(
    env: options.Env = None,
    more_envs: options.MoreEnvs = None,
    algo: options.Algo = "ppo+pa",
    trials: Annotated[int, options.whole("Total number of trials, including earlier ones.")] = 20,
    steps: Annotated[int, options.whole("Environment steps of a run.")] = 20_000,
    seeds: options.Seeds = 1,
    seed: options.Seed = 0,
    out: options.Out = Path("runs/tune"),
) -> None:
    """Search hyperparameters of agent and augmentation with Optuna.

    The trials are stored in DIR/tune.db. The same command with more --trials continues the search.

    Examples:
      polaug tune CartPole-v1 --algo dqn+pa --trials 30
      polaug tune Pendulum-v1 --algo sac --steps 10000 --seeds 2
    """
    optuna = package("optuna", "tune")
    (name,) = options.envs(env, more_envs, many=False)
    found, chosen = find_task(name), find_method(algo)
    for flag, value in (("trials", trials), ("steps", steps), ("seeds", seeds)):
        whole(flag, value, 1)
    check_fit(chosen, found)
    if chosen.algo not in AGENT_SPACE:
        remedy = f"Choose a method of {', '.join(AGENT_SPACE)}."
        raise invalid("method", "its hyperparameters cannot be searched", chosen.name, remedy)
    out.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=f"sqlite:///{(out / 'tune.db').resolve()}",
        study_name=f"{found.name} {chosen.name} {steps} {seeds} {seed}",
        direction="maximize", load_if_exists=True,
    )  # fmt: skip
    # A continued study must not draw the same numbers again.
    study.sampler = optuna.samplers.TPESampler(seed=seed + 1_000 * len(study.trials))
    complete = (optuna.trial.TrialState.COMPLETE,)
    while (done := len(study.get_trials(deepcopy=False, states=complete))) < trials:
        trial = study.ask()
        score = _value(found, _variant(chosen, trial), out, steps, range(seed, seed + seeds))
        study.tell(trial, score)
        news = f"[{done + 1}/{trials}] mean evaluation {score:.1f}, best {study.best_value:.1f}"
        print(news, file=sys.stderr, flush=True)
    best = study.best_trial
    variant = _variant(chosen, optuna.trial.FixedTrial(best.params))
    print(f"best of {done} trials: mean evaluation {best.value:.2f}")
    for key, value in best.params.items():
        print(f"  {key}: {value:.3g}" if isinstance(value, float) else f"  {key}: {value}")
    print(f"run: {run_path(out, found.name, variant.name, seed)}")
    print(f"train with these settings: {command(name, algo, steps, best.params)}")


def command(task: str, method: str, steps: int, parameters: Mapping[str, Any]) -> str:
    """The command that trains the best agent again."""
    words = ["polaug", "train", task, "--algo", method, "--steps", str(steps)]
    for key, value in parameters.items():
        text = f"{value:.3g}" if isinstance(value, float) else str(value)
        words += [f"--{key.replace('_', '-')}", text] if key in OUR_SPACE else ["-p", f"{key}:{text}"]
    return shlex.join(words)


Space = Mapping[str, tuple[str, Any, Any]]
"""By name: how a value is drawn ("log", "float" or "choice"), from where, to where."""

_RATE: Space = {"learning_rate": ("log", 1e-4, 5e-3), "gamma": ("choice", (0.95, 0.98, 0.99, 0.995), None)}
_REPLAY: Space = {
    **_RATE, "batch_size": ("choice", (32, 64, 128, 256), None), "train_freq": ("choice", (1, 4, 16), None),
    "tau": ("log", 0.002, 1.0),
}  # fmt: skip
AGENT_SPACE: dict[str, Space] = {
    "ppo": {**_RATE, "n_steps": ("choice", (128, 256, 512, 1024, 2048), None), "gae_lambda": ("float", 0.8, 1.0),
            "ent_coef": ("log", 1e-5, 0.05), "n_epochs": ("choice", (4, 10, 20), None)},
    "a2c": {**_RATE, "n_steps": ("choice", (5, 16, 64), None), "ent_coef": ("log", 1e-5, 0.05)},
    "dqn": _REPLAY, "qrdqn": _REPLAY, "sac": _REPLAY, "td3": _REPLAY, "ddpg": _REPLAY, "tqc": _REPLAY,
    "trpo": {**_RATE, "n_steps": ("choice", (512, 1024, 2048), None)},
}  # fmt: skip
"""Search space of each algorithm, similar to RL Baselines3 Zoo's."""
OUR_SPACE: Space = {
    "teach_every": ("choice", (125, 250, 500, 1_000), None), "teach_rate": ("log", 1e-3, 3e-2),
    "trial_share": ("float", 0.02, 0.2),
}  # fmt: skip
"""Search space of the augmentation."""


def _variant(chosen: Method, trial: Any) -> Method:
    own = {name: _drawn(trial, name, *how) for name, how in AGENT_SPACE[chosen.algo].items()}
    found = chosen.with_settings(**own)
    if chosen.augmentation is None:
        return found
    return found.with_augmentation(**{name: _drawn(trial, name, *how) for name, how in OUR_SPACE.items()})


def _drawn(trial: Any, name: str, kind: str, low: Any, high: Any) -> Any:
    if kind == "choice":
        return trial.suggest_categorical(name, list(low))
    return float(f"{trial.suggest_float(name, low, high, log=kind == 'log'):.3g}")


def _value(task: Task, method: Method, out: Path, steps: int, seeds: range) -> float:
    from polaug.study.train import train  # torch is imported here

    runs = [train(task, method, steps=steps, seed=seed, out=out, confirm_episodes=10) for seed in seeds]
    return sum(float(run.evaluations.means.mean()) for run in runs if run.evaluations is not None) / len(runs)
