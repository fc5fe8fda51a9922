"""A real browser for the page, without a network; where there is none the tests say why they can't run."""

import os
import shutil

import pytest

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
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def look(browser):
    """Opens a page and gives it; whatever it asks of a network, or complains about, fails the test at its end."""
    contexts, complaints = [], []

    def complain(what):
        complaints.append(str(what))

    def opened(path, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and complain(message.text))
        page.on("pageerror", complain)
        page.on("dialog", lambda dialog: (complain(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda r: r.url.split(":")[0] in ("file", "data", "blob") or complain(f"request: {r.url}"))
        page.goto(path.resolve().as_uri())
        page.evaluate("polaugReport.unpacked")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
