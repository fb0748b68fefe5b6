"""The search page without a browser: its address, its parts, and what its script is given."""

from __future__ import annotations

import re
from html import unescape

import pytest

from pipelines.filters import NAMES
from queue_config.settings import Settings
from service.usecases.maintenance import index_once
from tests.browser.stage import make_stage
from tests.service.web.test_ops_pages import shown, signed_in
from workers.resources import Resources


@pytest.fixture(scope="module")
def browser(tmp_path_factory, tiny_model):
    return signed_in(make_stage(tmp_path_factory.mktemp("search"), tiny_model, notes=40, jobs=5).settings)


def hits(page):
    return re.findall(r'href="(/notes/[^"]+)" class="hit"', page)


def test_a_part_is_what_the_whole_page_shows(browser):
    page, part = shown(browser, "/?q=soil+compost"), shown(browser, "/parts/answers?q=soil+compost")
    assert hits(part)
    assert hits(part) == hits(page)
    assert "<html" not in part
    assert re.findall(r'<(?:div|footer) id="(\w+)"', part) == ["chips", "found", "state"]


def test_a_hit_leads_to_its_lines(browser):
    page = shown(browser, "/parts/answers?q=soil")
    named = [re.search(r"\.md#L(\d+)-L(\d+)$", address) for address in hits(page)]
    said = [(first, last or first) for first, last in re.findall(r"lines? (\d+)(?:–(\d+))?", page)]
    assert [found and found.groups() for found in named] == said
    assert named


def test_a_hit_names_its_domain_only_where_there_are_several(browser, vault, tmp_path, tiny_model):
    assert " · vault" not in shown(browser, "/parts/answers?q=soil")
    (vault / "_domains.yaml").write_text("garden: {legacy: true}\nwork: {}\n")
    (vault / "Soil.md").write_text("Soil is alive.\n")
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    page = shown(signed_in(settings), "/parts/answers?q=soil")
    assert " · line 1 · garden · " in page
    assert "1 note in " in page


def test_a_hit_has_the_date_that_its_note_states_or_else_that_of_its_file(vault, tmp_path, tiny_model):
    (vault / "Letter.md").write_text("---\npublished: 2024-03-05\n---\nThe harvest was late.\n")
    (vault / "Note.md").write_text("A late harvest, again.\n")
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    page = shown(signed_in(settings), "/parts/answers?q=harvest")
    assert re.findall(r"(dated|changed) <time", page).count("changed") == 1
    assert 'dated <time datetime="2024-03-05">2024-03-05</time>' in page


def test_while_the_vault_is_unavailable_the_page_says_so_and_calls_no_hit_changed(
    vault, tmp_path, tiny_model
):
    (vault / "Soil.md").write_text("Soil is alive.\n")
    settings = Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))
    index_once(Resources(settings), lambda *_: None)
    browser = signed_in(settings)
    vault.rename(vault.with_name("moved"))
    page = shown(browser, "/parts/answers?q=soil")
    assert "as it was indexed: the vault is not there" in page
    assert f"1 note in {vault} · <strong>the vault {vault} is not there" in page
    assert "changed since" not in page


def test_titles_are_those_of_the_notes_that_are_called_so(browser):
    assert "/notes/Soils/Soil%201.md" in hits(shown(browser, "/parts/titles?q=soil 1"))
    assert hits(shown(browser, "/parts/titles?q=")) == []
    assert hits(shown(browser, f"/parts/titles?q={'soil ' * 200}")) == []
    assert hits(shown(browser, "/parts/titles?q=soils -soil")) == []


def test_a_filter_is_kept_as_a_chip_and_as_a_field_of_the_form(browser):
    page = shown(browser, "/?q=soil&folder=Soils&tag=soil&tag=&tag=soil")
    assert page.count('<input type="hidden" name="tag" value="soil">') == 1
    assert 'href="/?q=soil&amp;tag=soil" aria-label="Remove the filter folder: Soils"' in page


def test_path_and_section_have_fields_like_the_other_filters(browser):
    page = shown(browser, "/?q=soil&path=Soils/None.md&section=clay")
    form = page.partition('<details class="filters">')[2].partition("</details>")[0]
    assert {"path", "section", "folder"} <= set(re.findall(r' name="(\w+)"', form)) <= {*NAMES}
    assert 'aria-label="Remove the filter path: Soils/None.md"' in page
    assert '<input type="hidden" name="section" value="clay">' in page


def test_of_a_day_that_is_given_twice_the_later_one_counts(browser):
    page = shown(browser, "/?q=soil&since=2020-01-01&since=2021-01-01")
    assert re.findall(r'name="since" value="([^"]+)"', page) == ["2021-01-01"]


def test_a_filter_that_cannot_be_used_is_reported_in_the_part(browser):
    assert "tag cannot be" in shown(browser, "/parts/answers?q=soil&tag=two+words", 422)


def test_where_nothing_is_found_the_page_says_why_and_what_may_help(browser):
    page = shown(browser, "/?q=%22no+such+words%22&folder=Soils")
    assert "no note that passes the filters has the phrase" in page
    assert 'href="/?q=%22no+such+words%22" class="refine"' in page


@pytest.mark.parametrize("offset", ["x", "-1", "9" * 9])
def test_a_page_that_no_link_asks_for_is_the_first_one(browser, offset):
    assert hits(shown(browser, f"/?q=soil&offset={offset}")) == hits(shown(browser, "/?q=soil"))


def test_before_a_question_the_page_lists_notes_and_says_what_can_be_typed(browser):
    page = shown(browser, "/")
    assert "Recently changed" in page
    assert hits(page)
    assert "exactly these words in a row" in page


def test_filters_without_a_question_list_the_notes_that_pass_the_newest_first(browser):
    page = shown(browser, "/?folder=Soils")
    listed = hits(page)
    assert listed
    assert all(address.startswith("/notes/Soils/") for address in listed)
    days = re.findall(r'<time datetime="([^"]+)"', page)
    assert days == sorted(days, reverse=True)
    assert len(days) == len(listed) <= 20
    assert "Recently changed" not in page
    assert f'<span id="count">{len(listed)} note' in page or "the newest 20 are below" in page
    none = shown(browser, "/parts/answers?tag=no-such-tag")
    assert "0 notes pass these filters</span>: no note has the tag no-such-tag" in unescape(none)
    assert "tag cannot be" in shown(browser, "/parts/answers?tag=two+words", 422)


def test_in_an_empty_vault_the_page_says_how_to_begin(vault, tmp_path, tiny_model):
    empty = signed_in(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model)))
    assert "There is no note in this vault yet" in shown(empty, "/")
    review = shown(empty, "/ops/review")
    assert "<code>everindex tags propose --all-untagged</code>" in review
    assert 'data-post="/ops/review/propose"' in review


def test_a_filter_that_narrows_down_keeps_the_question_and_the_filters_in_use(browser):
    page = shown(browser, "/?q=soil&folder=fitness")
    assert re.search(r'class="chip refine" href="/\?q=soil&amp;folder=fitness&amp;tag=garden">#garden', page)


def test_what_filters_offer_is_bounded_and_text(browser, monkeypatch):
    monkeypatch.setattr("service.usecases.browsing._MOST_SUGGESTED", 3)
    monkeypatch.setattr("service.web.search._MOST_COMMUNITIES", 2)
    part = shown(browser, "/parts/filter-values")
    names = ("folder", "tag", "kind", "community")
    assert re.findall(r'<datalist id="([\w-]+)-values"', part) == [*names]
    assert part.count("<option") == 8
    assert "<datalist" in shown(browser, "/")


def test_the_communities_are_offered_by_number_and_called_by_their_names(browser):
    offered = re.findall(r'<option value="(\d+)">([^<]+)</option>', shown(browser, "/parts/filter-values"))
    listed = browser.get("/communities").json()["communities"]
    assert listed
    assert [(n, unescape(name)) for n, name in offered] == [
        (str(one["id"]), f"{one['label']} ({one['domain']})") for one in listed
    ]


def test_a_hit_names_the_address_of_its_passage_which_is_text(browser):
    page = shown(browser, "/parts/answers?q=soil+bold&folder=Hostile")
    address = unescape(re.findall(r'data-from="([^"]+)"', page)[0])
    passage = shown(browser, address)
    assert "soil &lt;b&gt;bold" in passage or "soil bold" in passage
    assert "<b>" not in passage
    assert "<script" not in passage


@pytest.mark.parametrize(
    "query", ["path=Soils/Soil 1.md", "path=Soils/Soil 1.md&at=-1", "at=1", "path=x.md&at=x"]
)
def test_a_passage_that_no_link_asks_for_is_refused(browser, query):
    shown(browser, f"/parts/passage?{query}", 422)


@pytest.mark.parametrize(("path", "status"), [("no such.md", 404), ("../../etc/passwd", 400)])
def test_the_passage_of_an_unknown_note_is_not_shown(browser, path, status):
    shown(browser, f"/parts/passage?path={path}&at=0", status)


def test_links_are_followed_where_the_page_is_asked_to(browser):
    assert "Found along links" not in shown(browser, "/?q=soil")
    assert "Found along links" in shown(browser, "/?q=soil&deep=1")
