"""Drawing one frame of a film: the players side by side, each with who acts, step and return below a common title."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from PIL.ImageFont import FreeTypeFont

COLOURS = {"agent": "#0072B2", "explorer": "#D55E00"}  # the report's: told apart by the colour-blind, too
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
    """The frame, `width` pixels wide and of even size, which MP4 needs."""
    each = (width - _GAP * (len(panels) + 1)) // len(panels)
    size = max(11, min(18, each // 22))
    line = round(1.6 * size)
    pictures = [picture_of(panel.picture, each) for panel in panels]
    tallest = max(picture.height for picture in pictures)
    height = 3 * line + tallest + 3 * _GAP
    frame = Image.new("RGB", (width + width % 2, height + height % 2), _PAPER)
    pen = ImageDraw.Draw(frame)
    pen.text((_GAP, _GAP), fitted(title, size, width - 2 * _GAP), font=font(size), fill=_INK)
    for k, (panel, picture) in enumerate(zip(panels, pictures, strict=True)):
        left, top = _GAP + k * (each + _GAP), _GAP + line
        colour = COLOURS[panel.actor]
        name_width = pen.textlength(panel.actor, font=font(size, "Bold"))
        pen.rectangle((left, top, left + name_width + size, top + line - 4), fill=colour)
        pen.text((left + size // 2, top + 1), panel.actor, font=font(size, "Bold"), fill=_PAPER)
        room = each - name_width - 2 * size
        pen.text(
            (left + name_width + 1.6 * size, top + 1), fitted(panel.note, size, room), font=font(size), fill=_FAINT
        )
        frame.paste(picture, (left, top + line))
        box = (left, top + line, left + each - 1, top + line + picture.height - 1)
        pen.rectangle(box, outline=colour if panel.ended else "#C8C8C8", width=3 if panel.ended else 1)
        words = f"step {panel.step}   return {number(panel.total)}" + (f"   {panel.ended}" if panel.ended else "")
        pen.text((left, top + line + picture.height + _GAP // 2), fitted(words, size, each), font=font(size), fill=_INK)
    return frame


def number(value: float) -> str:
    """A return as people write it: a true minus sign, decimals only where they tell something."""
    digits = 0 if abs(value) >= 100 or value == round(value) else 2
    return f"{value:.{digits}f}".replace("-", "−")


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


def fitted(text: str, size: int, room: float) -> str:
    """`text`, shortened with an ellipsis if it is wider than `room`."""
    if font(size).getlength(text) <= room:
        return text
    while text and font(size).getlength(text + "…") > room:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


@functools.cache
def font(size: int, weight: str = "", *, mono: bool = False) -> FreeTypeFont:
    """DejaVu, which comes with Matplotlib: every machine draws the same letters."""
    name = "DejaVuSansMono" if mono else "DejaVuSans" + (f"-{weight}" if weight else "")
    return ImageFont.truetype(Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf", size)
