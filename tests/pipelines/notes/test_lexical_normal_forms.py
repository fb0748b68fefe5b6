"""Texts of any length get their Unicode normal form, whatever marks a stranger puts on their letters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.notes.lexical import fold_letters, normal_form, plain_letters

LANGUAGES = "Smørrebrød, Zu\u0308rich, Vie\u0323\u0302t Nam, ｐｒｉｖａｔｅ, \u1112\u1161\u11ab글, שָׁלוֹם, ละคร, ﷺ, ㌔. "


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_a_long_text_of_any_language_has_the_form_that_unicode_defines(form):
    text = LANGUAGES * 1_000
    assert normal_form(form, text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("marks", ["\u0315\u0300", "\uff9e\u0315\u0300", "\u0f73\u0315\u0300\u0344"])
def test_a_letter_of_a_long_text_keeps_thirty_marks_as_written(marks):
    text = normal_form("NFKC", "a" + marks * 10_000 + "z")
    assert text == unicodedata.normalize("NFKC", ("a" + marks * 15)[:31] + "z")


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Straße STRAẞE GRÖßE", "Strasse STRASSE GRÖssE"),
        ("Łódź Đà Øre ısı Ħal", "Lódź Dà Ore isi Hal"),
        ("Æther ÆTHER Æ cœur ǽ", "Aether AETHER Ae coeur ae"),
        ("Þór ÞÓR að Ðjúp ŋ ə", "Thór THÓR ad Djúp n e"),
        ("ﬁnancial oﬃce ĳs x² ½", "financial office ijs x2 1⁄2"),
        ("Ｃ＋＋ ｶﾞｲﾄﾞ ㌔", "C++ ガイド キロ"),
        ("™ № ℃ ① → 🚀 ㅋㅋ คำ", "™ № ℃ ① → 🚀 ㅋㅋ คำ"),
    ],
)
def test_letters_are_replaced_by_what_people_type_for_them_and_symbols_stay(written, typed):
    assert plain_letters(written) == typed


def test_folded_letters_have_neither_accents_nor_case():
    assert fold_letters("ŁÓDŹ Straße İzmir ΣΟΦΌΣ σοφός") == "lodz strasse izmir σοφοσ σοφοσ"


_LETTERS = st.characters(min_codepoint=0xC0, max_codepoint=0x3FF)
_KANA_AND_LIGATURES = st.characters(min_codepoint=0xFB00, max_codepoint=0xFFEF)
_JAMO = st.characters(min_codepoint=0x1100, max_codepoint=0x11FF)


@given(st.text() | st.text(_LETTERS | _KANA_AND_LIGATURES | _JAMO | st.sampled_from("\u0300が\uff9eI")))
def test_what_is_folded_stays_as_it_is(text):
    assert plain_letters(plain_letters(text)) == plain_letters(text)
    assert fold_letters(fold_letters(text)) == fold_letters(text)
