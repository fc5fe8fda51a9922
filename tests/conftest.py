"""Settings for the whole suite: one thread per process, so that parallel workers do not fight and times do not jump.

And one real browser for the pages of report and studio.
"""

import os
import shutil

import numpy as np
import pytest
from tests.waiting import PATIENCE

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault(
    "RAY_worker_niceness", "0"
)  # Ray's workers give way to all others: beside other tests they starve
os.environ.pop("COLUMNS", None)  # a worker of pytest-xdist has it, and tables would be cut to it
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # rendering in tests never opens a window

HELP = "install Debian's package `chromium` (as root: apt-get install --no-install-recommends chromium), and playwright"


def _chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None, "the Python package playwright is not installed"
    return (found, sync_playwright) if found else (None, "no chromium on the path")


@pytest.fixture(scope="session")
def browser():
    """Skipped on a machine without a browser, but never in CI, where a page that nobody looks at would pass."""
    found, how = _chromium()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"the page can't be looked at: {how}; {HELP}")
    with how() as playwright:
        # --no-sandbox: containers run as root, and only our own files are opened.
        options = {"args": ["--no-sandbox"], "timeout": 1_000 * PATIENCE}
        launched = playwright.chromium.launch(executable_path=found, **options)
        yield launched
        launched.close()


@pytest.fixture
def quick_tables(monkeypatch):
    """The paper's figure 1 without the two explorers that drive for it."""
    tables = {name: np.array(1) for name in ("episodes", "seed", "paper.steps", "portfolio.steps")}
    for name in ("paper", "portfolio"):
        tables |= {f"{name}.{kind}": np.zeros((19, 15, 3)) for kind in ("observed", "completed")}
    monkeypatch.setattr("polaug.paper.figures.q_tables", lambda episodes: tables)
