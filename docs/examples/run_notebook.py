"""Run first_agent.ipynb and save it with its outputs, and its two figures for the page beside it."""

from __future__ import annotations

import base64
import platform
import re
from importlib import metadata
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
NOTEBOOK = HERE / "first_agent.ipynb"
FIGURES = ("returns.png", "q_map.png")


def machine() -> str:
    """What the last bits of a run depend on."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.*)$", info.read_text() if info.exists() else "", flags=re.MULTILINE)
    versions = (f"{name} {metadata.version(name)}" for name in ("numpy", "numba", "torch", "stable_baselines3"))
    return ", ".join((names[0] if names else platform.machine(), platform.python_version(), *versions))


def run(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """All cells from top to bottom in a fresh kernel; an error in one of them is raised here."""
    client = NotebookClient(notebook, timeout=900, kernel_name="python3", record_timing=False)
    client.execute(cwd=str(HERE))
    return notebook


def main() -> None:
    """Run and save."""
    notebook = run(nbformat.read(NOTEBOOK, as_version=4))
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook.metadata["made_on"] = machine()
    drawn = [
        output["data"]["image/png"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    for name, content in zip(FIGURES, drawn, strict=True):
        (HERE / name).write_bytes(base64.b64decode(content))
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    main()
