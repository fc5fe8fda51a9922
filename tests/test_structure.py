"""The shape of the project: locked exports, one-way imports, a drawn exception tree, a table whose paths exist."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import polaug
from polaug import errors

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "polaug"

# Lower may not import higher; what stands in one line is one layer. errors is below everything.
LAYERS = ["errors", "compiled", "streams", "checks", "state", "snapshot", "config", "features", "completion",
          "explorers", "coach", "sb3", "rllib", "baselines", "study", "watch", "report", "paper", "studio", "testing",
          "cli", "__main__"]  # fmt: skip


def imports(path):
    """The polaug modules and the outside packages that a file imports, at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            if node.module == "polaug":
                yield from (f"polaug.{alias.name}" for alias in node.names)


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_dependencies_point_one_way(path):
    layer = LAYERS.index(path.relative_to(SOURCE).parts[0].removesuffix(".py"))
    for module in imports(path):
        if module.startswith("polaug."):
            other = module.split(".")[1]
            assert other in LAYERS, f"{path.name} imports {module}, which belongs to no layer"
            assert LAYERS.index(other) <= layer, f"{path.relative_to(SOURCE)} imports {module}, which is above it"


def test_only_the_border_imports_gymnasium_or_a_training_library():
    border = {"sb3", "rllib", "baselines", "study", "watch", "paper", "testing.py", "cli"}
    outside = {"gymnasium", "stable_baselines3", "sb3_contrib", "ray"}
    for path in FILES:
        if path == SOURCE / "features" / "spaces.py" or path.relative_to(SOURCE).parts[0] in border:
            continue
        found = {module.split(".")[0] for module in imports(path)} & outside
        assert not found, f"{path.relative_to(SOURCE)} imports {found}"


def test_exports_are_locked():
    """A name that appears or vanishes here is a change for users: change it together with the CHANGELOG."""
    assert sorted(polaug.__all__) == [
        "Augmentation",
        "Coach",
        "Explorer",
        "InductiveCompletion",
        "Transitions",
        "augment",
        "canonical_distance",
        "cost",
        "errors",
        "explorers",
        "make_explorer",
        "principal_angles",
        "solvers",
        "transfers",
    ]
    for name in polaug.__all__:
        assert hasattr(polaug, name)


def test_explorers_need_no_torch():
    """`import polaug` stays light: it loads no training library."""
    code = "import sys, polaug; assert 'torch' not in sys.modules; assert polaug.augment; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_exception_tree_is_the_one_drawn():
    drawn = set(re.findall(r"\b\w+Error\b", errors.__doc__)) - {"ValueError", "RuntimeError"}
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert drawn == defined
    for name in defined:
        assert issubclass(getattr(errors, name), errors.PolaugError)


def test_every_exception_raised_on_purpose_is_in_the_tree():
    """No bare ValueError, no assert on what a user passed."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                name = node.exc.func.id
                assert name not in ("ValueError", "TypeError", "RuntimeError", "Exception"), f"{path}:{node.lineno}"


def test_contributing_table_points_at_files_that_exist():
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M)
    paths = [path for row in rows for path in re.findall(r"`([^`]+)`", row)]
    assert len(paths) >= 8
    for path in paths:
        assert (ROOT / path).exists(), f"CONTRIBUTING.md names {path}"
