"""Documentation that works: its Python runs, its commands parse, its links lead somewhere, its tables are complete."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.commands import flags as flags_of
from tests.commands import parsed

import polaug
from polaug import cli
from polaug.explorers import METHODS, option_names

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


SHORTER = {"learn(8_000)": "learn(1_000)", "n_eval_episodes=100)\nprint": "n_eval_episodes=5)\nprint",
           "learn(4_096)": "learn(2_048)"}  # fmt: skip
"""What is trained for less: whether the agent of README.md gets that far is seen in the tutorial's block."""


@pytest.mark.parametrize(("code", "line", "page"), blocks("python"))
def test_python_blocks_run_as_pasted(code, line, page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.filterwarnings("ignore")  # TorchRL's own
def test_the_page_of_torchrl_runs_as_pasted():
    pytest.importorskip("torchrl")
    (code,) = [block.values[0] for block in blocks("py") if block.values[2].name == "torchrl.md"]
    names = {"__name__": "__main__"}
    exec(compile(code, "torchrl.md", "exec"), names)
    assert 0 < names["coach"].guide_steps < names["coach"].steps == names["STEPS"]
    assert names["coach"].updates > 0


def commands(code):
    """The words of each simple command: comments, pipes and redirections taken apart."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"\||&&|<\(|\)\s*$", re.sub(r"\s\d?>\s*\S+", " ", line)):
            words = shlex.split(part, comments=True)
            if words:
                yield [word.replace("$SLURM_ARRAY_TASK_ID", "7") for word in words]


@pytest.mark.parametrize(("code", "line", "page"), blocks("sh"))
def test_commands_exist(code, line, page):
    for words in commands(code):
        if words[0] == "polaug" and not words[1].startswith("--"):
            parsed(words[1:])
        elif words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        elif words[:2] == ["pip", "install"]:
            extras = re.findall(r"\[(.*?)\]", words[-1])
            declared = (ROOT / "pyproject.toml").read_text()
            assert all(re.search(rf"^{extra} = \[", declared, flags=re.MULTILINE) for extra in extras)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_exist(page):
    """`polaug train ENV --steps N` in a sentence: the command and its flags; placeholders may stand for values."""
    known = flags_of()
    text = re.sub(FENCE, "", page.read_text(encoding="utf-8"))
    for span in re.findall(r"`polaug ([^`]+)`", text):
        name, *words = span.split()
        if name != "COMMAND" and not name.startswith("-"):
            assert name in known, f"{page.name}: polaug {span}"
            flags = {word.split("=")[0] for word in words if word.startswith("--")}
            assert flags <= known[name], f"{page.name}: polaug {span}"


def test_the_commands_of_the_command_line_page_are_all():
    text = (ROOT / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8")
    for name in cli.COMMANDS:
        assert f"| `polaug {name}" in text
    for code, meaning in re.findall(r"^  (\d+) +(.*)$", cli.EXIT_CODES, flags=re.MULTILINE):
        assert re.search(rf"^\| {code} \| {re.escape(meaning.split(':')[0].split(';')[0])}", text, flags=re.MULTILINE)


def test_every_page_is_in_the_navigation():
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        assert str(page.relative_to(ROOT / "docs")) in config


def test_files_named_in_the_mathematics_exist():
    text = (ROOT / "docs" / "explanation" / "mathematics.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:src/polaug/)?((?:completion|explorers|coach|sb3)/(?:teaching/)?\w+\.py)`", text)
    assert len(named) >= 7
    for path in named:
        assert (ROOT / "src" / "polaug" / path).exists(), path


def test_every_block_says_its_language():
    for page in PAGES:
        assert not [match[2] for match in FENCE.finditer(page.read_text(encoding="utf-8")) if not match[1]], page


@pytest.mark.parametrize("name", ["augment", "make_explorer", "InductiveCompletion"])
def test_examples_in_docstrings_give_what_they_say(name):
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(polaug, name), name, globs={})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_the_site_can_be_read_from_a_disk_and_its_examples_are_code(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True, capture_output=True)
    for page in tmp_path.rglob("*.html"):
        links = re.findall(r'<a href="(?!https?:)([^"#]+)', page.read_text(encoding="utf-8"))
        assert page.name == "404.html" or all((page.parent / link).is_file() for link in links), page
    reference = (tmp_path / "reference.html").read_text(encoding="utf-8")
    assert "<blockquote>" not in reference  # what >>> becomes outside a block of code
    assert reference.count('<span class="gp">&gt;&gt;&gt; </span><span class="kn">import</span>') == 4


def test_make_clean_keeps_runs():
    recipe = re.search(r"^clean:\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)[1]
    assert "site" in recipe
    assert "runs" not in recipe


def anchors(page):
    """What a link to a place in this page may name: its headings as mkdocs and GitHub make identifiers of them."""
    text = re.sub(FENCE, "", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ +(.*?) *$", text, flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head.replace("`", "")).strip().lower()) for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name} links to {target}"
            if anchor and file.suffix == ".md":
                assert anchor[1:] in anchors(file), f"{page.name} links to {target}{anchor}"


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
    for option in option_names(METHODS[method]):
        assert f"`{option}`" in text, f"docs/explorers/{method}.md does not name the option {option}"
