"""The page to browse without a browser: a level at a time, narrowed down by its address, and page by page."""

from __future__ import annotations

import re
from html import unescape

import pytest

from queue_config.settings import Settings
from service.usecases.browsing import part_of
from service.usecases.maintenance import index_once
from service.usecases.search import View
from service.web import browse
from tests.service.web.test_ops_pages import shown, signed_in
from workers.resources import Resources

NOTES = {
    "Home.md": "---\ntags: [start]\n---\n# Home\n\nWelcome.\n",
    "Garden/Soil.md": "---\ntags: [earth, start]\n---\n# Soil\n\nAlive.\n",
    "Garden/Beds/Raised beds.md": "---\ntags: [Earth]\nkind: guide\n---\n# Raised beds\n\nHigh.\n",
    "Garden/Beds/Plan.md": "# Plan\n\nBeans first.\n",
    "Garden/<b>&q=1.md": "# Odd\n\nA name with marks.\n",
}


@pytest.fixture
def vault_settings(vault, tmp_path, tiny_model):
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text)
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    return settings


@pytest.fixture
def browser(vault_settings):
    return signed_in(vault_settings)


def entries(page):
    """The entries of a page's first list, each as its address and its text."""
    listed = page.partition('class="contents"')[2].partition("</section>")[0]
    return [
        (unescape(address), unescape(text))
        for address, text in re.findall(
            r'<a class="entry[^"]*"[^>]*? href="([^"]+)"[^>]*>([^<]+)</a>', listed
        )
    ]


def test_a_folder_is_shown_one_level_at_a_time(browser):
    assert entries(shown(browser, "/browse")) == [
        ("/browse?folder=Garden", "Garden/"),
        ("/notes/Home.md", "Home"),
    ]
    page = shown(browser, "/browse?folder=Garden")
    assert [text for _, text in entries(page)] == ["Beds/", "Odd", "Soil"]
    page = shown(browser, "/browse?folder=Garden/Beds")
    assert [text for _, text in entries(page)] == ["Plan", "Raised beds"]
    crumbs = page.partition('class="crumbs"')[2].partition("</nav>")[0]
    assert re.findall(r'href="([^"]+)"', crumbs) == [
        "/browse",
        "/browse?folder=Garden",
        "/browse?folder=Garden%2FBeds",
    ]


def test_every_entry_leads_to_a_page(browser):
    for address in ("/browse", "/browse?folder=Garden", "/browse?folder=Garden/Beds", "/browse?by=tag"):
        page = shown(browser, address)
        for entry in re.findall(r'class="entry[^"]*" href="([^"]+)"', page):
            assert browser.get(unescape(entry)).status_code == 200, entry


def test_filters_list_the_notes_of_all_folders_below(browser):
    assert {text for _, text in entries(shown(browser, "/browse?tag=earth"))} == {"Soil", "Raised beds"}
    assert [text for _, text in entries(shown(browser, "/browse?folder=Garden&tag=start"))] == ["Soil"]
    assert [text for _, text in entries(shown(browser, "/browse?kind=guide"))] == ["Raised beds"]
    assert len(entries(shown(browser, "/browse?format=md"))) == len(NOTES)
    page = shown(browser, "/browse?folder=Garden&tag=earth")
    assert 'name="folder" value="Garden"' in page  # a question there is asked within what is shown
    assert 'name="tag" value="earth"' in page


def test_tags_count_whatever_their_case_and_have_their_own_list(browser):
    assert entries(shown(browser, "/browse?by=tag")) == [
        ("/browse?tag=Earth", "#Earth"),
        ("/browse?tag=start", "#start"),
    ]


def test_what_cannot_be_browsed_is_said(browser):
    assert "tag cannot be" in shown(browser, "/browse?tag=two+words", 422)
    assert "No note is here" in shown(browser, "/browse?folder=Nowhere")
    assert "<b>" not in shown(browser, "/browse?folder=%3Cb%3E")


def test_following_more_shows_every_entry_once(browser, monkeypatch):
    monkeypatch.setattr(browse, "_A_PAGE", 2)
    address, seen = "/browse?folder=Garden", []
    while address:
        page = shown(browser, address)
        found = [text for _, text in entries(page) if text not in ("More", "Back")]
        assert len(found) <= 2
        seen += found
        further = re.search(r'rel="next" href="([^"]+)"', page)
        address = unescape(further[1]) if further else None
    assert seen == ["Beds/", "Odd", "Soil"]


def test_the_part_of_a_folder_counts_what_its_notes_have(vault_settings):
    part = part_of(View(Resources(vault_settings)), "Garden")
    assert part.groups == [("Garden/Beds", 2)]
    assert part.tags == [("Earth", 2), ("start", 1)]
    assert part.formats == [("md", 4)]
    assert part.kinds == [("guide", 1)]
    assert len(part.below) == 4


def test_a_note_whose_file_is_gone_is_not_listed(browser, vault):
    (vault / "Home.md").unlink()
    assert [text for _, text in entries(shown(browser, "/browse"))] == ["Garden/"]
