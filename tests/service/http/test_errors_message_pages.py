"""Pages with a single message say what happened and where to go on, and look like the other pages."""

from __future__ import annotations

import pytest

from queue_config.settings import Settings
from service.http.errors import error_page, message_page
from tests.service.web.test_ops_pages import shown, signed_in

SIGNED_IN = {"state": {"signed_in": True}}


@pytest.fixture
def browser(vault, tmp_path, tiny_model):
    return signed_in(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))


def test_an_address_without_a_page_gives_an_error_page_with_the_search(browser):
    page = shown(browser, "/no/such/page", 404)
    assert "There is no page at this address." in page
    assert "Not Found" not in page
    assert '<form action="/" role="search">' in page
    assert 'aria-label="Everindex"' in page


def test_an_unexpected_error_has_the_same_page(browser, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("<b>secret</b>")

    monkeypatch.setattr("service.usecases.links.Links.orphans", fail)
    browser.raise_server_exceptions = False
    browser._transport.raise_server_exceptions = False
    page = shown(browser, "/orphans", 500)
    assert "<h1>Something went wrong</h1>" in page
    assert "secret" not in page
    assert 'href="/static/style.css?v=' in page
    assert 'aria-label="Everindex"' in page


def test_a_browser_that_is_not_signed_in_sees_the_command_and_nothing_of_the_vault(browser):
    browser.headers.pop("Cookie")
    page = shown(browser, "/ops", 401)
    assert "<code>everindex open</code>" in page
    assert 'role="search"' not in page
    assert "/ops/jobs" not in page


@pytest.mark.parametrize(("state", "title"), [("parked", "Not in the index"), ("unknown", "Not found")])
def test_a_file_that_is_not_indexed_was_found_all_the_same(state, title):
    page = error_page(SIGNED_IN, 404, {"path": "Log.md", "state": state, "reason": "it is too large"})
    assert f"<h1>{title}</h1>" in page
    assert f"Log.md is {state}: it is too large" in page


def test_what_a_message_quotes_is_text():
    page = error_page(SIGNED_IN, 404, "`<b>` and <i>`</i>")
    assert "<code>&lt;b&gt;</code> and &lt;i&gt;`&lt;/i&gt;" in page
    assert "<script>alert" not in message_page(
        "<script>alert(1)</script>", "`<script>alert(2)</script>`", signed_in=True
    )
