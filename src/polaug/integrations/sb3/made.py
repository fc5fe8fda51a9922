"""Classes that a function makes of others: a pickle holds the call that makes them, since no module has their name."""

from __future__ import annotations

import copyreg
from abc import ABCMeta
from collections.abc import Callable
from typing import Any


class Made(ABCMeta):
    """The type of such classes (SB3's are abstract, so it is one of abstract classes)."""

    made_by: tuple[Callable[[Any], Any], Any]
    """The function, and the class that it was called with."""


def _call(cls: Made) -> tuple[Callable[[Any], Any], tuple[Any]]:
    function, given = cls.made_by
    return function, (given,)


copyreg.pickle(Made, _call)
