"""All exceptions of polaug.

    PolaugError
    ├── InvalidInputError (ValueError)      a value passed by the caller breaks a stated rule
    │   ├── UnknownNameError                an unknown name; the message has the nearest valid one
    │   └── UnsupportedSpaceError           an observation or action space that is not supported
    ├── ExplorerError (RuntimeError)        an explorer failed while an agent was training with it
    ├── NotFittedError (RuntimeError)       a result was requested before fitting
    └── StateError (ValueError)             a saved state is damaged or belongs to another object

`except PolaugError` catches all of them. A message names the parameter, the rule, the value received and a remedy.
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
    """An unknown name."""


class UnsupportedSpaceError(InvalidInputError):
    """An observation or action space that is not supported."""


class ExplorerError(PolaugError, RuntimeError):
    """An explorer failed while an agent was training with it. `__cause__` is its exception."""


class NotFittedError(PolaugError, RuntimeError):
    """A result was requested before fitting."""


class StateError(PolaugError, ValueError):
    """A saved state is damaged or belongs to another object."""


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
    """The error for a `name` that is not among the `valid` names.

    The message has the nearest names and then all of them. With `where`, a command that lists them, all names follow
    only if none is near.
    """
    names, said = sorted(valid), str(name).lower()
    near = difflib.get_close_matches(said, names, cutoff=0.8) or difflib.get_close_matches(said, names, 1, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    rest = f"{where} shows all." if near and where else f"Choose from: {', '.join(names)}."
    return UnknownNameError(f"{kind.partition(' of ')[0]}: no {kind} is called {shown(name)}.{hint} {rest}")
