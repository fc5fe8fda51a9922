"""The agent of a run at play, with the network that the run saved last: plain arrays, nothing is unpickled."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from polaug.errors import PolaugError, StateError
from polaug.study.folder import NORMALIZATION, POLICY

PLAYERS = 4
"""Agents held in memory; the least recently watched one is closed."""
FRAME_SECONDS = 0.25
"""Seconds of play between two frames, at the environment's own speed."""
WIDTH = 360
"""Pixels of a frame."""


class Frame(NamedTuple):
    """An image and the numbers below it."""

    png: bytes
    step: int
    total: float
    ended: str


class Player:
    """One agent in a separate environment. Each `frame` plays a few more steps."""

    def __init__(self, folder: Path) -> None:
        import torch

        from polaug.study.agents import build
        from polaug.study.methods import trained
        from polaug.study.results import read_run
        from polaug.watch.agent import Cast, find_task, headless, render_mode

        if not (folder / POLICY).is_file():
            raise StateError(f"run: {folder} has no {POLICY} yet. It is written at the first evaluation.")
        torch.set_num_threads(1)  # leave the other cores to the training
        self.folder = folder
        self.lock = threading.Lock()
        config = read_run(folder, under_way=True).config
        found = find_task(folder / "model.zip", None)
        with headless():
            self._model, self._tape = build(trained(config), found, 0)
            env = found.make(render_mode=render_mode(found))
        self._cast = Cast(env, "agent", "", self._act)
        self._stride = max(1, round(FRAME_SECONDS * float(env.metadata.get("render_fps") or 30)))
        self._episode, self._loaded, self._waiting = 0, 0, False
        self._normalize: Any = None

    def _act(self, observation: Any) -> Any:
        seen = np.asarray(observation)
        seen = seen if self._normalize is None else self._normalize.normalize_obs(seen)
        return self._model.predict(seen, deterministic=True)[0]

    def frame(self) -> Frame:
        """Play on for a quarter of a second; a new episode has the newest network."""
        with self.lock:
            if self._episode == 0 or self._waiting:
                self._begin()
            else:
                for _ in range(self._stride):
                    self._cast.move()
                self._waiting = bool(self._cast.ended)
            return self._drawn()

    def _begin(self) -> None:
        from polaug.study.agents import load_policy, read_normalization  # torch comes with it

        changed = (self.folder / POLICY).stat().st_mtime_ns
        if changed != self._loaded:
            load_policy(self.folder, self._model)
            if (self.folder / NORMALIZATION).is_file():
                self._normalize = read_normalization(self.folder / NORMALIZATION, self._tape)
            self._loaded = changed
        self._cast.begin(self._episode)
        self._episode, self._waiting = self._episode + 1, False

    def _drawn(self) -> Frame:
        from polaug.watch.film import picture_of

        panel, file = self._cast.panel(), io.BytesIO()
        picture_of(panel.picture, WIDTH).quantize(64, dither=Image.Dither.NONE).save(file, "PNG")
        return Frame(file.getvalue(), panel.step, panel.total, panel.ended)

    def close(self) -> None:
        """Close the environments."""
        with self.lock:
            self._cast.env.close()
            self._tape.close()


class Players:
    """The agents that are being watched."""

    def __init__(self) -> None:
        self._held: dict[Path, Player] = {}  # the most recently watched one is the last
        self._lock = threading.Lock()

    def frame(self, folder: Path) -> Frame:
        """The next frame of the run in `folder`; StateError says why there is none."""
        with self._lock:
            try:
                player = self._held.pop(folder) if folder in self._held else Player(folder)
            except PolaugError:
                raise
            except Exception as fault:  # an environment, or settings of another version, may fail in any way
                raise StateError(f"run: {folder} cannot be played ({type(fault).__name__}: {fault}).") from fault
            self._held[folder] = player
            while len(self._held) > PLAYERS:
                self._held.pop(next(iter(self._held))).close()
        return player.frame()

    def close(self) -> None:
        """Close them all."""
        with self._lock:
            while self._held:
                self._held.popitem()[1].close()
