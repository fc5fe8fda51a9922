"""Rows of a results file: each is on disk as soon as it is measured, and what is there is not measured again."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def rows(path: Path) -> list[dict[str, str]]:
    """What has been measured; a row that a crash has cut short is left out."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if None not in row.values()]


def append(path: Path, row: Mapping[str, Any]) -> None:
    """One more row; the first brings the heads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)
