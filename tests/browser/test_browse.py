"""The page to browse in a browser: by keyboard alone, by touch, and without scripts."""

from __future__ import annotations

import re

from tests.browser.test_ops import PHONE


def focused(page):
    return page.evaluate("document.activeElement.innerText")


def test_a_note_in_a_folder_is_reached_by_keyboard_alone(large, open_page):
    page = open_page(*large)
    page.goto("/browse")
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    second = focused(page)
    page.keyboard.press("k")
    page.keyboard.press("j")
    assert focused(page) == second
    page.keyboard.press("Enter")
    page.wait_for_url("**/browse?folder=**")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/notes/**")
    assert page.locator("nav.site [aria-current]").inner_text() == "Browse"


def test_slash_searches_within_what_is_shown(large, open_page):
    page = open_page(*large)
    page.goto("/browse?folder=Soils&tag=soil")
    page.keyboard.press("/")
    page.keyboard.type("compost j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=compost+j&folder=Soils&tag=soil")


def test_by_touch_and_without_scripts_folders_tags_and_pages_are_links(large, open_page):
    page = open_page(*large, viewport=PHONE, has_touch=True, java_script_enabled=False)
    page.goto("/browse")
    page.get_by_role("link", name="Soils/").tap()
    page.wait_for_url("**/browse?folder=Soils")
    page.get_by_role("navigation", name="Folder").get_by_role("link", name="All notes").tap()
    page.get_by_role("link", name="#soil").tap()
    page.wait_for_url("**/browse?tag=soil")
    page.get_by_role("link", name=re.compile("^Soil 1$")).tap()
    page.wait_for_url("**/notes/Soils/Soil%201.md")
