"""The agent at play: a film of several episodes, agent and explorer side by side from the same starts.

The agent plays without exploration noise. The explorer plays as it drives in training: it explores, and learns from
what it sees; the saved file is not changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from polaug.checks import positive, whole
from polaug.errors import invalid
from polaug.exploration import Explorer, Transitions
from polaug.study.captions import Panel, draw_frame
from polaug.study.explore import batch_of_one
from polaug.study.film import Film, open_film
from polaug.study.saved import find_file, find_task, open_players
from polaug.study.tasks import Task

_HOLD = 1.5  # seconds for which the end of an episode stays
_LONGEST = 2_000  # steps of an episode whose environment sets no limit
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

    Parameters
    ----------
    model
        A zip saved by `model.save()`, or a run folder of `polaug train`. It holds pickles: open only what you trust.
    out
        The film's path.
    env, algo
        Environment and algorithm; a run folder names the first, and the file itself gives the second away.
    episodes, seed
        Episode k starts from the environment's seed `seed` + k, for agent and explorer alike.
    fps
        Environment steps per second; by default the environment's own speed.
    width
        Of the whole picture in pixels.
    vecnormalize
        What `VecNormalize.save()` wrote, if the agent was trained under it: a pickle, so it is never looked for.
    progress
        Called with a label and the share done, 0 to 1.
    """
    whole("episodes", episodes, 1)
    whole("seed", seed, 0)
    if fps is not None:
        positive("fps", fps)
    if width is not None and not _NARROWEST <= whole("width", width, 1) <= _WIDEST:
        raise invalid("width", f"must lie in [{_NARROWEST}, {_WIDEST}]", width, "Pass for example width=640.")
    path = Path(out)
    file = find_file(model)
    with _headless(), contextlib.ExitStack() as stack:
        found = find_task(file, env)
        mode = _render_mode(found)
        players = open_players(file, found, algo=algo, vecnormalize=vecnormalize)
        envs = [stack.enter_context(contextlib.closing(found.make(render_mode=mode))) for _ in range(2)]
        casts = [Cast(envs[0], "agent", f"{players.algorithm}, no exploration noise", players.agent)]
        if players.explorer is not None:
            casts.append(Cast(envs[1], "explorer", "as it drives in training", *_driver(players.explorer)))
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
    """One player on a stage of its own."""

    def __init__(
        self,
        env: gym.Env[Any, Any],
        actor: str,
        note: str,
        choose: Callable[[Any], Any],
        learn: Callable[[Any, Any, float, Any, bool, bool], None] | None = None,
    ) -> None:
        self.env, self.actor, self.note = env, actor, note
        self._choose, self._learn = choose, learn
        spec = env.spec
        self.limit = (spec.max_episode_steps if spec else None) or _LONGEST
        self.observation: Any = None
        self.step, self.total, self.ended = 0, 0.0, ""
        self._picture: Any = None

    def begin(self, seed: int) -> None:
        """A new episode."""
        self.observation, _ = self.env.reset(seed=seed)
        self.step, self.total, self.ended, self._picture = 0, 0.0, "", None

    def move(self) -> None:
        """One step; who has finished waits for the other."""
        if self.ended:
            return
        action = self._choose(self.observation)
        sent = action.item() if np.ndim(action) == 0 and isinstance(action, (np.generic, np.ndarray)) else action
        following, reward, terminated, truncated, _ = self.env.step(sent)
        if self._learn is not None:
            self._learn(self.observation, action, float(reward), following, bool(terminated), bool(truncated))
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


def _play(casts: Sequence[Cast], seed: int, title: str, film: Film, width: int) -> Iterator[float]:
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


def _driver(explorer: Explorer) -> tuple[Callable[[Any], Any], Callable[[Any, Any, float, Any, bool, bool], None]]:
    """How an explorer acts and learns on one environment."""

    def choose(observation: Any) -> Any:
        return explorer.act(batch_of_one(observation))[0]

    def learn(before: Any, action: Any, reward: float, after: Any, terminated: bool, truncated: bool) -> None:
        explorer.observe(
            Transitions(
                batch_of_one(before), np.asarray(action)[None], np.array([reward]), batch_of_one(after),
                np.array([terminated]), np.array([truncated]),
            )
        )  # fmt: skip

    return choose, learn


def _render_mode(found: Task) -> str:
    """rgb_array if the environment can, otherwise ansi, which is drawn as text."""
    with contextlib.closing(found.make()) as env:
        modes = list(env.metadata.get("render_modes") or ())
    for mode in ("rgb_array", "ansi"):
        if mode in modes:
            return mode
    rule = f'must be able to render as "rgb_array" or "ansi", but offers {modes or "nothing"}'
    raise invalid("env", rule, found.name, "Give the environment such a render mode.")


def _rendered(env: gym.Env[Any, Any]) -> Any:
    try:
        picture = env.render()
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


@contextlib.contextmanager
def _headless() -> Iterator[None]:
    """No window and no greeting from pygame, here only."""
    wanted = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
