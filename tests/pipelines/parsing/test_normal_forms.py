"""Texts of any length get their Unicode normal form, whatever marks a stranger puts on their letters."""

from __future__ import annotations

import unicodedata

import pytest

from pipelines.parsing.normal_forms import normal_form

LANGUAGES = "Smørrebrød, Zu\u0308rich, Vie\u0323\u0302t Nam, ｐｒｉｖａｔｅ, \u1112\u1161\u11ab글, שָׁלוֹם, ละคร, ﷺ, ㌔. "


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_long_text_of_any_language_has_the_form_that_unicode_defines(form):
    text = LANGUAGES * 1_000
    assert normal_form(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("marks", ["\u0315\u0300", "\uff9e\u0315\u0300", "\u0f73\u0315\u0300\u0344"])
def test_a_letter_of_a_long_text_keeps_thirty_marks_as_written(marks):
    text = normal_form("NFKC", "a" + marks * 10_000 + "z")
    assert text == unicodedata.normalize("NFKC", ("a" + marks * 15)[:31] + "z")
