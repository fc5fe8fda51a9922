"""Documentation that works: its Python runs, its commands parse, its links lead somewhere, its tables are complete."""

import inspect
import re
from pathlib import Path

import pytest

from polaug import cli
from polaug.exploration import METHODS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


BENCHMARKS = sorted({name for page in PAGES for name in re.findall(r"python -m benchmarks\.(\w+)", page.read_text())})


def blocks(language):
    """Code, first line and page of each fenced block in a language."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match[1] == language:
                line = text[: match.start()].count("\n") + 2
                found.append(pytest.param(match[2], line, page, id=f"{page.relative_to(ROOT)}:{line}"))
    return found


@pytest.mark.parametrize(("code", "line", "page"), blocks("python"))
def test_python_blocks_run_as_pasted(code, line, page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("code", "line", "page"), blocks("sh"))
def test_commands_exist(code, line, page):
    for command in code.splitlines():
        words = command.split()
        if words[:1] == ["polaug"]:
            cli._parser().parse_args(words[1:])
        elif words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_every_block_says_its_language():
    for page in PAGES:
        assert not [match[2] for match in FENCE.finditer(page.read_text(encoding="utf-8")) if not match[1]], page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_named_exist(name):
    assert (ROOT / "benchmarks" / f"{name}.py").exists()


@pytest.mark.parametrize("method", METHODS)
def test_every_explorer_has_a_page_with_all_its_settings(method):
    text = (ROOT / "docs" / "explorers" / f"{method}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {method}\n")
    for heading in ("**Idea.**", "**When it helps.**", "**When not.**", "**Settings"):
        assert heading in text
    assert f"({method}.md)" in (ROOT / "docs" / "explorers" / "index.md").read_text(encoding="utf-8")
    for option in inspect.signature(METHODS[method]).parameters.values():
        if option.name not in ("observation_space", "action_space"):
            assert f"`{option.name}`" in text, f"docs/explorers/{method}.md does not name the option {option.name}"
