"""The pages that an operator was shown: a decision is read against the page that it was made on."""

import pytest

from pipelines.state import tags
from pipelines.state.state import State
from pipelines.state.tags import Proposals

ON_BOTH_STORES = True


@pytest.fixture
def pages(place):
    State(place).close()
    proposals = Proposals(place)
    yield proposals.pages
    proposals.close()


def test_a_page_gives_what_it_showed_in_order(pages):
    pages.show("one", "d", [(7, "b.md"), (3, "a.md")], "2026-01-01")
    assert pages.shown("one", "d") == [(7, "b.md"), (3, "a.md")]


def test_a_page_of_another_domain_or_name_is_unknown(pages):
    pages.show("one", "d", [(7, "b.md")], "2026-01-01")
    assert pages.shown("one", "e") is None
    assert pages.shown("two", "d") is None


def test_only_the_newest_pages_of_a_domain_are_kept(pages, monkeypatch):
    monkeypatch.setattr(tags, "_PAGES_KEPT", 2)
    for day in (1, 2, 3):
        pages.show(f"page {day}", "d", [], f"2026-01-0{day}")
    pages.show("other", "e", [], "2026-01-01")
    assert [pages.shown(f"page {day}", "d") for day in (1, 2, 3)] == [None, [], []]
    assert pages.shown("other", "e") == []
