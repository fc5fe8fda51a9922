"""Frames in, a moving picture out: a GIF that stays small, or an MP4. Which frames come is not decided here.

A film plays in the environment's own time. A GIF leaves out frames until it is short and small enough, and shows the
others for longer; an MP4 keeps them all.
"""

from __future__ import annotations

import importlib
import io
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from polaug.errors import invalid

_MOST_FRAMES = 360
_LARGEST = 4_500_000  # bytes of a GIF; what mail and web pages still take
_SHORTEST = 0.03  # seconds: browsers slow a GIF down whose frames are shorter than two hundredths


class Film(Protocol):
    """Takes one frame per environment step."""

    def add(self, draw: Callable[[], Image.Image], *, hold: float = 0.0) -> None:
        """One step further; `draw` is called only if the frame is kept. `hold` shows it for that many seconds more."""

    def finish(self) -> None:
        """Write the file."""

    def abandon(self) -> None:
        """Clean up after an error; no file is left."""


def open_film(path: Path, fps: float) -> Film:
    """A film for a file called .gif or .mp4, with `fps` environment steps per second."""
    kinds: dict[str, Callable[[Path, float], Film]] = {".gif": Gif, ".mp4": Mp4}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise invalid("out", "must end in .gif or .mp4", str(path), "Pass for example car.gif.")
    if path.is_dir():
        raise invalid("out", "must be a file, not a folder", str(path), "Pass for example car.gif.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return kind(path, fps)


class Gif:
    """Keeps every `stride`-th frame; each time there are too many, it drops half of them."""

    def __init__(self, path: Path, fps: float) -> None:
        self._path, self._seconds = path, 1.0 / fps
        self._stride = max(1, math.ceil(_SHORTEST * fps - 1e-9))
        self._count = 0
        self._frames: list[tuple[int, float, Image.Image]] = []  # step, seconds held, picture

    def add(self, draw: Callable[[], Image.Image], *, hold: float = 0.0) -> None:
        """See Film."""
        if hold or self._count % self._stride == 0:
            self._frames.append((self._count, hold, draw()))
            if len(self._frames) > _MOST_FRAMES:
                self._thin()
        self._count += 1

    def _thin(self) -> None:
        self._stride *= 2
        self._frames = [frame for frame in self._frames if frame[1] or frame[0] % self._stride == 0]

    def finish(self) -> None:
        """Write it, smaller and smaller until it is small enough."""
        content = self._encode()
        while len(content) > _LARGEST:
            if len(self._frames) > 60:
                self._thin()
            else:
                width, height = self._frames[0][2].size
                if width < 100:
                    break
                size = (width * 3 // 4, height * 3 // 4)
                self._frames = [(step, hold, image.resize(size)) for step, hold, image in self._frames]
            content = self._encode()
        temporary = _beside(self._path)
        try:
            temporary.write_bytes(content)
            _publish(temporary, self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def abandon(self) -> None:
        """See Film."""
        self._frames = []

    def _encode(self) -> bytes:
        """All frames with the same 256 colours, so that what stands still costs nothing and does not flicker."""
        images = [image for _, _, image in self._frames]
        steps = [step for step, _, _ in self._frames]
        lengths = np.diff([*steps, max(self._count, steps[-1] + 1)]) * self._seconds
        # The format counts hundredths of a second: round the times of the changes, so that errors do not add up.
        ends = np.round(100 * np.cumsum(lengths + [hold for _, hold, _ in self._frames]))
        durations = [10 * max(2, int(hundredths)) for hundredths in np.diff([0.0, *ends])]
        sample = images[:: max(1, len(images) // 12)]
        width, height = images[0].size
        sheet = Image.new("RGB", (width, height * len(sample)))
        for k, image in enumerate(sample):
            sheet.paste(image, (0, height * k))
        palette = sheet.quantize(256, method=Image.Quantize.MEDIANCUT)
        colours = np.array(palette.getpalette()).reshape(-1, 3)
        colours[(colours > 244).all(axis=1)] = 255  # a page's white is white, not an average of light greys
        palette.putpalette(colours.ravel().tolist())
        first, *others = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
        file = io.BytesIO()
        first.save(file, "GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=False)
        return file.getvalue()


class Mp4:
    """Hands every frame to ffmpeg at once; slow films repeat frames, since players dislike less than 12 a second."""

    def __init__(self, path: Path, fps: float) -> None:
        try:
            self._ffmpeg: Any = importlib.import_module("imageio_ffmpeg")
        except ImportError as fault:
            remedy = "pip install imageio-ffmpeg, or write a .gif."
            raise invalid("out", "an .mp4 needs the package imageio-ffmpeg", str(path), remedy) from fault
        self._path = path
        self._stride = max(1, math.ceil(fps / 60.0))
        self._repeat = max(1, math.ceil(12.0 / fps))
        self._rate = fps * self._repeat / self._stride
        self._count = 0
        self._writer: Any = None

    def add(self, draw: Callable[[], Image.Image], *, hold: float = 0.0) -> None:
        """See Film."""
        if hold or self._count % self._stride == 0:
            image = draw()
            if self._writer is None:
                self._start(image.size)
            content = image.tobytes()
            for _ in range(self._repeat + round(hold * self._rate)):
                self._writer.send(content)
        self._count += 1

    def _start(self, size: tuple[int, int]) -> None:
        self._temporary = _beside(self._path)
        self._writer = self._ffmpeg.write_frames(
            str(self._temporary), size, fps=self._rate, codec="libx264", macro_block_size=2, quality=7,
            ffmpeg_log_level="error",
        )  # fmt: skip
        self._writer.send(None)

    def finish(self) -> None:
        """See Film."""
        if self._writer is not None:
            self._writer.close()
            _publish(self._temporary, self._path)

    def abandon(self) -> None:
        """See Film."""
        if self._writer is not None:
            self._writer.close()
            self._temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A temporary file in the same folder: a film appears whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
    os.close(handle)
    return Path(name)


def _publish(temporary: Path, path: Path) -> None:
    temporary.chmod(0o644)
    temporary.replace(path)
