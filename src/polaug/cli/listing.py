"""`polaug list`."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polaug
from polaug.completion import SOLVERS
from polaug.explorers import METHODS as EXPLORERS
from polaug.features import ACTION_FEATURES, STATE_FEATURES
from polaug.study import TASKS
from polaug.study.methods import METHODS


def list_() -> None:
    """List methods, explorers, transfers, solvers, features and tasks.

    Example:
      polaug list
    """
    words = "methods (ALGO[-tuned|-strong][+EXPLORER[:TRANSFER]])"
    _print_table(words, {each.name: each.description for each in METHODS.values()})
    _print_table("explorers", {name: _purpose(each, name) for name, each in EXPLORERS.items()})
    _print_table("transfers", transfers())
    tables: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("solvers", SOLVERS), ("state features", STATE_FEATURES), ("action features", ACTION_FEATURES),
    )  # fmt: skip
    for title, table in tables:
        _print_table(title, {name: _purpose(each, name) for name, each in table.items()})
    _print_table("tasks (and any Gymnasium id)", {each.name: each.description for each in TASKS.values()})


def _print_table(title: str, lines: Mapping[str, str]) -> None:
    print(title)
    width = max(map(len, lines))
    for name, line in lines.items():
        print(f"  {name:{width}}  {line}")
    print()


def _purpose(defined: Any, name: str) -> str:
    """The first sentence of the file that defines it."""
    return _sentence(inspect.getdoc(inspect.getmodule(defined)) or "", name)


def transfers() -> dict[str, str]:
    """Read from the files: importing them would take the seconds that torch takes."""
    folder = Path(polaug.__file__).parent / "coach" / "teaching"
    table = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    found = next(node.value for node in ast.walk(table) if isinstance(node, ast.AnnAssign)
                 and isinstance(node.target, ast.Name) and node.target.id == "METHODS")  # fmt: skip
    keys = [str(key.value) for key in getattr(found, "keys", []) if isinstance(key, ast.Constant)]
    texts = {key: ast.get_docstring(ast.parse((folder / f"{key}.py").read_text(encoding="utf-8"))) for key in keys}
    return {key: _sentence(text or "", key) for key, text in texts.items()}


def _sentence(text: str, name: str) -> str:
    """The first sentence, without the name in front."""
    text = " ".join(text.split("\n\n")[0].split())
    text = re.sub(rf"^`{re.escape(name)}`:? ", "", text)
    return re.split(r"\. (?=[A-Z])", text)[0].rstrip(".")  # not at "Eq. 3"
