"""The report in the shared browser, without a network."""

from contextlib import contextmanager

import pytest
from tests.waiting import PATIENCE


@contextmanager
def looking(browser):
    """Opens a page and gives it; whatever it asks of a network, or complains about, is an error at the end."""
    contexts, complaints = [], []

    def complain(what):
        complaints.append(str(what))

    def opened(path, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1_000 * PATIENCE)  # milliseconds
        page.on("console", lambda message: message.type in ("error", "warning") and complain(message.text))
        page.on("pageerror", complain)
        page.on("dialog", lambda dialog: (complain(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda r: r.url.split(":")[0] in ("file", "data", "blob") or complain(f"request: {r.url}"))
        page.goto(path.resolve().as_uri())
        page.evaluate("polaugReport.first")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def look(browser):
    """Opens a page and gives it."""
    with looking(browser) as opened:
        yield opened
