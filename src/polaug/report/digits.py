"""Numbers as the page's data hold them, short and finite, and as people read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def short(values: Any, digits: int = 5) -> Any:
    """Nested lists of numbers with so many digits; what is not finite becomes None, whole numbers stay whole."""
    array = np.asarray(values, dtype=np.float64)
    size = np.where(np.isfinite(array) & (array != 0), np.abs(array), 1.0)
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.where(np.isfinite(scale), np.round(array * scale) / scale, array)
    return _plain(rounded.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and abs(value) < 2**53 else float(f"{value:.10g}")


def shown(value: float) -> str:
    """A number for people: three or four digits, a real minus sign."""
    if not math.isfinite(value):
        return "never"
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2
    text = f"{value:,.{digits}f}" if size < 1e6 else f"{value:.3g}"
    if "." in text and "e" not in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text.replace("-", "−")
