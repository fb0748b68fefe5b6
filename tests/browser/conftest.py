"""A real browser before a real query worker. Where Chromium or Playwright is missing, these tests are left out.

The large vault has 500 notes here; EVERINDEX_BROWSER_NOTES=3000 makes it larger, by hand.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.browser.serving import cookie_of, serving
from tests.browser.stage import make_stage, multiply_jobs

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NOTES = int(os.environ.get("EVERINDEX_BROWSER_NOTES", "500"))
JOBS, TIMES = 600, 166


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the dashboard is not driven in a browser: playwright is not installed"
    )
    if CHROMIUM is None:
        pytest.skip("the dashboard is not driven in a browser: there is no Chromium on the PATH")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def axe():
    found = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="accessibility is not checked: axe-playwright-python is not installed",
    )
    return found.Axe()


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory):
    """The folder for pictures: `EVERINDEX_SCREENSHOTS` names one that is kept."""
    folder = Path(os.environ.get("EVERINDEX_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def large(chromium, tmp_path_factory, tiny_model):  # noqa: ARG001 - without it nothing need be made
    """A large vault that no test changes, with a hundred thousand jobs in its history, and its address."""
    stage = make_stage(tmp_path_factory.mktemp("large"), tiny_model, notes=NOTES, jobs=JOBS)
    multiply_jobs(stage.state, TIMES)
    with serving(stage.settings) as address:
        yield stage, address


@pytest.fixture
def small(chromium, tmp_path, tiny_model):  # noqa: ARG001 - likewise
    """A small vault of one's own, and its address."""
    stage = make_stage(tmp_path, tiny_model, notes=60, jobs=60)
    with serving(stage.settings) as address:
        yield stage, address


@pytest.fixture
def open_page(chromium):
    """Open signed-in pages; what their consoles complain of, and what leaves the machine, fails the test.

    A test that provokes complaints adds words of them to `expected`: they may still arrive after its last line.
    """
    contexts, complaints, expected = [], [], []

    def opened(stage, address, **options):
        context = chromium.new_context(base_url=address, **options)
        contexts.append(context)
        name, value = cookie_of(stage.settings, int(address.rpartition(":")[2]))
        context.add_cookies([{"name": name, "value": value, "url": address}])
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(address) else complaints.append(sent.url))
        page.on("dialog", lambda dialog: complaints.append(f"a script ran: {dialog.message}"))
        return page

    opened.expected = expected  # type: ignore[attr-defined]  # a function that knows what may go wrong
    yield opened
    for context in contexts:
        context.close()
    assert [text for text in complaints if not any(words in text for words in expected)] == []
