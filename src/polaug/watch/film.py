"""Frames in, a moving picture out: a GIF that stays small, or an MP4. Which frames come is not decided here.

A film plays in the environment's own time. A GIF leaves out frames until it is short and small enough, and shows the
others for longer; an MP4 keeps them all.
"""

from __future__ import annotations

import functools
import io
import math
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.ImageFont import FreeTypeFont

from polaug.checks import package
from polaug.errors import invalid
from polaug.state import safe_write
from polaug.study.wording import number

_MOST_FRAMES, _FEWEST_FRAMES = 360, 30
_LARGEST = 4_500_000  # bytes of a GIF; what mail and web pages still take
_SHORTEST = 0.03  # seconds: browsers slow down GIFs with frames shorter than 0.02


def open_film(path: Path, fps: float) -> Gif | Mp4:
    """A film for a file called .gif or .mp4, with `fps` environment steps per second."""
    kinds: dict[str, Callable[[Path, float], Gif | Mp4]] = {".gif": Gif, ".mp4": Mp4}
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
        """One environment step further; `draw` is called only if the frame is kept. `hold` shows it so much longer."""
        if hold or self._count % self._stride == 0:
            self._frames.append((self._count, hold, draw()))
            if len(self._frames) > _MOST_FRAMES:
                self._thin()
        self._count += 1

    def _thin(self) -> None:
        self._stride *= 2
        self._frames = [frame for frame in self._frames if frame[1] or frame[0] % self._stride == 0]

    def finish(self) -> None:
        """Write it, with fewer and fewer frames until it is small enough."""
        content = self._encode()
        while len(content) > _LARGEST and len(self._frames) > _FEWEST_FRAMES:
            self._thin()
            content = self._encode()
        safe_write(self._path, content)

    def abandon(self) -> None:
        """Clean up after an error; no file is left."""
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
        self._ffmpeg = package("imageio_ffmpeg", "out", "imageio-ffmpeg, or write a .gif")
        self._path = path
        self._stride = max(1, math.ceil(fps / 60.0))
        self._repeat = max(1, math.ceil(12.0 / fps))
        self._rate = fps * self._repeat / self._stride
        self._count = 0
        self._writer: Any = None

    def add(self, draw: Callable[[], Image.Image], *, hold: float = 0.0) -> None:
        """See `Gif`."""
        if hold or self._count % self._stride == 0:
            image = draw()
            if self._writer is None:
                self._start(image.size)
            content = image.tobytes()
            for _ in range(self._repeat + round(hold * self._rate)):
                self._writer.send(content)
        self._count += 1

    def _start(self, size: tuple[int, int]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._temporary = Path(self._folder.name) / "film.mp4"
        self._writer = self._ffmpeg.write_frames(
            str(self._temporary), size, fps=self._rate, codec="libx264", macro_block_size=2, quality=7,
            ffmpeg_log_level="error",
        )  # fmt: skip
        self._writer.send(None)

    def finish(self) -> None:
        """See `Gif`."""
        if self._writer is not None:
            self._writer.close()
            safe_write(self._path, self._temporary.read_bytes())
            self._folder.cleanup()

    def abandon(self) -> None:
        """See `Gif`."""
        if self._writer is not None:
            self._writer.close()
            self._folder.cleanup()


COLOURS = {"agent": "#0072B2", "explorer": "#D55E00"}  # the report's: distinct for colour-blind readers, too
_PAPER, _INK, _FAINT = "#FFFFFF", "#1A1A1A", "#5F5F5F"
_GAP = 8


@dataclass(frozen=True)
class Panel:
    """What one player shows now: a picture (h, w, 3) or text, and the numbers under it."""

    actor: str
    note: str
    """What the actor is, in a few words."""
    picture: Any
    step: int
    total: float
    ended: str
    """Why the episode is over; empty while it runs."""


def draw_frame(title: str, panels: Sequence[Panel], width: int) -> Image.Image:
    """The frame, `width` pixels wide and of even size, which MP4 needs. What is too long for its place is cut off."""
    each = (width - _GAP * (len(panels) + 1)) // len(panels)
    size = max(11, min(18, each // 22))
    drawn = [_panel(panel, each, size) for panel in panels]
    top = round(1.6 * size) + _GAP
    height = top + max(picture.height for picture in drawn) + _GAP
    frame = Image.new("RGB", (width + width % 2, height + height % 2), _PAPER)
    ImageDraw.Draw(frame).text((_GAP, _GAP), title, font=font(size), fill=_INK)
    for k, picture in enumerate(drawn):
        frame.paste(picture, (_GAP + k * (each + _GAP), top))
    return frame


def _panel(panel: Panel, width: int, size: int) -> Image.Image:
    """The actor's name in its colour, the picture, and the numbers."""
    picture, line, colour = picture_of(panel.picture, width), round(1.6 * size), COLOURS[panel.actor]
    image = Image.new("RGB", (width, picture.height + 2 * line + _GAP), _PAPER)
    pen, bold = ImageDraw.Draw(image), font(size, "Bold")
    name = pen.textlength(panel.actor, font=bold) + size
    pen.rectangle((0, 0, name, line - 4), fill=colour)
    pen.text((size // 2, 1), panel.actor, font=bold, fill=_PAPER)
    pen.text((name + 0.6 * size, 1), panel.note, font=font(size), fill=_FAINT)
    image.paste(picture, (0, line))
    box, width_ = (0, line, width - 1, line + picture.height - 1), 3 if panel.ended else 1
    pen.rectangle(box, outline=colour if panel.ended else "#C8C8C8", width=width_)
    words = f"step {panel.step}   return {number(panel.total)}   {panel.ended}"
    pen.text((0, line + picture.height + _GAP // 2), words, font=font(size), fill=_INK)
    return image


def picture_of(content: Any, width: int) -> Image.Image:
    """A rendered array or text as a picture of that width."""
    if isinstance(content, str):
        return _text_picture(content, width)
    array = np.asarray(content)
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=2)
    picture = Image.fromarray(np.ascontiguousarray(array[..., :3], dtype=np.uint8))
    size = (width, max(1, round(picture.height * width / picture.width)))
    small = picture.width * 2 < width  # enlarged pixels stay sharp
    return picture.resize(size, Image.Resampling.NEAREST if small else Image.Resampling.HAMMING)


def _text_picture(text: str, width: int) -> Image.Image:
    """Text in a fixed pitch, as large as fits; colour codes of terminals are left out."""
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).strip("\n").split("\n")
    columns = max(1, *map(len, lines))
    size = max(6, min(28, int((width - 16) / (0.602 * columns))))  # an advance of the font is 0.602 of its size
    pitch = round((0.85 if len(lines) > 8 else 1.25) * size)
    picture = Image.new("RGB", (width, pitch * len(lines) + 16), "#F4F4F4")
    pen = ImageDraw.Draw(picture)
    for k, line in enumerate(lines):
        pen.text((8, 8 + k * pitch), line, font=font(size, mono=True), fill=_INK)
    return picture


@functools.cache
def font(size: int, weight: str = "", *, mono: bool = False) -> FreeTypeFont:
    """DejaVu, which comes with Matplotlib: every machine draws the same letters."""
    name = "DejaVuSansMono" if mono else "DejaVuSans" + (f"-{weight}" if weight else "")
    return ImageFont.truetype(Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf", size)
