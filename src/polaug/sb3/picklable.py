"""Classes that are created by a function. A pickle stores the call, because no module has their name."""

from __future__ import annotations

import copyreg
from abc import ABCMeta
from collections.abc import Callable
from typing import Any


class Made(ABCMeta):
    """Metaclass of such classes; SB3's classes are abstract."""

    made_by: tuple[Callable[[Any], Any], Any]
    """The function and its argument."""


def _call(cls: Made) -> tuple[Callable[[Any], Any], tuple[Any]]:
    function, given = cls.made_by
    return function, (given,)


copyreg.pickle(Made, _call)
