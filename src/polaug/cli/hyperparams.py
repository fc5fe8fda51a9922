"""Hyperparameters as people write them: NAME:VALUE, and YAML files, flat or RL Zoo's."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from polaug.errors import invalid

_LEFT_OUT = ("n_timesteps", "policy")
"""Keys of the Zoo's files that a study has settings of its own for."""


def read_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """`n_steps:512` or `n_steps=512`; values are Python's numbers, lists and names, or text."""
    found = {}
    for pair in pairs:
        at = min((pair.find(sign) for sign in ":=" if sign in pair), default=-1)
        if at < 1:
            raise invalid("-p", "must be NAME:VALUE", pair, "Pass for example -p n_steps:512.")
        found[pair[:at].strip()] = _value(pair[at + 1 :].strip())
    return found


def read_file(path: Path, env_id: str) -> dict[str, Any]:
    """The hyperparameters in a YAML file for an environment: a flat table, or the Zoo's, one table per environment."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as fault:
        reason = " ".join(str(fault).split())
        raise invalid("--hyperparams", f"must be a YAML file ({reason})", str(path), "Check it.") from fault
    if isinstance(content, dict) and any(isinstance(value, dict) for value in content.values()):
        tables = [key for key, value in content.items() if isinstance(value, dict) and key != "policy_kwargs"]
        if tables and env_id not in content:
            rule = f"{path} has no settings for this environment"
            raise invalid("--hyperparams", rule, env_id, f"It has some for {', '.join(map(str, tables))}.")
        content = content.get(env_id, content)
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise invalid("--hyperparams", "must hold names and values", str(path), "For example n_steps: 512.")
    found = {key: _value(value) for key, value in content.items() if key not in _LEFT_OUT}
    if "noise_type" in found:
        found["noise"] = [found.pop("noise_type"), found.pop("noise_std", 0.1)]
    return found


def _value(value: Any) -> Any:
    """Text as the value that it names; the Zoo writes `dict(net_arch=[64, 64])`, of which nothing is executed."""
    if not isinstance(value, str):
        return value
    try:
        node = ast.parse(value, mode="eval").body
    except (SyntaxError, ValueError):
        return value
    try:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
            return {str(each.arg): _value(ast.unparse(each.value)) for each in node.keywords}
        return ast.literal_eval(node)
    except ValueError:
        return {"true": True, "false": False, "null": None}.get(value, value)
