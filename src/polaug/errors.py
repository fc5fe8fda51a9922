"""Every exception that polaug raises on purpose, and the one way their messages are worded.

    PolaugError
    ├── InvalidInputError (ValueError)      a value passed by the caller breaks a stated rule
    │   ├── UnknownNameError                a name that is in no table; carries the nearest valid one
    │   └── UnsupportedSpaceError           an observation or action space no feature map can serve
    ├── ExplorerError (RuntimeError)        an explorer failed while an agent was training with it
    ├── NotFittedError (RuntimeError)       asked for a result before there is one
    └── StateError (ValueError)             a saved state that is damaged or belongs to something else

Catch `PolaugError` to catch them all. A message names the parameter, the rule, the value received and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np


class PolaugError(Exception):
    """Base of every exception raised by polaug."""


class InvalidInputError(PolaugError, ValueError):
    """A value passed by the caller breaks a stated rule."""


class UnknownNameError(InvalidInputError):
    """A name that is in no table."""


class UnsupportedSpaceError(InvalidInputError):
    """An observation or action space that no feature map can serve."""


class ExplorerError(PolaugError, RuntimeError):
    """An explorer failed while an agent was training with it; what it raised is the cause."""


class NotFittedError(PolaugError, RuntimeError):
    """A result was asked for before there is one."""


class StateError(PolaugError, ValueError):
    """A saved state is damaged, or belongs to something else."""


def shown(value: Any) -> str:
    """A short, single-line description of `value` for an error message: never a page of numbers."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 80 else text[:77] + "..."


def invalid(parameter: str, rule: str, value: Any, remedy: str) -> InvalidInputError:
    """The error for `parameter`, worded as *parameter: rule, got value. Remedy.*"""
    return InvalidInputError(f"{parameter}: {rule}, got {shown(value)}. {remedy}")


def unknown(kind: str, name: Any, valid: Iterable[str], where: str = "") -> UnknownNameError:
    """The error for a `name` missing from the table of `valid` names, with the nearest ones, or the nearest one.

    All of them follow, unless they are many: then `where` says what lists them, and only who is far off reads them all.
    """
    names, said = sorted(valid), str(name).lower()
    near = difflib.get_close_matches(said, names, cutoff=0.8) or difflib.get_close_matches(said, names, 1, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    rest = f"{where} shows all." if near and where else f"There are: {', '.join(names)}."
    return UnknownNameError(f"{kind.partition(' of ')[0]}: no {kind} is called {shown(name)}.{hint} {rest}")
