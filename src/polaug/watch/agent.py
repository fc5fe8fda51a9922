"""The agent at play: a film of several episodes, agent and explorer side by side from the same starts.

The agent plays without exploration noise. The explorer plays as it drives in training: it explores, and learns from
what it sees; the saved file is not changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from polaug.checks import positive, whole
from polaug.errors import StateError, invalid, unknown
from polaug.explorers import Explorer
from polaug.sb3 import augment
from polaug.study.agents import agent_class, read_normalization
from polaug.study.explore import batch_of_one, plain_action, single
from polaug.study.folder import NORMALIZATION
from polaug.study.methods import ALGORITHMS
from polaug.study.pool import environment_variables
from polaug.study.tasks import Task, longest, task
from polaug.watch.film import Gif, Mp4, Panel, draw_frame, open_film

_HOLD = 1.5  # seconds for which the end of an episode stays
_NARROWEST, _WIDEST = 160, 3840


def watch(
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    episodes: int = 3,
    seed: int = 0,
    env: str | Task | None = None,
    algo: str | None = None,
    fps: float | None = None,
    width: int | None = None,
    vecnormalize: str | os.PathLike[str] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> Path:
    """Film a saved agent, and the explorer in its file if there is one, into a .gif or an .mp4; gives its path.

    `model` is a run folder, or a zip saved by `model.save()`, which needs `env`. It holds pickles, and so does
    `vecnormalize`, the file of `VecNormalize.save()`: open only what you trust. Episode k starts from the environment's
    seed `seed` + k, for agent and explorer alike. `fps` is in environment steps per second, by default the
    environment's own; `width` is in pixels. `progress` is called with a label and the share done, 0 to 1.
    """
    whole("episodes", episodes, 1)
    whole("seed", seed, 0)
    if fps is not None:
        positive("fps", fps)
    if width is not None and not _NARROWEST <= whole("width", width, 1) <= _WIDEST:
        raise invalid("width", f"must lie in [{_NARROWEST}, {_WIDEST}]", width, "Pass for example width=640.")
    path = Path(out)
    file = find_file(model)
    with headless(), contextlib.ExitStack() as stack:
        found = find_task(file, env)
        mode = render_mode(found)
        name, act, explorer = open_agent(file, found, algo=algo, vecnormalize=vecnormalize)
        envs = [stack.enter_context(contextlib.closing(found.make(render_mode=mode))) for _ in range(2)]
        casts = [Cast(envs[0], "agent", f"{name}, no exploration noise", act)]
        if explorer is not None:
            casts.append(Cast(envs[1], "explorer", "as it drives in training", _driven(explorer), explorer))
        speed = float(fps or envs[0].metadata.get("render_fps") or 30)
        film = open_film(path, speed)
        try:
            for number in range(episodes):
                title = f"{found.name}   episode {number + 1} of {episodes}"
                for share in _play(casts, seed + number, title, film, width or 8 + 328 * len(casts)):
                    if progress is not None:
                        progress(title, (number + share) / episodes)
            film.finish()
        except BaseException:
            film.abandon()
            raise
    return path


class Cast:
    """An agent or an explorer that plays in an environment of its own."""

    def __init__(
        self,
        env: gym.Env[Any, Any],
        actor: str,
        note: str,
        choose: Callable[[Any], Any],
        learner: Explorer | None = None,
    ) -> None:
        self.env, self.actor, self.note = env, actor, note
        self._choose, self._learner = choose, learner
        self.limit = longest(env.spec)
        self.observation: Any = None
        self.step, self.total, self.ended = 0, 0.0, ""
        self._picture: Any = None

    def begin(self, seed: int) -> None:
        """A new episode."""
        self.observation, _ = self.env.reset(seed=seed)
        self.step, self.total, self.ended, self._picture = 0, 0.0, "", None

    def move(self) -> None:
        """One step; a player that has finished waits for the other."""
        if self.ended:
            return
        action = self._choose(self.observation)
        following, reward, terminated, truncated, _ = self.env.step(plain_action(action))
        if self._learner is not None:
            self._learner.observe(single(self.observation, action, reward, following, terminated, truncated))
        self.observation = following
        self.step, self.total = self.step + 1, self.total + float(reward)
        self._picture = None
        if terminated:
            self.ended = "ended"
        elif truncated or self.step >= self.limit:
            self.ended = "time limit"

    def panel(self) -> Panel:
        """What it looks like now."""
        if self._picture is None:
            self._picture = _rendered(self.env)
        return Panel(self.actor, self.note, self._picture, self.step, self.total, self.ended)


def _play(casts: Sequence[Cast], seed: int, title: str, film: Gif | Mp4, width: int) -> Iterator[float]:
    """One episode, step by step; gives the share that is done at least."""
    for cast in casts:
        cast.begin(seed)

    def draw() -> Any:
        return draw_frame(title, [cast.panel() for cast in casts], width)

    film.add(draw)
    step = 0
    while not all(cast.ended for cast in casts):
        for cast in casts:
            cast.move()
        step += 1
        film.add(draw, hold=_HOLD if all(cast.ended for cast in casts) else 0.0)
        yield min(1.0, step / max(cast.limit for cast in casts))
    yield 1.0


def _driven(explorer: Explorer) -> Callable[[Any], Any]:
    return lambda observation: explorer.act(batch_of_one(observation))[0]


def render_mode(found: Task) -> str:
    """rgb_array if the environment can, otherwise ansi, which is drawn as text."""
    with contextlib.closing(found.make()) as env:
        modes = list(env.metadata.get("render_modes") or ())
    for mode in ("rgb_array", "ansi"):
        if mode in modes:
            return mode
    rule = f'must be able to render as "rgb_array" or "ansi", but offers {modes or "nothing"}'
    raise invalid("env", rule, found.name, "Give the environment such a render mode.")


def headless() -> AbstractContextManager[None]:
    """No window and no sound device of pygame, here only."""
    return environment_variables({"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"})


def _rendered(env: gym.Env[Any, Any]) -> Any:
    try:
        picture: Any = env.render()
    except gym.error.DependencyNotInstalled as fault:
        name = env.spec.id if env.spec else str(env)
        raise invalid("env", f"cannot be drawn ({fault})", name, "Install what it names.") from fault
    if isinstance(picture, str):
        return picture
    array = np.asarray(picture)
    if array.ndim not in (2, 3) or array.dtype != np.uint8:
        rule = "its render() must give text or bytes (height, width, 3)"
        raise invalid("env", rule, array, "Mend the environment's rendering.")
    return array


# SB3 does not store the class, but what it stores gives the class away; the first that is there decides. A saved DDPG
# cannot be told from a TD3, and plays the same as one.
_SIGNS = (
    ("cg_max_steps", "trpo"), ("top_quantiles_to_drop_per_net", "tqc"), ("n_quantiles", "qrdqn"),
    ("exploration_fraction", "dqn"), ("policy_delay", "td3"), ("target_entropy", "sac"), ("clip_range", "ppo"),
    ("gae_lambda", "a2c"),
)  # fmt: skip


def find_file(model: str | os.PathLike[str]) -> Path:
    """The zip that `model` means: a file, a file without its ending, or a run folder with model.zip in it."""
    path = Path(model)
    for candidate in (path / "model.zip", path, path.with_name(f"{path.name}.zip")):
        if candidate.is_file():
            return candidate
    if not path.is_dir():
        rule = "must be a saved agent, but there is no such file"
        raise invalid("model", rule, str(model), "Check the path, or train one first.")
    below = sorted(str(file.parent) for file in path.rglob("model.zip"))
    remedy = f"Name a folder that has one, for example {below[0]}." if below else (
        "`polaug train` saves one, and so does `polaug compare` with --save-models."
    )  # fmt: skip
    raise invalid("model", "must be a saved agent, but the folder has no model.zip", str(model), remedy)


def find_task(file: Path, env: str | Task | None) -> Task:
    """The task called `env`; by default the one named in the config.json that `polaug train` writes beside the file."""
    if env is not None:
        return task(env)
    config = file.parent / "config.json"
    try:
        settings = json.loads(config.read_text("utf-8"))
        found = Task(
            str(settings["task"]), str(settings["env_id"]), tuple(dict(settings.get("kwargs") or {}).items()),
            settings.get("episode_limit"), settings.get("threshold"), package=str(settings.get("package") or ""),
        )  # fmt: skip
    except FileNotFoundError:
        rule = "must be named, since a saved agent does not say where it was trained"
        raise invalid("env", rule, None, "Pass for example --env MountainCar-v0 (in Python: env=).") from None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise StateError(f"model: {config} is damaged ({fault!r}). Name the environment with --env.") from fault
    if dict(settings.get("settings") or {}).get("normalize") and not file.with_name(NORMALIZATION).is_file():
        raise StateError(f"model: {file} saw scaled observations, and {NORMALIZATION} is missing beside it.")
    if not found.package and found.env_id not in gym.registry:
        rule = f"{config} names {found.env_id}, which no imported package registers"
        raise invalid("env", rule, found.name, f'Pass --env "package:{found.env_id}" with the package that does.')
    return found


def algorithm_of(file: Path) -> str:
    """The name of the algorithm that saved `file`, from the names of its entries; nothing in it is unpickled."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = json.loads(archive.read("data"))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as fault:
        raise StateError(f"model: {file} is damaged, or no agent saved by model.save() ({fault}).") from fault
    policy = entries.get("policy_class", {})
    module = str(policy.get("__module__", "")) if isinstance(policy, dict) else ""
    for word in ("recurrent", "maskable"):
        if word in module:
            raise invalid("model", f"{word} agents cannot be watched", str(file), "Save another kind of agent.")
    if module.startswith("polaug.baselines"):
        return "atta2c"
    for sign, name in _SIGNS:
        if sign in entries:
            return name
    raise invalid("algo", "must be named, since the file's entries are of no known algorithm", None,
                  f"Pass --algo with one of {', '.join(ALGORITHMS)}.")  # fmt: skip


def open_agent(
    file: Path, found: Task, *, algo: str | None = None, vecnormalize: str | os.PathLike[str] | None = None
) -> tuple[str, Callable[[Any], Any], Explorer | None]:
    """The name of the agent's class, how it acts on one observation without noise, and the explorer if it drives.

    `vecnormalize` is a pickle of SB3's VecNormalize, read only if you name it.
    """
    name = algorithm_of(file) if algo is None else algo
    if name not in ALGORITHMS:
        raise unknown("algo", name, ALGORITHMS)
    try:
        cls = augment(agent_class(name))
    except ImportError as fault:
        rule = f"{ALGORITHMS[name].cls} needs {ALGORITHMS[name].module}"
        raise invalid("model", rule, str(file), "pip install sb3-contrib.") from fault
    venv: Any = DummyVecEnv([found.make])
    try:
        if vecnormalize is not None:
            venv = _unpickled(vecnormalize, venv)
        elif (plain := file.with_name(NORMALIZATION)).is_file():
            venv = read_normalization(plain, venv)
        model = _load(cls, file, venv, found)
    finally:
        venv.close()

    def act(observation: Any) -> Any:
        seen = venv.normalize_obs(np.asarray(observation)) if isinstance(venv, VecNormalize) else observation
        return model.predict(seen, deterministic=True)[0]

    explorer: Explorer | None = model.explorer
    return ALGORITHMS[name].cls, act, explorer if explorer is not None and explorer.steers else None


def _load(cls: Any, file: Path, venv: Any, found: Task) -> Any:
    """The agent, with its explorer unless that is of the user's own, whose code is not in the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about devices and versions: nothing is trained here
            try:
                return cls.load(file, env=venv, device="cpu")
            except StateError:
                return cls.load(file, env=venv, device="cpu", augmentation=None)
    except ValueError as fault:
        if "spaces do not match" not in str(fault):
            raise StateError(f"model: {file} cannot be loaded ({fault}).") from fault
        remedy = "Name the environment it was trained on; under VecNormalize, pass its statistics as vecnormalize."
        raise invalid("env", f"is another one than the agent's ({fault})", found.name, remedy) from fault
    except (OSError, EOFError, KeyError, AttributeError, ImportError, RuntimeError, AssertionError) as fault:
        raise StateError(f"model: {file} cannot be loaded ({type(fault).__name__}: {fault}).") from fault


def _unpickled(path: str | os.PathLike[str], venv: DummyVecEnv) -> VecNormalize:
    try:
        loaded = VecNormalize.load(str(path), venv)
    except Exception as fault:  # a pickle of something else can fail in any way
        rule = f"must be a file saved by VecNormalize.save() ({type(fault).__name__}: {fault})"
        raise invalid("vecnormalize", rule, str(path), "Pass the one saved with this agent.") from fault
    loaded.training = False
    return loaded
