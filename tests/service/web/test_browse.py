"""The page to browse without a browser: a level at a time, narrowed down by its address, and page by page."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

import pytest

from pipelines.filters import NO_FILTERS, parse_filters
from pipelines.formats import format_of
from queue_config.settings import Settings
from service.usecases.audience import agents
from service.usecases.browsing import in_folder, list_notes, newest_notes, notes_directly_in, part_of
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
    assert (part.below, part.here) == (4, 2)


@pytest.fixture
def divided(vault, tmp_path, tiny_model):
    """A vault of two domains that have a folder of the same name in another case, and a private note."""
    (vault / "_domains.yaml").write_text("notes: {legacy: true}\nwork: {path: Garden/Work}\n")
    for n in range(5):
        for path in (f"Garden/N{n}.md", f"Garden/Work/W{n}.md", f"garden/n{n}.md"):
            (vault / path).parent.mkdir(parents=True, exist_ok=True)
            (vault / path).write_text(f"---\ntags: [all]\ndate: 2026-01-0{n + 1}\n---\n# {path}\n")
    (vault / "Garden/Secret.md").write_text("---\ntags: [secret]\nprivate: true\n---\n# Secret\n")
    (vault / "Garden/Data.TXT").write_text("plain")
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    return settings


def test_numbers_and_pages_are_those_of_all_notes_counted_one_by_one(divided):
    view = View(Resources(divided))
    for folder in ("", "garden", "GARDEN/work", "Garden"):
        for pairs in ([], [("tag", "all")], [("format", "md"), ("until", "2026-01-03")]):
            filters = parse_filters(pairs)
            within = parse_filters([*pairs, *([("folder", folder)] if folder else [])])
            notes = list_notes(view, within, "date").notes
            part = part_of(view, folder, filters)
            assert part.below == len(notes)
            assert dict(part.formats) == Counter(format_of(note.path).name for note in notes)
            listed = [entry for at in range(0, 20, 3) for entry in newest_notes(view, folder, filters, at, 3)]
            assert [(one.path, one.date) for one in listed] == [(note.path, note.date) for note in notes]
    contents, part = in_folder(view, "garden"), part_of(view, "garden")
    assert (part.groups, part.here) == (contents.groups, len(contents.notes))
    listed = [entry.path for at in range(0, 20, 3) for entry in notes_directly_in(view, part, at, 3)]
    assert listed == [note.path for note in contents.notes]


def test_what_an_audience_must_not_see_is_neither_counted_nor_listed(divided):
    resources = Resources(divided)
    view = View(resources).seen_by(agents(resources))
    part = part_of(view, "Garden")
    seen = newest_notes(view, "Garden", NO_FILTERS, 0, 50)
    seen += notes_directly_in(view, part, 0, 50)
    assert "Garden/Secret.md" not in {entry.path for entry in seen}
    assert "secret" not in dict(part.tags)
    assert dict(part_of(View(resources), "Garden").tags)["secret"] == 1
    assert part_of(View(resources), "Garden").below == part.below + 1


def test_numbers_follow_a_save(divided):
    resources = Resources(divided)
    view = View(resources)
    before = part_of(view, "").below
    (divided.vault / "New.md").write_text("---\ntags: [fresh]\n---\n# New\n")
    index_once(Resources(divided), lambda *_: None)
    after = part_of(view, "")
    assert after.below == before + 1
    assert ("fresh", 1) in after.tags


def test_a_note_whose_file_is_gone_is_not_listed(browser, vault):
    (vault / "Home.md").unlink()
    assert [text for _, text in entries(shown(browser, "/browse"))] == ["Garden/"]
