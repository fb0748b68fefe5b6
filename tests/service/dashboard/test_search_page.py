"""The search page without a browser: its address, its parts, and what its script is given."""

from __future__ import annotations

import re

import pytest

from tests.browser.stage import make_stage
from tests.service.dashboard.test_pages import shown, signed_in


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
    assert all(re.search(r"\.md#L\d+$", address) for address in hits(shown(browser, "/parts/answers?q=soil")))


def test_titles_are_those_of_the_notes_that_are_called_so(browser):
    assert "/notes/Soils/Soil%201.md" in hits(shown(browser, "/parts/titles?q=soil 1"))
    assert hits(shown(browser, "/parts/titles?q=")) == []
    assert hits(shown(browser, f"/parts/titles?q={'soil ' * 200}")) == []


def test_a_filter_is_kept_as_a_chip_and_as_a_field_of_the_form(browser):
    page = shown(browser, "/?q=soil&folder=Soils&tag=soil&tag=&tag=soil")
    assert page.count('<input type="hidden" name="tag" value="soil">') == 1
    assert 'href="/?q=soil&amp;tag=soil" aria-label="Remove the filter folder: Soils"' in page


def test_of_a_day_that_is_given_twice_the_later_one_counts(browser):
    page = shown(browser, "/?q=soil&since=2020-01-01&since=2021-01-01")
    assert re.findall(r'name="since" value="([^"]+)"', page) == ["2021-01-01"]


def test_a_filter_that_cannot_be_used_is_said_in_the_part(browser):
    assert "tag cannot be" in shown(browser, "/parts/answers?q=soil&tag=two+words", 422)


def test_where_nothing_is_found_the_page_says_why_and_what_may_help(browser):
    page = shown(browser, "/?q=%22no+such+words%22&folder=Soils")
    assert "no note has the phrase" in page
    assert 'href="/?q=%22no+such+words%22" class="refine"' in page


@pytest.mark.parametrize("offset", ["x", "-1", "9" * 9])
def test_a_page_that_no_link_asks_for_is_the_first_one(browser, offset):
    assert hits(shown(browser, f"/?q=soil&offset={offset}")) == hits(shown(browser, "/?q=soil"))
