"""Pages of a studio in the shared browser."""

import pytest
from tests.waiting import PATIENCE


@pytest.fixture
def open_studio(browser):
    """Opens a studio's page; a request to anywhere else, and an error on the page, fails the test at its end."""
    contexts, complaints = [], []

    def opened(url, width=1280, height=1000, lost_is_fine=False, **options):
        def heard(message):
            if message.type in ("error", "warning") and not (lost_is_fine and "ERR_CONNECTION" in message.text):
                complaints.append(message.text)

        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1_000 * PATIENCE)  # milliseconds
        page.on("console", heard)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        own = (url, "blob:", "data:")
        page.on("request", lambda r: r.url.startswith(own) or complaints.append(f"request: {r.url}"))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints
